package infra

import (
	"fmt"
	"slices"

	"github.com/stagefleet/stagefleet/pkg/stage"
)

func (c *checker) service(m Map) {
	c.is("zone-rebalancing", m, "DISABLED", "AvailabilityZoneRebalancing")
	c.is("circuit-breaker", m, true, "DeploymentConfiguration", "DeploymentCircuitBreaker", "Enable")
	c.is("circuit-breaker", m, true, "DeploymentConfiguration", "DeploymentCircuitBreaker", "Rollback")
	c.is("deployment-percent", m, 100, "DeploymentConfiguration", "MinimumHealthyPercent")
	c.is("deployment-percent", m, 200, "DeploymentConfiguration", "MaximumPercent")
	c.is("service-name", m, c.owner(), "ServiceName")
	c.is("service-name", m, c.cluster(), "Cluster")
	c.is("service-name", m, Ref("TaskDefinition"), "TaskDefinition")
	c.is("platform", m, "1.4.0", "PlatformVersion")
	c.is("tags", m, "SERVICE", "PropagateTags")
	c.is("tags", m, true, "EnableECSManagedTags")
	vpc := []string{"NetworkConfiguration", "AwsvpcConfiguration"}
	c.is("private-network", m, Ref("PublicIp"), append(vpc, "AssignPublicIp")...)
	c.is("private-network", m, Ref("Subnets"), append(vpc, "Subnets")...)
	c.is("private-network", m, List{Ref("SecurityGroup")}, append(vpc, "SecurityGroups")...)
	c.only("service-surplus", m, "ServiceName", "Cluster", "TaskDefinition", "DesiredCount", "CapacityProviderStrategy", "PlatformVersion", "AvailabilityZoneRebalancing",
		"DeploymentConfiguration", "NetworkConfiguration", "HealthCheckGracePeriodSeconds", "LoadBalancers", "EnableECSManagedTags", "PropagateTags", "Tags")
	c.manifestTag(m)
	if s, ok := c.stage(); ok {
		c.stageService(s, m)
		return
	}
	c.is("server-count", m, 1, "DesiredCount")
	c.is("spot", m, List{Map{{"CapacityProvider", "FARGATE"}, {"Weight", 1}}}, "CapacityProviderStrategy")
	c.is("server-balancer", m, If{"HasCertificate", List{Map{{"ContainerName", server}, {"ContainerPort", apiPort}, {"TargetGroupArn", Ref("Targets")}}}, NoValue}, "LoadBalancers")
	c.is("server-balancer", m, If{"HasCertificate", 60, NoValue}, "HealthCheckGracePeriodSeconds")
	tags, _ := m.Get("Tags").(List)
	c.must(slices.ContainsFunc(tags, func(t any) bool { i, ok := t.(If); return ok && i.Condition == "HasCertificate" }), "server-balancer", "the service does not wait for the listener")
}

func (c *checker) stageService(s stage.Stage, m Map) {
	const of = "DeploymentConfiguration"
	alarms, _ := m.Get(of, "Alarms", "AlarmNames").(List)
	c.must(!slices.Contains(alarms, any(Ref(logical(stage.AlarmDLQ)))), "deployment-alarms", "a dead letter from before would undo every deployment")
	c.is("deployment-alarms", m, List{Ref(logical(stage.AlarmStuck)), Ref(logical(stage.AlarmQuarantine))}, of, "Alarms", "AlarmNames")
	c.is("deployment-alarms", m, true, of, "Alarms", "Enable")
	c.is("deployment-alarms", m, true, of, "Alarms", "Rollback")
	c.is("desired-count", m, nil, "DesiredCount") // every deployment would undo what scaling has decided
	want := List{Map{{"CapacityProvider", "FARGATE"}, {"Weight", 1}}}
	if s.Profile.Spot {
		want = List{Map{{"CapacityProvider", "FARGATE"}, {"Base", s.Profile.MinTasks}, {"Weight", 1}}, Map{{"CapacityProvider", "FARGATE_SPOT"}, {"Weight", 4}}}
	}
	c.is("spot", m, want, "CapacityProviderStrategy")
}

// manifestTag wants the tag by which doctor sees that a service is of another manifest.
func (c *checker) manifestTag(m Map) {
	want := c.hashOf()
	tags, _ := m.Get("Tags").(List)
	c.must(slices.ContainsFunc(tags, func(t any) bool { e, ok := t.(Map); return ok && e.Get("Key") == "manifest" && e.Get("Value") == want }),
		"manifest-hash", "no tag says the manifest's hash")
}

func (c *checker) bounds(m Map) {
	s, _ := c.stage()
	c.is("scaling-bounds", m, s.Profile.MinTasks, "MinCapacity")
	c.is("scaling-bounds", m, s.Profile.MaxTasks, "MaxCapacity")
	c.must(s.Profile.MaxTasks*s.Profile.Slots <= s.Profile.Ceiling, "scaling-bounds", "more than the ceiling")
	c.is("scaling-of", m, "ecs", "ServiceNamespace")
	c.is("scaling-of", m, "ecs:service:DesiredCount", "ScalableDimension")
	c.is("scaling-of", m, Sub("service/"+c.cluster()+"/${Service.Name}"), "ResourceId")
	c.only("scaling-of", m, "ServiceNamespace", "ScalableDimension", "ResourceId", "MinCapacity", "MaxCapacity")
}

// policy states once more, apart from what writes it, what the number of tasks follows.
func (c *checker) policy(m Map) {
	s, _ := c.stage()
	const of = "TargetTrackingScalingPolicyConfiguration"
	c.is("scaling-target", m, s.BacklogTarget(), of, "TargetValue")
	c.is("scaling-pace", m, 60, of, "ScaleOutCooldown")
	c.is("scaling-pace", m, 300, of, "ScaleInCooldown")
	c.is("scaling-pace", m, nil, of, "DisableScaleIn")
	c.is("scaling-of", m, "TargetTrackingScaling", "PolicyType")
	c.is("scaling-of", m, Ref("ScalableTarget"), "ScalingTargetId")
	c.is("scaling-of", m, c.name(s.Name+"-backlog"), "PolicyName")
	c.is("scaling-metric", m, nil, of, "PredefinedMetricSpecification") // a second measure kills busy tasks
	asked := map[string]string{}
	metrics, _ := m.Get(of, "CustomizedMetricSpecification", "Metrics").(List)
	var results []string
	for _, v := range metrics {
		q, _ := v.(Map)
		id, _ := q.Get("Id").(string)
		asked[id], _ = q.Get("Expression").(string)
		if stat, ok := q.Get("MetricStat").(Map); ok {
			asked[id] = fmt.Sprint(stat.Get("Metric", "Namespace"), " ", stat.Get("Metric", "MetricName"), " ", stat.Get("Stat"), " ", stat.Get("Metric", "Dimensions"))
		}
		if q.Get("ReturnData") != false { // as CloudWatch takes it
			results = append(results, id)
		}
	}
	c.must(fmt.Sprint(results) == "[perTask]", "scaling-metric", "the results are %v, want perTask alone", results)
	want := c.wantedMetrics(s)
	for id, text := range want {
		c.must(asked[id] == text, "scaling-metric", "%s is %q, want %q", id, asked[id], text)
	}
	c.must(len(asked) == len(want), "scaling-metric", "%d metrics, want %d", len(asked), len(want))
}

// wantedMetrics are the metrics of a scaling policy by their IDs: what waits, is in flight and is delayed, per running task.
func (c *checker) wantedMetrics(s stage.Stage) map[string]string {
	sqs := func(metric string) string {
		return fmt.Sprint("AWS/SQS ", metric, " Maximum ", List{Map{{"Name", "QueueName"}, {"Value", s.QueueName(c.env)}}})
	}
	want := map[string]string{
		"visible": sqs("ApproximateNumberOfMessagesVisible"), "flight": sqs("ApproximateNumberOfMessagesNotVisible"), "delayed": sqs("ApproximateNumberOfMessagesDelayed"),
		"tasks":   fmt.Sprint("ECS/ContainerInsights RunningTaskCount Average ", List{Map{{"Name", "ClusterName"}, {"Value", c.cluster()}}, Map{{"Name", "ServiceName"}, {"Value", s.Name}}}),
		"backlog": "FILL(visible, 0) + FILL(flight, 0) + FILL(delayed, 0)",
		"running": "IF(FILL(tasks, 0) > 1, FILL(tasks, 1), 1)",
		"perTask": "backlog / running",
	}
	if s.Queue == stage.FIFO {
		want["groups"] = sqs("ApproximateNumberOfGroupsWithInflightMessages")
		want["useful"] = fmt.Sprintf("IF(FILL(groups, 0) >= running * %d, backlog, FILL(groups, 0))", s.Profile.Slots)
		want["perTask"] = "useful / running"
	}
	return want
}

package infra

import (
	"fmt"
	"strconv"

	"github.com/stagefleet/stagefleet/pkg/stage"
)

func itoa(n int) string { return strconv.Itoa(n) }

// stageStack is everything of one stage but its queues.
func (p plan) stageStack(s stage.Stage) (Template, error) {
	set, err := p.all.Settings(p.env, s.Name)
	if err != nil {
		return Template{}, err
	}
	c, err := p.workerContainer(s)
	if err != nil {
		return Template{}, err
	}
	taskRole, err := p.taskRole(s)
	if err != nil {
		return Template{}, err
	}
	t := Template{
		Name: "stage-" + s.Name, Description: fmt.Sprintf("Stagefleet %s: stage %s. Manifest %s", p.env, s.Name, set.Hash()),
		Parameters: parametersOf(),
		Resources:  []Resource{logGroup(Sub(LogGroup(p.env, s.Name)), p.tags(s.Name)), p.executionRole(s.Name, c.secrets), taskRole, c.taskDefinition()},
		Outputs: Map{
			{"TaskDefinition", Map{{"Value", Ref("TaskDefinition")}}},
			{"TaskRole", Map{{"Value", GetAtt("TaskRole.Arn")}}},
			{"Manifest", Map{{"Value", set.Hash()}}},
		},
	}
	for _, name := range s.Providers {
		t.Parameters = append(t.Parameters, providers[name].parameters...)
		t.Conditions = append(t.Conditions, providers[name].conditions...)
	}
	alarms := p.stageAlarms(s)
	t.Resources = append(t.Resources, alarms...)
	t.Resources = append(t.Resources, p.workers(s, set.Hash()), p.scalableTarget(s), p.scaling(s))
	return t, nil
}

// workers is the ECS service. It has no desired count: every deployment would undo what scaling has decided.
func (p plan) workers(s stage.Stage, hash string) Resource {
	return Resource{ID: "Service", Type: "AWS::ECS::Service", Properties: Map{
		{"ServiceName", s.Name},
		{"Cluster", p.cluster()},
		{"TaskDefinition", Ref("TaskDefinition")},
		{"CapacityProviderStrategy", capacity(s)},
		{"PlatformVersion", "1.4.0"},
		{"AvailabilityZoneRebalancing", "DISABLED"},
		{"DeploymentConfiguration", deployment(deploymentAlarms()...)},
		{"NetworkConfiguration", network()},
		{"EnableECSManagedTags", true},
		{"PropagateTags", "SERVICE"},
		{"Tags", append(p.tags(s.Name), tag("manifest", hash))},
	}}
}

// capacity keeps MinTasks on demand; what is beyond may be taken back where the stage says so.
func capacity(s stage.Stage) List {
	if !s.Profile.Spot {
		return List{Map{{"CapacityProvider", "FARGATE"}, {"Weight", 1}}}
	}
	return List{
		Map{{"CapacityProvider", "FARGATE"}, {"Base", s.Profile.MinTasks}, {"Weight", demandWeight}},
		Map{{"CapacityProvider", "FARGATE_SPOT"}, {"Weight", spotWeight}},
	}
}

// Of the tasks beyond MinTasks, those that may be taken back: four of five, so that a stage goes on when all of them are.
const (
	demandWeight = 1
	spotWeight   = 4
)

// onSpot is the share of so many tasks of the stage that may be taken back.
func onSpot(s stage.Stage, tasks float64) float64 {
	if !s.Profile.Spot || tasks <= float64(s.Profile.MinTasks) {
		return 0
	}
	return (tasks - float64(s.Profile.MinTasks)) / tasks * spotWeight / (demandWeight + spotWeight)
}

// deploymentAlarms are those that a bad release rings and old work does not: never the dead letters'.
func deploymentAlarms() []string { return []string{stage.AlarmStuck, stage.AlarmQuarantine} }

func deployment(alarms ...string) Map {
	var names List
	for _, a := range alarms {
		names = append(names, Ref(logical(a)))
	}
	m := Map{
		{"MinimumHealthyPercent", 100}, {"MaximumPercent", 200},
		{"DeploymentCircuitBreaker", Map{{"Enable", true}, {"Rollback", true}}},
	}
	if len(names) > 0 {
		m = append(m, Prop{"Alarms", Map{{"Enable", true}, {"Rollback", true}, {"AlarmNames", names}}})
	}
	return m
}

func network() Map {
	return Map{{"AwsvpcConfiguration", Map{
		{"Subnets", Ref("Subnets")}, {"SecurityGroups", List{Ref("SecurityGroup")}}, {"AssignPublicIp", Ref("PublicIp")},
	}}}
}

func (p plan) scalableTarget(s stage.Stage) Resource {
	return Resource{ID: "ScalableTarget", Type: "AWS::ApplicationAutoScaling::ScalableTarget", Properties: Map{
		{"ServiceNamespace", "ecs"},
		{"ScalableDimension", "ecs:service:DesiredCount"},
		{"ResourceId", Sub("service/" + p.cluster() + "/${Service.Name}")},
		{"MinCapacity", s.Profile.MinTasks},
		{"MaxCapacity", s.Profile.MaxTasks},
	}}
}

// scaling keeps the backlog per running task at the stage's target. Waiting, hidden and delayed messages all count: with
// waiting ones alone a fleet that is busy and has an empty queue would be scaled in. Gaps are zeros, and it never divides
// by less than one. Of a FIFO queue only as much counts as can be worked on: while slots are free although messages wait,
// these are of groups that are being worked on, and more tasks would find nothing.
func (p plan) scaling(s stage.Stage) Resource {
	queue := Map{{"QueueName", s.QueueName(p.env)}}
	metrics := List{
		measured("visible", "AWS/SQS", "ApproximateNumberOfMessagesVisible", "Maximum", queue),
		measured("flight", "AWS/SQS", "ApproximateNumberOfMessagesNotVisible", "Maximum", queue),
		measured("delayed", "AWS/SQS", "ApproximateNumberOfMessagesDelayed", "Maximum", queue),
		measured("tasks", "ECS/ContainerInsights", "RunningTaskCount", "Average", Map{{"ClusterName", p.cluster()}, {"ServiceName", s.Name}}),
		computed("backlog", "FILL(visible, 0) + FILL(flight, 0) + FILL(delayed, 0)", false),
		computed("running", "IF(FILL(tasks, 0) > 1, FILL(tasks, 1), 1)", false),
	}
	useful := "backlog"
	if s.Queue == stage.FIFO {
		useful = "useful"
		metrics = append(metrics,
			measured("groups", "AWS/SQS", "ApproximateNumberOfGroupsWithInflightMessages", "Maximum", queue),
			computed("useful", fmt.Sprintf("IF(FILL(groups, 0) >= running * %d, backlog, FILL(groups, 0))", s.Profile.Slots), false))
	}
	metrics = append(metrics, computed("perTask", useful+" / running", true))
	return Resource{ID: "Scaling", Type: "AWS::ApplicationAutoScaling::ScalingPolicy", Properties: Map{
		{"PolicyName", p.name(s.Name + "-backlog")},
		{"PolicyType", "TargetTrackingScaling"},
		{"ScalingTargetId", Ref("ScalableTarget")},
		{"TargetTrackingScalingPolicyConfiguration", Map{
			{"TargetValue", s.BacklogTarget()},
			{"ScaleOutCooldown", 60},
			{"ScaleInCooldown", 300},
			{"CustomizedMetricSpecification", Map{{"Metrics", metrics}}},
		}},
	}}
}

// measured is a metric in a query of scaling.
func measured(id, namespace, name, stat string, dimensions Map) Map {
	return Map{{"Id", id}, {"ReturnData", false}, {"MetricStat", Map{
		{"Metric", Map{{"Namespace", namespace}, {"MetricName", name}, {"Dimensions", pairs(dimensions)}}}, {"Stat", stat},
	}}}
}

// computed is an expression in a query.
func computed(id, expression string, result bool) Map {
	return Map{{"Id", id}, {"Expression", expression}, {"ReturnData", result}}
}

// pairs are dimensions as CloudWatch takes them.
func pairs(m Map) List {
	var l List
	for _, p := range m {
		l = append(l, Map{{"Name", p.Key}, {"Value", p.Value}})
	}
	return l
}

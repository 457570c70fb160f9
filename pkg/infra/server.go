package infra

import (
	"fmt"
	"time"

	"github.com/stagefleet/stagefleet/pkg/fleet"
	"github.com/stagefleet/stagefleet/pkg/stage"
	"github.com/stagefleet/stagefleet/pkg/worker"
)

// The server's size: it moves no media, and one is enough as long as it is replaced at once.
const (
	serverCPU    = 512
	serverMemory = 1024
	serverStop   = 30 * time.Second
)

// server is the stack of `fleet serve`, and of the load balancer in front of it where a certificate is given.
func (p plan) server() (Template, error) {
	hash, err := p.hash()
	if err != nil {
		return Template{}, err
	}
	c := p.serverContainer()
	t := Template{
		Name: server, Description: fmt.Sprintf("Stagefleet %s: the server. Manifest %s", p.env, hash),
		Parameters: append(parametersOf(),
			text("Certificate", "ARN of a certificate for the load balancer; empty: no load balancer, the API is for the VPC alone."),
			parameter("Vpc", "AWS::EC2::VPC::Id", "The VPC.", nil),
			parameter("LoadBalancerSecurityGroup", "AWS::EC2::SecurityGroup::Id", "The load balancer's security group, an output of the shared stack.", nil),
			text("TrustedProxies", "Networks of the load balancer, the CIDR blocks of its subnets, comma-separated; empty: all its callers count as one for the limit on wrong keys.")),
		Conditions: Map{given("Certificate")},
		Resources: []Resource{
			logGroup(Sub(LogGroup(p.env, server)), p.tags(server)), p.executionRole(server, c.secrets), p.serverRole(), c.taskDefinition(),
		},
		Outputs: Map{
			{"TaskDefinition", Map{{"Value", Ref("TaskDefinition")}}},
			{"Manifest", Map{{"Value", hash}}},
			{"Url", Map{{"Condition", "HasCertificate"}, {"Value", Sub("https://${LoadBalancer.DNSName}")}}},
		},
	}
	t.Resources = append(t.Resources, p.loadBalancer()...)
	t.Resources = append(t.Resources, p.serverAlarms()...)
	t.Resources = append(t.Resources, p.serverService(hash))
	return t, nil
}

// migrate is the task that brings the record's schema up to date. It has a stack of its own, because it runs the image of the
// next release while the server still runs that of the last one.
func (p plan) migrate() (Template, error) {
	c := container{
		plan: p, name: migration, cpu: 256, memory: 512, stop: serverStop, noRole: true,
		command: List{"migrate"}, environment: Map{{stage.EnvName, p.env}}, secrets: []secret{databaseSecret},
	}
	return Template{
		Name: migration, Description: "Stagefleet " + p.env + ": the task that migrates the record",
		Parameters: Map{parametersOf()[0], parametersOf()[1], parametersOf()[5], owner()},
		Resources:  []Resource{logGroup(Sub(LogGroup(p.env, migration)), p.tags(migration)), p.executionRole(migration, c.secrets), c.taskDefinition()},
		Outputs:    Map{{"TaskDefinition", Map{{"Value", Ref("TaskDefinition")}}}},
	}, nil
}

func (p plan) serverContainer() container {
	return container{
		plan: p, name: server, cpu: serverCPU, memory: serverMemory, stop: serverStop,
		command: List{"serve", "--addr", fmt.Sprintf("0.0.0.0:%d", apiPort)},
		health:  healthCheck(serverHealthCommand(), serverRetries),
		ports:   List{Map{{"ContainerPort", apiPort}}},
		environment: Map{
			{stage.EnvName, p.env},
			{worker.EnvBlob, Sub("s3://" + string(p.bucket()) + "/" + ObjectPrefix)},
			{worker.EnvMetrics, worker.MetricsEMF},
			{fleet.EnvProxies, Ref("TrustedProxies")},
			{"AWS_REGION", Ref("AWS::Region")},
		},
		secrets: []secret{databaseSecret},
	}
}

func (p plan) serverService(hash string) Resource {
	return Resource{ID: "Service", Type: "AWS::ECS::Service", Properties: Map{
		{"ServiceName", server},
		{"Cluster", p.cluster()},
		{"TaskDefinition", Ref("TaskDefinition")},
		{"DesiredCount", 1},
		{"CapacityProviderStrategy", List{Map{{"CapacityProvider", "FARGATE"}, {"Weight", 1}}}},
		{"PlatformVersion", "1.4.0"},
		{"AvailabilityZoneRebalancing", "DISABLED"},
		{"DeploymentConfiguration", deployment()},
		{"NetworkConfiguration", network()},
		{"HealthCheckGracePeriodSeconds", If{"HasCertificate", 60, NoValue}},
		{"LoadBalancers", If{"HasCertificate", List{Map{
			{"ContainerName", server}, {"ContainerPort", apiPort}, {"TargetGroupArn", Ref("Targets")},
		}}, NoValue}},
		{"EnableECSManagedTags", true},
		{"PropagateTags", "SERVICE"},
		// ECS takes a target group only when a load balancer has it: the tag makes the service wait for the listener.
		{"Tags", append(p.tags(server), tag("manifest", hash), If{"HasCertificate", tag("listener", Ref("Listener")), NoValue})},
	}}
}

func (p plan) loadBalancer() []Resource {
	return []Resource{
		{ID: "LoadBalancer", Type: "AWS::ElasticLoadBalancingV2::LoadBalancer", Condition: "HasCertificate", Properties: Map{
			{"Scheme", "internal"}, {"Type", "application"}, {"Subnets", Ref("Subnets")}, {"SecurityGroups", List{Ref("LoadBalancerSecurityGroup")}},
			{"LoadBalancerAttributes", List{
				Map{{"Key", "routing.http.drop_invalid_header_fields.enabled"}, {"Value", "true"}},
				Map{{"Key", "idle_timeout.timeout_seconds"}, {"Value", "120"}},
			}},
			{"Tags", p.tags(server)},
		}},
		{ID: "Targets", Type: "AWS::ElasticLoadBalancingV2::TargetGroup", Condition: "HasCertificate", Properties: Map{
			{"VpcId", Ref("Vpc")}, {"TargetType", "ip"}, {"Protocol", "HTTP"}, {"Port", apiPort},
			{"HealthCheckPath", "/healthz"}, {"HealthCheckIntervalSeconds", 30}, {"HealthyThresholdCount", 2}, {"UnhealthyThresholdCount", serverRetries},
			{"TargetGroupAttributes", List{Map{{"Key", "deregistration_delay.timeout_seconds"}, {"Value", "30"}}}},
			{"Tags", p.tags(server)},
		}},
		{ID: "Listener", Type: "AWS::ElasticLoadBalancingV2::Listener", Condition: "HasCertificate", Properties: Map{
			{"LoadBalancerArn", Ref("LoadBalancer")}, {"Protocol", "HTTPS"}, {"Port", 443}, {"SslPolicy", "ELBSecurityPolicy-TLS13-1-2-2021-06"},
			{"Certificates", List{Map{{"CertificateArn", Ref("Certificate")}}}},
			{"DefaultActions", List{Map{{"Type", "forward"}, {"TargetGroupArn", Ref("Targets")}}}},
		}},
	}
}

func (p plan) serverAlarms() []Resource {
	var all []Resource
	for _, a := range stage.ServerAlarms() {
		query := p.ownQuery(server, a, a.Signal)
		if a.Signal == stage.SignalServer {
			query = p.missing(server, a.Period)
		}
		r := p.metricAlarm(server, a, query)
		r.Properties = append(r.Properties, p.actions(a.Severity)...)
		all = append(all, r)
	}
	return append(all, p.composite(server, stage.ServerBroken(), anyOf(stage.ServerBroken())))
}

package infra

import (
	"time"

	"github.com/stagefleet/stagefleet/pkg/control"
	"github.com/stagefleet/stagefleet/pkg/stage"
	"github.com/stagefleet/stagefleet/pkg/worker"
)

// What the images promise and the task definitions use (see docker/).
const (
	User        = "65532:65532"    // neither root nor anybody else
	ScratchPath = "/tmp"           // the only folder that may be written to
	healthAddr  = "127.0.0.1:9090" // of a worker; nobody else asks
	apiPort     = 8080
)

// HealthCommand is the worker's own check; the image has no shell to be relied on.
func HealthCommand() []string { return []string{"CMD", "/app/worker", "health"} }

func serverHealthCommand() []string { return []string{"CMD", "/app/fleet", "health"} }

// LogDays is how long logs are kept.
const LogDays = 30

// includedScratch is the disk that every Fargate task has (Amazon ECS Developer Guide, "Fargate task ephemeral storage").
const includedScratch = int64(20) << 30

func seconds(d time.Duration) int { return int(d / time.Second) }

// parametersOf are what a service is told about its surroundings.
func parametersOf() Map {
	return Map{
		parameter("Image", "String", "The image, by digest.", nil, Prop{"AllowedPattern", ".+@sha256:[0-9a-f]{64}"}),
		parameter("Architecture", "String", "The processor that the image is built for.", "X86_64", Prop{"AllowedValues", List{"X86_64", "ARM64"}}),
		parameter("Subnets", "List<AWS::EC2::Subnet::Id>", "Private subnets with a way to the AWS APIs.", nil),
		parameter("SecurityGroup", "AWS::EC2::SecurityGroup::Id", "The tasks' security group, an output of the shared stack.", nil),
		parameter("PublicIp", "String", "ENABLED only in public subnets, for a first try.", "DISABLED", Prop{"AllowedValues", List{"DISABLED", "ENABLED"}}),
		parameter("DatabaseSecret", "String", "ARN of the secret whose value is the record's URL, an output of the shared stack.", nil),
		parameter("Runbooks", "String", "Where the runbooks are, for the descriptions of alarms.", "https://github.com/stagefleet/stagefleet/blob/main/deploy/runbooks"),
		owner(),
	}
}

var databaseSecret = secret{variable: worker.EnvDatabase, parameter: "DatabaseSecret"}

func logGroup(name Sub, tags List) Resource {
	return Resource{ID: "Logs", Type: "AWS::Logs::LogGroup", Keep: true, Properties: Map{
		{"LogGroupName", string(name)}, {"RetentionInDays", LogDays}, {"Tags", tags},
	}}
}

// LogGroup is the name of the log group of a stage or of the server.
func LogGroup(env, name string) string { return "/stagefleet/" + env + "/" + name }

// container is what task definitions of stages and server have in common.
type container struct {
	plan
	name        string // of the service too
	cpu, memory int
	scratch     int64
	stop        time.Duration
	environment Map
	secrets     []secret
	noRole      bool
	command     any
	health      any
	ports       any
}

func (c container) taskDefinition() Resource {
	return Resource{ID: "TaskDefinition", Type: "AWS::ECS::TaskDefinition", Properties: Map{
		{"Family", c.plan.name(c.name)},
		{"RequiresCompatibilities", List{"FARGATE"}},
		{"NetworkMode", "awsvpc"},
		{"Cpu", itoa(c.cpu)},
		{"Memory", itoa(c.memory)},
		{"RuntimePlatform", Map{{"OperatingSystemFamily", "LINUX"}, {"CpuArchitecture", Ref("Architecture")}}},
		{"EphemeralStorage", c.ephemeral()},
		{"TaskRoleArn", c.role()},
		{"ExecutionRoleArn", GetAtt("ExecutionRole.Arn")},
		{"ContainerDefinitions", List{c.definition()}},
		{"Volumes", List{Map{{"Name", "scratch"}}}},
		{"Tags", c.tags(c.name)},
	}}
}

// role is nil for what calls nothing of AWS.
func (c container) role() any {
	if c.noRole {
		return nil
	}
	return GetAtt("TaskRole.Arn")
}

// ephemeral is nil when what every task has is enough.
func (c container) ephemeral() any {
	if c.scratch <= includedScratch {
		return nil
	}
	return Map{{"SizeInGiB", int((c.scratch + 1<<30 - 1) >> 30)}}
}

func (c container) definition() Map {
	var environment, secrets List
	for _, v := range c.environment {
		environment = append(environment, Map{{"Name", v.Key}, {"Value", v.Value}})
	}
	for _, s := range c.secrets {
		var entry any = Map{{"Name", s.variable}, {"ValueFrom", Ref(s.parameter)}}
		if s.condition != "" {
			entry = If{s.condition, entry, NoValue}
		}
		secrets = append(secrets, entry)
	}
	return Map{
		{"Name", c.name},
		{"Image", Ref("Image")},
		{"VersionConsistency", "enabled"},
		{"Essential", true},
		{"Command", c.command},
		{"PortMappings", c.ports},
		{"User", User},
		{"ReadonlyRootFilesystem", true},
		{"LinuxParameters", Map{{"InitProcessEnabled", true}, {"Capabilities", Map{{"Drop", List{"ALL"}}}}}},
		{"MountPoints", List{Map{{"SourceVolume", "scratch"}, {"ContainerPath", ScratchPath}, {"ReadOnly", false}}}},
		{"StopTimeout", seconds(c.stop)},
		{"HealthCheck", c.health},
		{"Environment", environment},
		{"Secrets", secrets},
		{"LogConfiguration", Map{{"LogDriver", "awslogs"}, {"Options", Map{
			{"awslogs-group", Ref("Logs")}, {"awslogs-region", Ref("AWS::Region")}, {"awslogs-stream-prefix", c.name},
			{"mode", "non-blocking"}, {"max-buffer-size", "25m"},
		}}}},
	}
}

// healthCheck leaves a busy processor time: it asks whether the process lives, not whether it is fast.
func healthCheck(command []string, retries int) Map {
	return Map{{"Command", list(command)}, {"Interval", 30}, {"Timeout", 20}, {"Retries", retries}, {"StartPeriod", 60}}
}

// How often a check may fail. The server's asks the record too: a new server would be no better off while the record fails
// over, which takes it two minutes.
const (
	workerRetries = 5
	serverRetries = 10
)

// workerContainer is a stage's worker. Its settings are what the manifest's only producer says they are.
func (p plan) workerContainer(s stage.Stage) (container, error) {
	set, err := p.all.Settings(p.env, s.Name)
	if err != nil {
		return container{}, err
	}
	vars, err := set.Env()
	if err != nil {
		return container{}, err
	}
	var env Map
	for _, v := range vars {
		env = append(env, Prop{v.Name, v.Value})
	}
	env = append(env,
		Prop{worker.EnvBlob, Sub("s3://" + string(p.bucket()) + "/" + ObjectPrefix)},
		Prop{worker.EnvSwitch, control.ParameterName(p.env)},
		Prop{worker.EnvHealthAddr, healthAddr},
		Prop{worker.EnvMetrics, worker.MetricsEMF},
		Prop{"AWS_REGION", Ref("AWS::Region")})
	c := container{
		plan: p, name: s.Name, cpu: s.Profile.CPU, memory: s.Profile.Memory, scratch: s.Profile.Scratch(), stop: s.Durations.StopTimeout,
		environment: env, secrets: []secret{databaseSecret}, health: healthCheck(HealthCommand(), workerRetries),
	}
	for _, name := range s.Providers {
		c.environment = append(c.environment, providers[name].environment...)
		c.secrets = append(c.secrets, providers[name].secrets...)
	}
	return c, nil
}

// providerOf says what a worker needs to call a provider; without it the offline default does the work.
type providerOf struct {
	parameters, conditions, environment Map
	secrets                             []secret
}

// given is a condition: the parameter is not empty.
func given(parameter string) Prop {
	return Prop{"Has" + parameter, Not{Equals{Ref(parameter), ""}}}
}

func text(name, description string) Prop { return parameter(name, "String", description, "") }

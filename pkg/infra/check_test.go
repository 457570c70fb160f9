package infra_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/infra"
	"github.com/stagefleet/stagefleet/pkg/stage"
	"github.com/stagefleet/stagefleet/workers"
)

// set changes the value under a path, which must be there; list indexes are not part of it.
func set(m infra.Map, value any, path ...string) bool {
	for i, p := range m {
		if p.Key != path[0] {
			continue
		}
		if len(path) == 1 {
			m[i].Value = value
			return true
		}
		return setIn(p.Value, value, path[1:])
	}
	return false
}

func setIn(of, value any, path []string) bool {
	switch v := of.(type) {
	case infra.Map:
		return set(v, value, path...)
	case infra.List:
		for _, item := range v {
			if setIn(item, value, path) {
				return true
			}
		}
	}
	return false
}

// rules names the rules that were broken.
func rules(err error) string {
	var names []string
	var walk func(error)
	walk = func(err error) {
		if f, ok := err.(infra.Finding); ok { //nolint:errorlint // the tree is walked by hand, leaf by leaf
			names = append(names, f.Rule)
		}
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range joined.Unwrap() {
				walk(e)
			}
		}
	}
	walk(err)
	return strings.Join(names, " ")
}

func TestWhatIsGeneratedPassesEveryRule(t *testing.T) {
	if err := infra.Check(templates(t), workers.Stages, env); err != nil {
		t.Error(err)
	}
}

// broken is one fault of a template, and the rule that must catch it.
type broken struct {
	name, template, resource string
	path                     []string
	value                    any
	rule                     string
}

// gone takes the whole resource away, and one more adds a property that was not there.
type (
	gone    struct{}
	oneMore infra.Prop
)

// spoil makes the fault. It reports whether there was something to spoil.
func (b broken) spoil(t *infra.Template) bool {
	for i := range t.Resources {
		r := &t.Resources[i]
		if r.ID != b.resource {
			continue
		}
		switch v := b.value.(type) {
		case gone:
			t.Resources = append(t.Resources[:i:i], t.Resources[i+1:]...)
			return true
		case oneMore:
			r.Properties = append(r.Properties, infra.Prop(v))
			return true
		}
		if len(b.path) == 0 { // what the stack lets go of
			r.Keep, r.Snapshot = false, false
			return true
		}
		return set(r.Properties, b.value, b.path...)
	}
	return false
}

func brokenTemplates() []broken {
	const cut = "stage-compile"
	scaling := []string{"TargetTrackingScalingPolicyConfiguration"}
	deployment := []string{"DeploymentConfiguration"}
	in := func(path ...string) []string { return path }
	arn := func(queue string) infra.Sub {
		return infra.Sub("arn:${AWS::Partition}:sqs:${AWS::Region}:${AWS::AccountId}:" + queue)
	}
	return []broken{
		{"a property that there is not", "queues", "CompileQueue", in("VisibilityTimeout"), infra.Map{}, "value"},
		{"a text for a number", "queues", "CompileQueue", in("VisibilityTimeout"), "420s", "value"},
		{"a required property that is gone", cut, "Scaling", in("PolicyType"), nil, "required"},
		{"a value that is not among those allowed", cut, "Logs", in("RetentionInDays"), 31, "value"},
		{"a reference to nothing", cut, "Service", in("TaskDefinition"), infra.Ref("TaskDefinitions"), "reference"},
		{"an attribute of nothing", cut, "TaskDefinition", in("TaskRoleArn"), infra.GetAtt("Role.Arn"), "reference"},
		{"another stage's dead-letter queue", "queues", "CompileQueue", in("RedrivePolicy", "deadLetterTargetArn"), infra.GetAtt("CaptionDLQ.Arn"), "dlq-wiring"},
		{"thirty receives", "queues", "CompileQueue", in("RedrivePolicy", "maxReceiveCount"), 30, "max-receives"},
		{"dead letters kept for four days", "queues", "CompileDLQ", in("MessageRetentionPeriod"), 345600, "dlq-retention"},
		{"dead letters from anywhere", "queues", "CompileDLQ", in("RedriveAllowPolicy", "redrivePermission"), "allowAll", "redrive-allow"},
		{"a standard dead-letter queue for FIFO", "queues", "IngestDLQ", in("FifoQueue"), false, "queue-type"},
		{"one of the two FIFO settings", "queues", "IngestQueue", in("FifoThroughputLimit"), "perQueue", "queue-throughput"},
		{"messages in the clear", "queues", "IngestQueue", in("SqsManagedSseEnabled"), false, "queue-encryption"},
		{"a visibility below a beat", "queues", "IngestQueue", in("VisibilityTimeout"), 30, "queue-visibility"},
		{"a policy that allows", "queues", "IngestQueuePolicy", in("PolicyDocument", "Statement", "Effect"), "Allow", "tls-only"},
		{"an alarm on sends", cut, "DlqDepth", in("MetricName"), "NumberOfMessagesSent", "alarm-metric"},
		{"an alarm on the wrong queue", cut, "DlqDepth", in("Dimensions", "Value"), "stagefleet-prod-compile", "alarm-metric"},
		{"an alarm that missing data ring", cut, "DlqDepth", in("TreatMissingData"), "breaching", "alarm-missing-data"},
		{"another threshold", cut, "QueueDepth", in("Threshold"), 1000., "alarm-threshold"},
		{"another window", cut, "QueueDepth", in("DatapointsToAlarm"), 5, "alarm-window"},
		{"a misspelt metric", cut, "OldestAge", in("Metrics", "MetricStat", "Metric", "MetricName"), "ApproximateNumberOfMessageVisible", "alarm-metric"},
		{"broken metric math in an alarm", cut, "NoProgress", in("Metrics"), infra.List{}, "alarm-metric"},
		{"a runbook that there is not", cut, "DlqDepth", in("AlarmDescription"), infra.Sub("${Runbooks}/dlq.md"), "alarm-runbook"},
		{"a broken composite rule", cut, "StageBroken", in("AlarmRule"), infra.Sub(`ALARM("${DlqDepth}") AN ALARM("${NoProgress}")`), "composite-rule"},
		{"a composite that a pause does not suppress", cut, "StageAttention", in("ActionsSuppressor"), infra.Ref("DlqDepth"), "alarm-suppressor"},
		{"a composite that tells nobody", cut, "StageBroken", in("AlarmActions"), nil, "alarm-actions"},
		{"a stop timeout of Fargate's neighbour", cut, "TaskDefinition", in("ContainerDefinitions", "StopTimeout"), 500, "stop-timeout"},
		{"a writable root", cut, "TaskDefinition", in("ContainerDefinitions", "ReadonlyRootFilesystem"), false, "read-only-root"},
		{"root", cut, "TaskDefinition", in("ContainerDefinitions", "User"), "root", "non-root"},
		{"no init process", cut, "TaskDefinition", in("ContainerDefinitions", "LinuxParameters", "InitProcessEnabled"), false, "init-process"},
		{"a memory that is not the manifest's", cut, "TaskDefinition", in("Memory"), "512", "task-size"},
		{"settings of another stage", cut, "TaskDefinition", in("ContainerDefinitions", "Environment", "Value"), "{}", "settings"},
		{"rebalancing of zones", cut, "Service", in("AvailabilityZoneRebalancing"), "ENABLED", "zone-rebalancing"},
		{"no rollback", cut, "Service", in("DeploymentConfiguration", "DeploymentCircuitBreaker", "Rollback"), false, "circuit-breaker"},
		{"a deployment that a dead letter undoes", cut, "Service", in("DeploymentConfiguration", "Alarms", "AlarmNames"), infra.List{infra.Ref("DlqDepth")}, "deployment-alarms"},
		{"Spot where the stage does not say so", "stage-ingest", "Service", in("CapacityProviderStrategy", "CapacityProvider"), "FARGATE_SPOT", "spot"},
		{"no floor", cut, "ScalableTarget", in("MinCapacity"), 0, "scaling-bounds"},
		{"another target", cut, "Scaling", append(scaling, "TargetValue"), 100., "scaling-target"},
		{"scaling by what is visible alone", cut, "Scaling", append(scaling, "CustomizedMetricSpecification", "Metrics", "Expression"), "FILL(visible, 0)", "scaling-metric"},
		{"a star", cut, "TaskRole", in("Policies", "PolicyDocument", "Statement", "Action"), infra.List{"sqs:*"}, "grant-star"},
		{"a misspelt action", cut, "TaskRole", in("Policies", "PolicyDocument", "Statement", "Action"), infra.List{"sqs:RecieveMessage"}, "grant-target"},
		{"the queue of another stage", cut, "TaskRole", in("Policies", "PolicyDocument", "Statement", "Resource"), infra.List{infra.Sub("arn:${AWS::Partition}:sqs:${AWS::Region}:${AWS::AccountId}:stagefleet-prod-publish.fifo")}, "grant-target"},
		{"logs for ever", cut, "Logs", in("RetentionInDays"), nil, "log-retention"},
		{"a bucket that may be public", "shared", "Bucket", in("PublicAccessBlockConfiguration", "BlockPublicPolicy"), false, "bucket-private"},
		{"a bucket without a lifecycle", "shared", "Bucket", in("LifecycleConfiguration", "Rules"), nil, "bucket-lifecycle"},
		{"a queue that nobody receives from by its name", "queues", "CompileQueue", in("QueueName"), "stagefleet-prod-compiled", "queue-name"},
		{"a dead-letter queue that takes from the next stage's", "queues", "CompileDLQ", in("RedriveAllowPolicy", "sourceQueueArns"), infra.List{arn("stagefleet-prod-publish.fifo")}, "redrive-allow"},
		{"no redrive-allow", "queues", "CompileDLQ", in("RedriveAllowPolicy"), nil, "redrive-allow"},
		{"no redrive", "queues", "CompileQueue", in("RedrivePolicy"), nil, "dlq-wiring"},
		{"a queue that goes with its stack", "queues", "CompileQueue", nil, nil, "queue-kept"},
		{"short polls", "queues", "CompileQueue", in("ReceiveMessageWaitTimeSeconds"), 0, "queue-poll"},
		{"messages of a mebibyte", "queues", "CompileQueue", in("MaximumMessageSize"), 1 << 20, "queue-size"},
		{"a source that keeps messages for as long as its dead letters", "queues", "CompileQueue", in("MessageRetentionPeriod"), 1209600, "queue-retention"},
		{"a delay on every message", "queues", "CompileQueue", nil, oneMore{Key: "DelaySeconds", Value: 5}, "queue-surplus"},
		{"a key that no role may use", "queues", "CompileQueue", nil, oneMore{Key: "KmsMasterKeyId", Value: "alias/mine"}, "queue-surplus"},
		{"no policy on a queue", "queues", "CompileQueuePolicy", nil, gone{}, "missing"},
		{"a policy on another queue", "queues", "CompileQueuePolicy", in("Queues"), infra.List{infra.Ref("IngestQueue")}, "tls-only"},
		{"a policy about another queue", "queues", "CompileQueuePolicy", in("PolicyDocument", "Statement", "Resource"), arn("stagefleet-prod-ingest.fifo"), "tls-only"},
		{"a policy without its condition", "queues", "CompileQueuePolicy", in("PolicyDocument", "Statement", "Condition"), nil, "tls-only"},
		{"no alarm of dead letters", cut, "DlqDepth", nil, gone{}, "missing"},
		{"no alarm of missing tasks", cut, "TasksMissing", nil, gone{}, "missing"},
		{"no scaling", cut, "Scaling", nil, gone{}, "missing"},
		{"an alarm under another name", cut, "DlqDepth", in("AlarmName"), "dlq", "alarm-name"},
		{"an alarm whose actions are off", cut, "DlqDepth", nil, oneMore{Key: "ActionsEnabled", Value: false}, "alarm-surplus"},
		{"a leaf that pages", cut, "DlqDepth", in("AlarmActions"), infra.List{infra.Sub("arn:${AWS::Partition}:sns:${AWS::Region}:${AWS::AccountId}:stagefleet-prod-page")}, "alarm-actions"},
		{"a topic that anybody may publish to", "shared", "PagePolicy", in("PolicyDocument", "Statement", "Principal"), "*", "topic-policy"},
		{"a topic of every account", "shared", "PagePolicy", in("PolicyDocument", "Statement", "Condition"), nil, "topic-policy"},
		{"no policy on a topic", "shared", "InformPolicy", nil, gone{}, "missing"},
		{"a dashboard that is no JSON", "shared", "Dashboard", in("DashboardBody"), infra.Sub("{"), "dashboard"},
		{"no Container Insights", "shared", "Cluster", in("ClusterSettings"), nil, "container-insights"},
		{"a scaling that flaps", cut, "Scaling", append(scaling, "ScaleInCooldown"), 0, "scaling-pace"},
		{"a policy that measures nothing", cut, "Scaling", append(scaling, "CustomizedMetricSpecification", "Metrics"), nil, "scaling-metric"},
		{"running tasks of another service", cut, "Scaling", append(scaling, "CustomizedMetricSpecification", "Metrics", "MetricStat", "Metric", "Dimensions"), infra.List{}, "scaling-metric"},
		{"scaling of another service", cut, "ScalableTarget", in("ResourceId"), infra.Sub("service/stagefleet-prod/publish"), "scaling-of"},
		{"a fleet that is stopped before new tasks run", cut, "Service", append(deployment, "MinimumHealthyPercent"), 0, "deployment-percent"},
		{"no circuit breaker", cut, "Service", append(deployment, "DeploymentCircuitBreaker"), nil, "circuit-breaker"},
		{"deployment alarms that do nothing", cut, "Service", append(deployment, "Alarms", "Rollback"), false, "deployment-alarms"},
		{"a number of tasks in the service", cut, "Service", nil, oneMore{Key: "DesiredCount", Value: 1}, "desired-count"},
		{"two servers", "server", "Service", in("DesiredCount"), 2, "server-count"},
		{"a shell into the workers", cut, "Service", nil, oneMore{Key: "EnableExecuteCommand", Value: true}, "service-surplus"},
		{"workers on the internet", cut, "Service", in("NetworkConfiguration", "AwsvpcConfiguration", "AssignPublicIp"), "ENABLED", "private-network"},
		{"a group that lets anybody in", "shared", "TaskGroup", in("SecurityGroupIngress"), infra.List{infra.Map{{Key: "IpProtocol", Value: "-1"}, {Key: "CidrIp", Value: "0.0.0.0/0"}}}, "network"},
		{"a server that is stopped late", "server", "TaskDefinition", in("ContainerDefinitions", "StopTimeout"), 121, "stop-timeout"},
		{"every capability", cut, "TaskDefinition", in("ContainerDefinitions", "LinuxParameters", "Capabilities"), nil, "capabilities"},
		{"no place for scratch files", cut, "TaskDefinition", in("ContainerDefinitions", "MountPoints"), nil, "scratch"},
		{"a disk too small for its media", cut, "TaskDefinition", in("EphemeralStorage"), infra.Map{{Key: "SizeInGiB", Value: 5}}, "scratch"},
		{"an image by its tag", cut, "TaskDefinition", in("ContainerDefinitions", "Image"), "fleet:latest", "image-digest"},
		{"an image that may change", cut, "TaskDefinition", in("ContainerDefinitions", "VersionConsistency"), "disabled", "image-digest"},
		{"a secret in the clear", cut, "TaskDefinition", in("ContainerDefinitions", "Secrets"), nil, "secret-by-reference"},
		{"a key as a variable", "stage-identify", "TaskDefinition", in("ContainerDefinitions", "Environment", "Name"), "ANTHROPIC_API_KEY", "secret-by-reference"},
		{"no health check", cut, "TaskDefinition", in("ContainerDefinitions", "HealthCheck"), nil, "health-check"},
		{"a server that nobody asks whether it works", "server", "TaskDefinition", in("ContainerDefinitions", "HealthCheck"), nil, "health-check"},
		{"a server that a failover of the record ends", "server", "TaskDefinition", in("ContainerDefinitions", "HealthCheck", "Retries"), 3, "health-check"},
		{"a server that its load balancer ends during a failover", "server", "Targets", in("UnhealthyThresholdCount"), 2, "load-balancer"},
		{"a health check by a shell", cut, "TaskDefinition", in("ContainerDefinitions", "HealthCheck", "Command"), infra.List{"CMD-SHELL", "pgrep worker"}, "health-check"},
		{"a container whose end is none of the task", cut, "TaskDefinition", in("ContainerDefinitions", "Essential"), nil, "task-container"},
		{"a log that stops the worker", cut, "TaskDefinition", in("ContainerDefinitions", "LogConfiguration", "Options", "mode"), "blocking", "logs-nonblocking"},
		{"another processor", cut, "TaskDefinition", in("RuntimePlatform", "CpuArchitecture"), "ARM64", "task-platform"},
		{"the starting role for the work", cut, "TaskDefinition", in("TaskRoleArn"), infra.GetAtt("ExecutionRole.Arn"), "task-roles"},
		{"a role for every service", cut, "TaskRole", in("AssumeRolePolicyDocument", "Statement", "Principal", "Service"), "*", "trust"},
		{"a role for tasks of every account", cut, "TaskRole", in("AssumeRolePolicyDocument", "Statement", "Condition"), nil, "trust"},
		{"a role outside of the environment's", cut, "TaskRole", in("Path"), "/", "role-path"},
		{"a managed policy beside the grants", cut, "TaskRole", nil, oneMore{Key: "ManagedPolicyArns", Value: infra.List{"arn:aws:iam::aws:policy/AdministratorAccess"}}, "grant-surplus"},
		{"every resource", cut, "TaskRole", in("Policies", "PolicyDocument", "Statement", "Resource"), infra.List{"*"}, "grant-star"},
		{"every secret for those who start tasks", cut, "ExecutionRole", in("Policies", "PolicyDocument", "Statement"), infra.List{}, "grant-target"},
		{"a log group that goes with its stack", cut, "Logs", nil, nil, "logs-kept"},
		{"an endpoint that is missing", "shared", "EndpointEcs", nil, gone{}, "missing"},
		{"an endpoint for another service", "shared", "EndpointEcs", in("ServiceName"), infra.Sub("com.amazonaws.${AWS::Region}.ec2"), "endpoints"},
		{"a budget that tells nobody", "shared", "Budget", in("NotificationsWithSubscribers"), nil, "budget"},
		{"a queue of nobody's", "queues", "CompileQueue", in("Tags", "Value"), "fleet", "tags"},
		{"a composite of nobody's", cut, "StageBroken", in("Tags"), nil, "tags"},
		{"tasks of nobody's", cut, "Service", in("PropagateTags"), nil, "tags"},
		{"a public load balancer", "server", "LoadBalancer", in("Scheme"), "internet-facing", "load-balancer"},
		{"a public database", "shared", "Database", in("PubliclyAccessible"), true, "database"},
		{"a database in the clear", "shared", "Database", in("StorageEncrypted"), false, "database"},
		{"a database that goes with its stack", "shared", "Database", nil, nil, "database"},
		{"a password in the template", "shared", "DatabaseUrl", in("SecretString"), "postgres://fleet:secret@db/fleet", "database-secret"},
		{"tags of images that move", "shared", "Repository", in("ImageTagMutability"), "MUTABLE", "repository"},
		{"a switch that is off", "shared", "KillSwitch", in("Value"), "false", "kill-switch"},
		{"recordings in the clear", "shared", "Bucket", in("BucketEncryption"), nil, "bucket-encryption"},
	}
}

func TestEveryBrokenTemplateIsCaughtByTheRuleOfItsName(t *testing.T) {
	cases := brokenTemplates()
	for _, c := range cases {
		tmpl := template(t, c.template)
		if !c.spoil(&tmpl) {
			t.Errorf("%s: %s has no %v", c.name, c.resource, c.path)
		}
		if got := rules(infra.Check([]infra.Template{tmpl}, workers.Stages, env)); !strings.Contains(" "+got+" ", " "+c.rule+" ") {
			t.Errorf("%s: broke [%s], want %s", c.name, got, c.rule)
		}
	}
	t.Logf("%d broken templates", len(cases))
}

// TestParametersOutputsAndSizeAreHeldToo spoils what is no resource.
func TestParametersOutputsAndSizeAreHeldToo(t *testing.T) {
	for want, spoil := range map[string]func(*infra.Template){
		"image-digest":    func(t *infra.Template) { set(t.Parameters, ".+", "Image", "AllowedPattern") },
		"private-network": func(t *infra.Template) { set(t.Parameters, "ENABLED", "PublicIp", "Default") },
		"outputs":         func(t *infra.Template) { t.Outputs = nil },
		"size":            func(t *infra.Template) { t.Description = strings.Repeat("x", infra.MaxBytes) },
		"manifest-hash":   func(t *infra.Template) { t.Description = "mine" },
	} {
		tmpl := template(t, "stage-compile")
		spoil(&tmpl)
		if got := rules(infra.Check([]infra.Template{tmpl}, workers.Stages, env)); !strings.Contains(" "+got+" ", " "+want+" ") {
			t.Errorf("broke [%s], want %s", got, want)
		}
	}
}

func TestTemplatesOfAnotherManifestAreCaughtByTheHash(t *testing.T) {
	changed := append(stage.Pipeline{}, workers.Stages...)
	changed[2].Profile.MaxTasks, changed[2].Profile.Ceiling = 5, 5
	if got := rules(infra.Check(templates(t), changed, env)); !strings.Contains(got, "manifest-hash") || !strings.Contains(got, "scaling-bounds") || !strings.Contains(got, "settings") {
		t.Errorf("broke [%s]", got)
	}
}

// brokenManifests are faults of the manifest by the field whose bound they break.
var brokenManifests = map[string]func(*stage.Stage){
	"Name":                   func(s *stage.Stage) { s.Name = strings.Repeat("x", 33) },
	"Queue":                  func(s *stage.Stage) { s.Queue = "lifo" },
	"Next":                   func(s *stage.Stage) { s.Next = s.Name },
	"Providers[0]":           func(s *stage.Stage) { s.Providers = []string{"weather"} },
	"Profile.Slots":          func(s *stage.Stage) { s.Profile.Slots = -1 },
	"Profile.MinTasks":       func(s *stage.Stage) { s.Profile.MinTasks = -1 },
	"Profile.MaxTasks":       func(s *stage.Stage) { s.Profile.MinTasks, s.Profile.MaxTasks = 3, 2 },
	"Profile.Ceiling":        func(s *stage.Stage) { s.Profile.Ceiling = 1 },
	"Profile.MaxInput":       func(s *stage.Stage) { s.Profile.MaxInput = 1 << 40 },
	"Profile.Objective":      func(s *stage.Stage) { s.Profile.Objective = time.Second },
	"Profile.Typical":        func(s *stage.Stage) { s.Profile.Typical = 24 * time.Hour },
	"Profile.TimeLimit":      func(s *stage.Stage) { s.Profile.TimeLimit = 3 * time.Hour },
	"Profile.CPU":            func(s *stage.Stage) { s.Profile.CPU = 300 },
	"Profile.Memory":         func(s *stage.Stage) { s.Profile.CPU, s.Profile.Memory = 256, 8192 },
	"Durations.Visibility":   func(s *stage.Stage) { s.Durations.Visibility = 13 * time.Hour },
	"Durations.Beat":         func(s *stage.Stage) { s.Durations.Beat = 5 * time.Minute },
	"Durations.Poll":         func(s *stage.Stage) { s.Durations.Poll = 21 * time.Second },
	"Durations.StopTimeout":  func(s *stage.Stage) { s.Durations.StopTimeout = 121 * time.Second },
	"Durations.Protection":   func(s *stage.Stage) { s.Durations.Protection = 49 * time.Hour },
	"Durations.DLQRetention": func(s *stage.Stage) { s.Durations.DLQRetention = 4 * 24 * time.Hour },
	"Durations.Retention":    func(s *stage.Stage) { s.Durations.Retention = 14 * 24 * time.Hour },
	"Retry.MaxReceives":      func(s *stage.Stage) { s.Retry.MaxReceives = 1 },
	"Retry.Waits":            func(s *stage.Stage) { s.Retry.Attempts = 5 },
	"Breaker.MinSamples":     func(s *stage.Stage) { s.Breaker.CallTime, s.Breaker.MinSamples = time.Minute, 9 },
}

func TestEveryBrokenManifestIsCaughtByTheFieldOfItsName(t *testing.T) {
	for field, spoil := range brokenManifests {
		changed := append(stage.Pipeline{}, workers.Stages...)
		changed[2] = changed[2].WithDefaults()
		spoil(&changed[2])
		_, err := infra.Generate(changed, env)
		if err == nil || !strings.Contains(err.Error(), ": "+field+" is ") {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := infra.Generate(workers.Stages, "Prod"); err == nil || !strings.Contains(err.Error(), "Env is ") {
		t.Errorf("an environment with an upper-case letter: %v", err)
	}
	t.Logf("%d broken manifests", len(brokenManifests)+1)
}

func TestAManifestThatCannotWorkGivesNoTemplates(t *testing.T) {
	changed := append(stage.Pipeline{}, workers.Stages...)
	changed[2].Durations.StopTimeout = 121 * time.Second
	_, err := infra.Generate(changed, env)
	if field, ok := errors.AsType[*stage.FieldError](err); !ok || field.Field != "Durations.StopTimeout" {
		t.Errorf("error %v", err)
	}
	if _, err := infra.Generate(workers.Stages, "Prod"); err == nil {
		t.Error("an environment with an upper-case letter is accepted")
	}
}

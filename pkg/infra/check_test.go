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

func TestEveryBrokenTemplateIsCaughtByTheRuleOfItsName(t *testing.T) {
	const cut = "stage-compile"
	scaling := []string{"TargetTrackingScalingPolicyConfiguration"}
	in := func(path ...string) []string { return path }
	cases := []struct {
		name, template, resource string
		path                     []string
		value                    any
		rule                     string
	}{
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
		{"a misspelt metric", cut, "OldestAge", in("MetricName"), "ApproximateAgeOfOldestMessages", "alarm-metric"},
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
	}
	for _, c := range cases {
		all := templates(t)
		for _, tmpl := range all {
			if tmpl.Name != c.template {
				continue
			}
			r, ok := tmpl.Resource(c.resource)
			if !ok || !set(r.Properties, c.value, c.path...) {
				t.Errorf("%s: %s has no %v", c.name, c.resource, c.path)
			}
		}
		if got := rules(infra.Check(all, workers.Stages, env)); !strings.Contains(" "+got+" ", " "+c.rule+" ") {
			t.Errorf("%s: broke [%s], want %s", c.name, got, c.rule)
		}
	}
	t.Logf("%d broken templates", len(cases))
}

func TestTemplatesOfAnotherManifestAreCaughtByTheHash(t *testing.T) {
	changed := append(stage.Pipeline{}, workers.Stages...)
	changed[2].Profile.MaxTasks, changed[2].Profile.Ceiling = 5, 5
	if got := rules(infra.Check(templates(t), changed, env)); !strings.Contains(got, "manifest-hash") || !strings.Contains(got, "scaling-bounds") || !strings.Contains(got, "settings") {
		t.Errorf("broke [%s]", got)
	}
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

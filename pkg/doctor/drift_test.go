package doctor_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/stagefleet/stagefleet/pkg/doctor"
)

// field is a place in a resource where a plain value is.
type field struct {
	path string
	get  func(*resource) any
	set  func(*resource, any)
}

// fieldsOf lists the plain values of a resource that no parameter has decided.
func fieldsOf(r *resource) []field {
	var all []field
	var walk func(path string, get func(*resource) any, set func(*resource, any))
	walk = func(path string, get func(*resource) any, set func(*resource, any)) {
		if r.chosen[path] {
			return
		}
		switch v := get(r).(type) {
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(v)) {
				walk(path+"."+name,
					func(r *resource) any { return get(r).(map[string]any)[name] },
					func(r *resource, value any) { get(r).(map[string]any)[name] = value })
			}
		case []any:
			for i := range v {
				walk(fmt.Sprintf("%s[%d]", path, i),
					func(r *resource) any { return get(r).([]any)[i] },
					func(r *resource, value any) { get(r).([]any)[i] = value })
			}
		default:
			all = append(all, field{path, get, set})
		}
	}
	walk("", func(r *resource) any { return r.properties }, nil)
	return all
}

// drifted is another value of the same type.
func drifted(v any) any {
	switch v := v.(type) {
	case bool:
		return !v
	case int:
		return max(v-1, 1-v) // some of them are at their largest
	case float64:
		return v + 1
	case string:
		if v == "true" || v == "false" {
			return map[string]string{"true": "false", "false": "true"}[v]
		}
		return v + "x"
	}
	panic(fmt.Sprintf("%T", v))
}

// unmovable are fields of the templates that say which resource it is, or that AWS does not let differ: without them a
// resource is another one, which is a resource that is missing.
var unmovable = map[string]string{
	`AWS::SQS::Queue \.(QueueName|FifoQueue)`:                                            "for life",
	`AWS::SQS::Queue \.(DeduplicationScope|FifoThroughputLimit)`:                         "one value of two; see the table below",
	`AWS::SQS::Queue \.Redrive.*(deadLetterTargetArn|redrivePermission|sourceQueueArns)`: "SQS refuses a queue that does not exist or does not let itself be used; see the table below",
	`AWS::CloudWatch::\w+ \.AlarmName`:                                                   "its name",
	`AWS::ECS::Cluster \.ClusterName`:                                                    "its name",
	`AWS::ECS::TaskDefinition \.(Family|TaskRoleArn|ExecutionRoleArn)`:                   "found by the service; the roles have names of AWS's own",
	`AWS::ApplicationAutoScaling::\w+ \.(ResourceId|ServiceNamespace|ScalableDimension)`: "its name",
	`AWS::ECS::Service \.ServiceName`:                                                    "its name",
	`AWS::ApplicationAutoScaling::ScalingPolicy \.PolicyName`:                            "its name",
	`AWS::Logs::LogGroup \.LogGroupName`:                                                 "its name",
	`AWS::SSM::Parameter \.Name`:                                                         "its name",
	`AWS::S3::Bucket \.BucketName`:                                                       "its name",
	`AWS::IAM::Role \.Policies`:                                                          "asked by simulation; see the table below",
}

// kindOfField is the type and path of a field, whatever the resource and the place in a list.
func kindOfField(r *resource, f field) string { return r.kind + " " + f.path }

func movable(r *resource, f field) bool {
	for pattern := range unmovable {
		if regexp.MustCompile("^" + pattern).MatchString(kindOfField(r, f)) {
			return false
		}
	}
	return true
}

// looked are the resources in which each field drifts: a FIFO stage, a standard one, and what all share.
func looked(r *resource) bool {
	mine := r.stack == "stage-compile" || r.stack == "shared" || r.stack == "queues" && strings.HasPrefix(r.id, "Compile") || r.id == "IngestQueue" || r.id == "IngestDLQ"
	return mine && doctor.Compares(r.kind)
}

// TestEveryFieldThatDriftsIsFoundAndOnlyIt changes each field of each compared resource alone.
func TestEveryFieldThatDriftsIsFoundAndOnlyIt(t *testing.T) {
	known, drifts := map[string]bool{}, 0
	whole := newLive(t, nil)
	for _, r := range whole.resources {
		if !looked(r) {
			continue
		}
		for _, f := range fieldsOf(r) {
			if top := topOf(f); doctor.Ignores(r.kind, top) {
				f.path = "." + top // one of its fields stands for all
			}
			// The rules of a stage differ in their numbers only: a field of the same name is looked at the same way.
			if key := kindOfField(r, f); known[key] || !movable(r, f) {
				continue
			} else if known[key] = true; true {
				drifts++
			}
			t.Run(r.stack+"/"+r.id+f.path, func(t *testing.T) {
				if strings.HasPrefix(r.kind, "AWS::SQS::") { // whose server has a state of its own
					check(t, newLive(t, func(all []*resource) { drift(all, r, f) }), r, f)
					return
				}
				was := copied(r.properties).(map[string]any)
				f.set(r, drifted(f.get(r)))
				check(t, whole, r, f)
				r.properties = was
			})
		}
	}
	t.Logf("%d drifts", drifts)
	if drifts < 100 {
		t.Errorf("only %d fields drifted", drifts)
	}
}

func topOf(f field) string { return regexp.MustCompile(`^\.(\w+)`).FindStringSubmatch(f.path)[1] }

func drift(all []*resource, which *resource, f field) {
	for _, r := range all {
		if r.stack == which.stack && r.id == which.id {
			f.set(r, drifted(f.get(r)))
		}
	}
}

func check(t *testing.T, a *live, r *resource, f field) {
	t.Helper()
	// What roles may do is none of these fields; see TestWhatNoTemplateSaysIsFoundToo.
	skip := func(c *doctor.Config) { c.Skip = []doctor.Part{doctor.PartPermissions} }
	if r.kind == "AWS::IAM::Role" {
		skip = func(*doctor.Config) {}
	}
	report := a.look(t, skip)
	name := fmt.Sprintf("%s/%s%s", r.stack, r.id, f.path)
	if len(report.Unseen) > 0 {
		t.Errorf("%s: unseen: %+v", name, report.Unseen)
	}
	top := topOf(f)
	if doctor.Ignores(r.kind, top) && (top != "Tags" || tagARN(r) == "") {
		if len(report.Findings) != 0 {
			t.Errorf("%s is not compared, and yet: %+v", name, report.Findings)
		}
		return
	}
	if len(report.Findings) == 0 {
		t.Errorf("%s was not found", name)
		return
	}
	for _, found := range report.Findings {
		if !strings.HasPrefix(found.Field, top) || found.Why == "" || found.Mend == "" || found.Expected == found.Found {
			t.Errorf("%s: found %+v", name, found)
		}
	}
	// A changed name in a list is an entry that is missing and one that is too much.
	if len(report.Findings) > 2 {
		t.Errorf("%s: %d findings: %+v", name, len(report.Findings), report.Findings)
	}
	a.mend(t, report.Findings)
	if healed := a.look(t, skip); healed.Err() != nil {
		t.Errorf("%s: after %q: %+v, unseen %+v", name, report.Findings[0].Mend, healed.Findings, healed.Unseen)
	}
}

// TestWhatIsMissingIsFoundByName takes each compared resource of a stage away.
func TestWhatIsMissingIsFoundByName(t *testing.T) {
	for kind, name := range map[string]string{
		"AWS::CloudWatch::Alarm": "stagefleet-prod-compile-dlq-depth", "AWS::CloudWatch::CompositeAlarm": "stagefleet-prod-compile-stage-broken",
		"AWS::ApplicationAutoScaling::ScalingPolicy": "policy stagefleet-prod-compile-backlog", "AWS::Logs::LogGroup": "/stagefleet/prod/compile",
		"AWS::SSM::Parameter": "/stagefleet/prod/enabled", "AWS::SQS::Queue": "stagefleet-prod-compile",
		"AWS::S3::Bucket": "stagefleet-prod-111122223333-eu-west-1",
	} {
		t.Run(kind, func(t *testing.T) {
			a := newLive(t, func(all []*resource) { // SQS makes no queue of a name that was deleted a moment ago
				for _, r := range all {
					if r.kind == kind && r.id == "CompileQueue" {
						r.kind = "not made"
					}
				}
			})
			a.resources = slices.DeleteFunc(a.resources, func(r *resource) bool {
				ids := []string{"DlqDepth", "StageBroken", "Scaling", "Logs", "KillSwitch", "Bucket"}
				return r.kind == kind && (r.stack == "stage-compile" || r.stack == "shared") && slices.Contains(ids, r.id)
			})
			report := a.look(t)
			if len(report.Findings) != 1 || report.Findings[0].Resource != name || report.Findings[0].Found != "missing" {
				t.Errorf("want %s alone as missing: %+v", name, report.Findings)
			}
			a.mend(t, report.Findings)
			for _, r := range a.resources {
				if r.kind == "not made" {
					r.kind = kind // by its tags
				}
			}
			if healed := a.look(t); healed.Err() != nil {
				t.Errorf("after %q: %+v, unseen %+v", report.Findings[0].Mend, healed.Findings, healed.Unseen)
			}
		})
	}
}

// TestWhatIsMadeByAStackAloneIsMadeAgainFromIt: CloudFormation does not miss what somebody has deleted as long as the template is
// the same, so a deployment would be no mend.
func TestWhatIsMadeByAStackAloneIsMadeAgainFromIt(t *testing.T) {
	a := newLive(t, nil)
	a.resources = slices.DeleteFunc(a.resources, func(r *resource) bool { return r.stack == "stage-compile" && r.id == "Service" })
	report := a.look(t)
	if len(report.Findings) != 1 || report.Findings[0].Resource != "service compile" || !strings.HasPrefix(report.Findings[0].Mend, "deploy/deploy.sh restore stage-compile #") {
		t.Fatalf("%+v", report.Findings)
	}
	if commands, err := commandsOf("aws cloudformation deploy --stack-name stagefleet-prod-queues --template-file deploy/queues.yaml --capabilities CAPABILITY_IAM", a.substitute); err != nil || a.run(commands[0]) == nil {
		t.Errorf("a deployment of the same template mends: %v", err)
	}
	a.mend(t, report.Findings)
	if healed := a.look(t); healed.Err() != nil {
		t.Errorf("%+v, unseen %+v", healed.Findings, healed.Unseen)
	}
}

// TestAQueueThatSomebodyChangedIsFound sets attributes of a live queue through its API, one at a time.
func TestAQueueThatSomebodyChangedIsFound(t *testing.T) {
	arn := func(name string) string { return "arn:aws:sqs:" + region + ":" + account + ":" + name }
	for _, c := range []struct {
		queue, name, value string
		want               string // field
	}{
		{"stagefleet-prod-ingest.fifo", "FifoThroughputLimit", "perQueue", "FifoThroughputLimit"},
		{"stagefleet-prod-compile", "RedrivePolicy", "", "RedrivePolicy"},
		{"stagefleet-prod-compile", "RedrivePolicy", `{"deadLetterTargetArn":"` + arn("other-dlq") + `","maxReceiveCount":3}`, "RedrivePolicy.deadLetterTargetArn"},
		{"stagefleet-prod-compile-dlq", "RedriveAllowPolicy", "", "RedriveAllowPolicy"},
		{"stagefleet-prod-compile-dlq", "RedriveAllowPolicy", `{"redrivePermission":"allowAll"}`, "RedriveAllowPolicy.redrivePermission;RedriveAllowPolicy.sourceQueueArns"},
		{"stagefleet-prod-compile-dlq", "RedriveAllowPolicy", `{"redrivePermission":"byQueue","sourceQueueArns":["` + arn("stagefleet-prod-compile") + `","` + arn("x") + `"]}`, "RedriveAllowPolicy.sourceQueueArns"},
		{"stagefleet-prod-compile", "DelaySeconds", "5", "DelaySeconds"},
		{"stagefleet-prod-compile", "SqsManagedSseEnabled", "false", "SqsManagedSseEnabled"},
		{"stagefleet-prod-compile", "KmsMasterKeyId", "alias/mine", "KmsMasterKeyId;SqsManagedSseEnabled"},
		{"stagefleet-prod-compile", "Policy", "", "PolicyDocument"},
		{"stagefleet-prod-compile", "Policy", `{"Version":"2012-10-17","Statement":[{"Sid":"Open","Effect":"Allow","Principal":"*","Action":"sqs:*","Resource":"*"}]}`,
			"PolicyDocument.Statement[TLSOnly];PolicyDocument.Statement[Open]"},
	} {
		t.Run(c.queue+" "+c.name+"="+c.value, func(t *testing.T) {
			a := newLive(t, nil)
			if _, err := a.client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("other-dlq")}); err != nil {
				t.Fatal(err)
			}
			_, err := a.client.SetQueueAttributes(t.Context(), &sqs.SetQueueAttributesInput{QueueUrl: a.url(t, c.queue), Attributes: map[string]string{c.name: c.value}})
			if err != nil {
				t.Fatal(err)
			}
			report := a.look(t)
			var fields []string
			for _, f := range report.Findings {
				fields = append(fields, f.Field)
				if f.Resource != c.queue || !strings.HasPrefix(f.Mend, "aws sqs set-queue-attributes --queue-url ") {
					t.Errorf("%+v", f)
				}
			}
			if strings.Join(fields, ";") != c.want || len(report.Unseen) > 0 {
				t.Errorf("found %q, want %q: %+v", fields, c.want, report)
			}
			a.mend(t, report.Findings)
			if healed := a.look(t); healed.Err() != nil {
				t.Errorf("after %q: %+v", report.Findings[0].Mend, healed.Findings)
			}
		})
	}
}

// TestWhatNoTemplateSaysIsFoundToo changes what a template leaves to a default, and what only the account knows.
func TestWhatNoTemplateSaysIsFoundToo(t *testing.T) {
	for name, c := range map[string]struct {
		setup func(*live)
		want  string // resource and field
	}{
		"actions of an alarm are off": {func(a *live) { property(a, "stage-compile", "DlqDepth")["ActionsEnabled"] = false }, "stagefleet-prod-compile-dlq-depth ActionsEnabled"},
		"scaling is suspended": {func(a *live) {
			property(a, "stage-compile", "ScalableTarget")["SuspendedState"] = map[string]any{"DynamicScalingInSuspended": false, "DynamicScalingOutSuspended": true, "ScheduledScalingSuspended": false}
		}, "scaling of service/stagefleet-prod/compile SuspendedState.DynamicScalingOutSuspended"},
		"a shell can be opened":           {func(a *live) { property(a, "stage-compile", "Service")["EnableExecuteCommand"] = true }, "service compile EnableExecuteCommand"},
		"too many tasks":                  {func(a *live) { property(a, "stage-compile", "Service")["DesiredCount"] = 17 }, "service compile DesiredCount"},
		"too few tasks":                   {func(a *live) { property(a, "stage-compile", "Service")["DesiredCount"] = 0 }, "service compile DesiredCount"},
		"somebody has stopped the server": {func(a *live) { property(a, "server", "Service")["DesiredCount"] = 0 }, "service server DesiredCount"},
		"the switch is no switch":         {func(a *live) { property(a, "shared", "KillSwitch")["Value"] = "maybe" }, "/stagefleet/prod/enabled Value"},
		"the switch names no stage":       {func(a *live) { property(a, "shared", "KillSwitch")["Value"] = `{"stages":{"compil":false}}` }, "/stagefleet/prod/enabled Value"},
		"a variable was added": {func(a *live) {
			c := property(a, "stage-compile", "TaskDefinition")["ContainerDefinitions"].([]any)[0].(map[string]any)
			c["Environment"] = append(c["Environment"].([]any), map[string]any{"Name": "FLEET_DEBUG", "Value": "1"})
		}, "task definition stagefleet-prod-compile:7 ContainerDefinitions[compile].Environment[FLEET_DEBUG]"},
		"another policy scales": {func(a *live) {
			a.resources = append(a.resources, &resource{stack: "stage-compile", id: "Other", kind: "AWS::ApplicationAutoScaling::ScalingPolicy", properties: map[string]any{"PolicyName": "cpu", "PolicyType": "TargetTrackingScaling"}})
		}, "policy cpu of service/stagefleet-prod/compile PolicyName"},
		"workers are silent": {func(a *live) {
			a.silent = func(metric string) bool {
				return strings.Contains(metric, `"Paused"`) && strings.Contains(metric, `"compile"`)
			}
		}, "Stagefleet Paused Environment=prod,Stage=compile values"},
		"a role may not receive": {func(a *live) {
			statements(a, "Receive")["Action"] = []any{"sqs:DeleteMessage", "sqs:ChangeMessageVisibility"}
		},
			"role stagefleet-prod-stage-compile-TaskRole sqs:ReceiveMessage"},
		"a role may write what is not its own": {func(a *live) {
			statements(a, "WriteOwnObjects")["Action"] = []any{"s3:PutObject", "s3:AbortMultipartUpload", "s3:DeleteObject"}
		},
			"role stagefleet-prod-stage-compile-TaskRole s3:DeleteObject"},
		"anybody may take a role": {func(a *live) {
			role := property(a, "stage-compile", "TaskRole")["AssumeRolePolicyDocument"].(map[string]any)
			role["Statement"].([]any)[0].(map[string]any)["Principal"] = map[string]any{"AWS": "*"}
		}, "role stagefleet-prod-stage-compile-TaskRole AssumeRolePolicyDocument.Statement[0].Principal.Service"},
		"another account may take a role that starts tasks": {func(a *live) {
			role := property(a, "stage-compile", "ExecutionRole")["AssumeRolePolicyDocument"].(map[string]any)
			role["Statement"] = append(role["Statement"].([]any), map[string]any{"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": map[string]any{"AWS": "arn:aws:iam::999999999999:root"}})
		}, "role stagefleet-prod-stage-compile-ExecutionRole AssumeRolePolicyDocument.Statement"},
		"a queue belongs to nobody": {func(a *live) { property(a, "queues", "CompileQueue")["Tags"] = []any{} }, "stagefleet-prod-compile Tags"},
		"a topic has lost its owner": {func(a *live) {
			p := property(a, "shared", "Page")
			p["Tags"] = slices.DeleteFunc(p["Tags"].([]any), func(t any) bool { return t.(map[string]any)["Key"] == "owner" })
		}, "stagefleet-prod-page Tags[owner]"},
		"an alarm is of another stage": {func(a *live) {
			for _, t := range property(a, "stage-compile", "StageBroken")["Tags"].([]any) {
				if tag := t.(map[string]any); tag["Key"] == "stage" {
					tag["Value"] = "ingest"
				}
			}
		}, "stagefleet-prod-compile-stage-broken Tags[stage]"},
		"a role may receive of another stage": {func(a *live) {
			s := statements(a, "Receive")
			s["Resource"] = append(s["Resource"].([]any), "arn:aws:sqs:"+region+":"+account+":stagefleet-prod-publish.fifo")
			s["Action"] = []any{"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility"}
		}, "role stagefleet-prod-stage-compile-TaskRole sqs:ChangeMessageVisibility;role stagefleet-prod-stage-compile-TaskRole sqs:DeleteMessage;role stagefleet-prod-stage-compile-TaskRole sqs:ReceiveMessage"},
	} {
		t.Run(name, func(t *testing.T) {
			a := newLive(t, nil)
			c.setup(a)
			report := a.look(t)
			var got []string
			for _, f := range report.Findings {
				got = append(got, f.Resource+" "+f.Field)
				if f.Why == "" || f.Mend == "" {
					t.Errorf("%+v says too little", f)
				}
			}
			if strings.Join(got, ";") != c.want || len(report.Unseen) > 0 {
				t.Errorf("want %s alone: %+v, unseen %+v", c.want, report.Findings, report.Unseen)
			}
			a.mend(t, report.Findings)
			if healed := a.look(t); healed.Err() != nil && a.silent == nil { // which no command ends
				t.Errorf("after %q: %+v", report.Findings[0].Mend, healed.Findings)
			}
		})
	}
}

func property(a *live, stack, id string) map[string]any {
	for _, r := range a.resources {
		if r.stack == stack && r.id == id {
			return r.properties
		}
	}
	panic(stack + "/" + id)
}

// statements returns a statement of the task role of stage compile.
func statements(a *live, sid string) map[string]any {
	policy := property(a, "stage-compile", "TaskRole")["Policies"].([]any)[0].(map[string]any)
	for _, s := range policy["PolicyDocument"].(map[string]any)["Statement"].([]any) {
		if m := s.(map[string]any); m["Sid"] == sid {
			return m
		}
	}
	panic(sid)
}

package infra

import (
	"strings"

	"github.com/stagefleet/stagefleet/pkg/stage"
)

// MaxMessage is the largest message that the queues take, in bytes: a body and its attributes are far smaller.
const MaxMessage = 16 << 10

// queues is the stack that holds state: deleting it keeps every queue.
func (p plan) queues() (Template, error) {
	hash, err := p.hash()
	if err != nil {
		return Template{}, err
	}
	t := Template{Name: "queues", Description: "Stagefleet " + p.env + ": the queues of all stages. Manifest " + hash, Parameters: Map{owner()}}
	for _, s := range p.stages {
		t.Resources = append(t.Resources, p.deadLetters(s), p.queue(s), tlsOnly(s, "DLQ", s.DLQName(p.env)), tlsOnly(s, "Queue", s.QueueName(p.env)))
		id := logical(s.Name)
		t.Outputs = append(t.Outputs,
			Prop{id + "QueueUrl", Map{{"Value", Ref(id + "Queue")}}},
			Prop{id + "DLQArn", Map{{"Value", GetAtt(id + "DLQ.Arn")}}})
	}
	return t, nil
}

// logical is a stage's name as the beginning of a logical ID, which is letters and digits.
func logical(name string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(name, "-") {
		b.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	return b.String()
}

func fifo(s stage.Stage) Map {
	if s.Queue != stage.FIFO {
		return nil
	}
	return Map{{"FifoQueue", true}, {"DeduplicationScope", "messageGroup"}, {"FifoThroughputLimit", "perMessageGroupId"}}
}

func (p plan) deadLetters(s stage.Stage) Resource {
	props := append(Map{{"QueueName", s.DLQName(p.env)}}, fifo(s)...)
	return Resource{ID: logical(s.Name) + "DLQ", Type: "AWS::SQS::Queue", Keep: true, Properties: append(props, Map{
		{"MessageRetentionPeriod", seconds(s.Durations.DLQRetention)},
		{"MaximumMessageSize", MaxMessage},
		{"SqsManagedSseEnabled", true},
		{"RedriveAllowPolicy", Map{{"redrivePermission", "byQueue"}, {"sourceQueueArns", List{arn("sqs", s.QueueName(p.env))}}}},
		{"Tags", p.tags(s.Name)},
	}...)}
}

func (p plan) queue(s stage.Stage) Resource {
	id := logical(s.Name)
	props := append(Map{{"QueueName", s.QueueName(p.env)}}, fifo(s)...)
	return Resource{ID: id + "Queue", Type: "AWS::SQS::Queue", Keep: true, Properties: append(props, Map{
		{"VisibilityTimeout", seconds(s.Durations.Visibility)},
		{"ReceiveMessageWaitTimeSeconds", seconds(s.Durations.Poll)},
		{"MessageRetentionPeriod", seconds(s.Durations.Retention)},
		{"MaximumMessageSize", MaxMessage},
		{"SqsManagedSseEnabled", true},
		{"RedrivePolicy", Map{{"deadLetterTargetArn", GetAtt(id + "DLQ.Arn")}, {"maxReceiveCount", s.Retry.MaxReceives}}},
		{"Tags", p.tags(s.Name)},
	}...)}
}

// tlsOnly denies everything that does not come over TLS.
func tlsOnly(s stage.Stage, kind, queue string) Resource {
	id := logical(s.Name) + kind
	return Resource{ID: id + "Policy", Type: "AWS::SQS::QueuePolicy", Properties: Map{
		{"Queues", List{Ref(id)}},
		{"PolicyDocument", document(Map{
			{"Sid", "TLSOnly"}, {"Effect", "Deny"}, {"Principal", "*"}, {"Action", "sqs:*"}, {"Resource", arn("sqs", queue)},
			{"Condition", insecure},
		})},
	}}
}

// insecure is true of a request that does not come over TLS.
var insecure = Map{{"Bool", Map{{"aws:SecureTransport", "false"}}}}

// document is a policy document.
func document(statements ...any) Map {
	return Map{{"Version", "2012-10-17"}, {"Statement", List(statements)}}
}

package infra

import (
	"slices"
	"strings"

	"github.com/stagefleet/stagefleet/pkg/stage"
)

// queue finds the stage by the queue's name and compares everything that the manifest says of it.
func (c *checker) queue(q Map) {
	name, _ := q.Get("QueueName").(string)
	i := slices.IndexFunc(c.stages, func(s stage.Stage) bool {
		return s.QueueName(c.env) == name && c.resource.ID == logical(s.Name)+"Queue" || s.DLQName(c.env) == name && c.resource.ID == logical(s.Name)+"DLQ"
	})
	if i < 0 {
		c.must(false, "queue-name", "%q is the queue of no stage", name)
		return
	}
	s := c.stages[i]
	fifo, _ := q.Get("FifoQueue").(bool)
	c.must(fifo == (s.Queue == stage.FIFO) && fifo == strings.HasSuffix(name, ".fifo"), "queue-type", "FIFO is %v, the stage's queue is %s", fifo, s.Queue)
	c.must((q.Get("DeduplicationScope") == "messageGroup") == fifo && (q.Get("FifoThroughputLimit") == "perMessageGroupId") == fifo, "queue-throughput", "scope and limit go together, for FIFO")
	c.is("queue-encryption", q, true, "SqsManagedSseEnabled")
	c.is("queue-size", q, MaxMessage, "MaximumMessageSize")
	c.kept("queue-kept")
	c.only("queue-surplus", q, "QueueName", "FifoQueue", "DeduplicationScope", "FifoThroughputLimit", "VisibilityTimeout", "ReceiveMessageWaitTimeSeconds",
		"MessageRetentionPeriod", "MaximumMessageSize", "SqsManagedSseEnabled", "RedrivePolicy", "RedriveAllowPolicy", "Tags")
	if name == s.DLQName(c.env) {
		c.is("dlq-retention", q, seconds(s.Durations.DLQRetention), "MessageRetentionPeriod")
		c.is("redrive-allow", q, "byQueue", "RedriveAllowPolicy", "redrivePermission")
		c.is("redrive-allow", q, List{arn("sqs", s.QueueName(c.env))}, "RedriveAllowPolicy", "sourceQueueArns")
		c.is("dlq-wiring", q, nil, "RedrivePolicy")
		return
	}
	c.is("dlq-wiring", q, GetAtt(logical(s.Name)+"DLQ.Arn"), "RedrivePolicy", "deadLetterTargetArn")
	c.is("max-receives", q, s.Retry.MaxReceives, "RedrivePolicy", "maxReceiveCount")
	c.is("queue-visibility", q, seconds(s.Durations.Visibility), "VisibilityTimeout")
	c.is("queue-retention", q, seconds(s.Durations.Retention), "MessageRetentionPeriod")
	c.is("queue-poll", q, seconds(s.Durations.Poll), "ReceiveMessageWaitTimeSeconds")
}

// queuePolicy belongs to the queue of its name and denies what does not come over TLS, whoever it is and whatever it wants.
func (c *checker) queuePolicy(p Map) {
	id := strings.TrimSuffix(c.resource.ID, "Policy")
	queue, _ := c.template.Resource(id)
	name, _ := queue.Properties.Get("QueueName").(string)
	c.is("tls-only", p, List{Ref(id)}, "Queues")
	c.tlsOnly(p, "sqs:*", arn("sqs", name))
}

// tlsOnly wants one statement, which denies everything that does not come over TLS.
func (c *checker) tlsOnly(p Map, action string, resource any) {
	statements := statementsOf(p.Get("PolicyDocument"))
	all, _ := p.Get("PolicyDocument", "Statement").(List)
	c.must(len(all) == 1, "tls-only", "%d statements, want the one that denies requests without TLS", len(all))
	c.is("tls-only", p, "2012-10-17", "PolicyDocument", "Version")
	for _, s := range statements {
		c.denies(s, action, resource)
	}
}

func (c *checker) denies(s Map, action string, resource any) {
	c.is("tls-only", s, "Deny", "Effect")
	c.is("tls-only", s, "*", "Principal")
	c.is("tls-only", s, action, "Action")
	c.is("tls-only", s, resource, "Resource")
	c.is("tls-only", s, Map{{"Bool", Map{{"aws:SecureTransport", "false"}}}}, "Condition")
}

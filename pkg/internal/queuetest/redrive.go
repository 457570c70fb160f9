package queuetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

func (e *env) redrive(dlq *string, receives string) string {
	e.Helper()
	return fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":%s}`, e.arn(dlq), receives)
}

// exhaust receives and returns everything n times.
func (e *env) exhaust(url *string, n int) {
	e.Helper()
	for range n {
		for _, m := range e.receive(url) {
			e.visibility(url, m, 0)
		}
	}
}

var redriveBehaviours = []behaviour{
	{name: "the receive after maxReceiveCount moves the message with all it has", takes: 2 * time.Second, run: func(e *env) {
		dlq := e.queue()
		url := e.queue("RedrivePolicy", e.redrive(dlq, `"3"`))
		sent := e.send(url, "poison", withAttributes)
		received := e.one(url)
		e.visibility(url, received, 0)
		e.settle(time.Second)
		e.exhaust(url, 2)
		e.counts(url, "1", "0", "0")
		e.none(dlq)
		e.none(url)
		m := e.one(dlq)
		if *m.Body != "poison" || *m.MessageId != *sent.MessageId || *m.MD5OfMessageAttributes != *sent.MD5OfMessageAttributes {
			e.Errorf("moved %s %s", *m.MessageId, *m.Body)
		}
		first := m.Attributes["ApproximateFirstReceiveTimestamp"] == received.Attributes["ApproximateFirstReceiveTimestamp"]
		if m.Attributes["DeadLetterQueueSourceArn"] != e.arn(url) || m.Attributes["ApproximateReceiveCount"] != "4" || !first {
			e.Errorf("attributes are %v", m.Attributes)
		}
	}},
	{name: "types of queue and dead letter queue must match", run: func(e *env) {
		standard, ordered := e.queue(), e.fifo()
		refused[*types.InvalidAttributeValue](e, e.set(e.fifo(), "RedrivePolicy", e.redrive(standard, "3")))
		refused[*types.InvalidAttributeValue](e, e.set(e.queue(), "RedrivePolicy", e.redrive(ordered, "3")))
	}},
	{name: "a bad redrive policy is refused", run: func(e *env) {
		url, dlq := e.queue(), e.queue()
		for _, policy := range []string{
			"{", `{"maxReceiveCount":3}`, e.redrive(dlq, "0"), e.redrive(dlq, "1001"), e.redrive(dlq, `"many"`),
			strings.Replace(e.redrive(dlq, "3"), `","max`, `-missing","max`, 1),
		} {
			coded(e, e.set(url, "RedrivePolicy", policy), "InvalidAttributeValue", "InvalidParameterValue")
		}
		if err := e.set(url, "RedrivePolicy", e.redrive(dlq, "1000")); err != nil {
			e.Error(err)
		}
	}},
	{name: "an empty redrive policy removes it", run: func(e *env) {
		dlq := e.queue()
		url := e.queue("RedrivePolicy", e.redrive(dlq, "1"))
		if err := e.set(url, "RedrivePolicy", ""); err != nil {
			e.Fatal(err)
		}
		e.send(url, "x")
		e.exhaust(url, 3)
		e.one(url)
	}},
	{name: "the sources of a dead letter queue are listed", run: func(e *env) {
		dlq := e.queue()
		var want []string
		for range 3 {
			want = append(want, *e.queue("RedrivePolicy", e.redrive(dlq, "3")))
		}
		var got []string
		pages := sqs.NewListDeadLetterSourceQueuesPaginator(e.Client, &sqs.ListDeadLetterSourceQueuesInput{QueueUrl: dlq, MaxResults: aws.Int32(2)})
		for pages.HasMorePages() {
			got = append(got, must[*sqs.ListDeadLetterSourceQueuesOutput](e)(pages.NextPage(e.ctx())).QueueUrls...)
		}
		if len(got) != len(want) {
			e.Errorf("listed %v, want %v", got, want)
		}
	}},
	{name: "a dead letter queue may allow no source or some", run: func(e *env) {
		dlq := e.queue("RedriveAllowPolicy", `{"redrivePermission":"denyAll"}`)
		url := e.queue()
		refused[*types.InvalidAttributeValue](e, e.set(url, "RedrivePolicy", e.redrive(dlq, "3")))
		allow := fmt.Sprintf(`{"redrivePermission":"byQueue","sourceQueueArns":[%q]}`, e.arn(url))
		if err := e.set(dlq, "RedriveAllowPolicy", allow); err != nil {
			e.Fatal(err)
		}
		if err := e.set(url, "RedrivePolicy", e.redrive(dlq, "3")); err != nil {
			e.Error(err)
		}
		refused[*types.InvalidAttributeValue](e, e.set(e.queue(), "RedrivePolicy", e.redrive(dlq, "3")))
	}},
	{name: "a FIFO move unblocks the group and keeps group and order", run: func(e *env) {
		dlq := e.fifo()
		url := e.fifo("RedrivePolicy", e.redrive(dlq, "1"))
		e.sendAll(url, "g", "1", "2", "3")
		e.visibility(url, e.one(url, most(1)), 0)
		held := e.expect(url, "2", "3")
		dead := e.one(dlq)
		if *dead.Body != "1" || dead.Attributes["MessageGroupId"] != "g" || dead.Attributes["MessageDeduplicationId"] != *dead.MessageId {
			e.Errorf("moved %q with %v", *dead.Body, dead.Attributes)
		}
		for _, m := range held {
			e.visibility(url, m, 0)
		}
		e.none(url)
		e.delete(dlq, dead)
		e.expect(dlq, "2", "3")
	}},
	{name: "a standard move keeps the time of sending and retention goes on", exact: true, run: func(e *env) {
		dlq := e.queue("MessageRetentionPeriod", "120")
		url := e.queue("RedrivePolicy", e.redrive(dlq, "1"))
		e.send(url, "x")
		e.settle(90 * time.Second)
		e.exhaust(url, 1)
		e.none(url)
		e.edge(30*time.Second, func() { e.counts(dlq, "1", "0", "0") }, func() { e.counts(dlq, "0", "0", "0") })
	}},
	{name: "a FIFO move starts retention anew", exact: true, run: func(e *env) {
		dlq := e.fifo("MessageRetentionPeriod", "120")
		url := e.fifo("RedrivePolicy", e.redrive(dlq, "1"))
		e.send(url, "x", group("g"))
		e.settle(90 * time.Second)
		e.exhaust(url, 1)
		e.none(url)
		e.edge(120*time.Second, func() { e.counts(dlq, "1", "0", "0") }, func() { e.counts(dlq, "0", "0", "0") })
	}},
}

func (e *env) startMove(in *sqs.StartMessageMoveTaskInput) string {
	e.Helper()
	return *must[*sqs.StartMessageMoveTaskOutput](e)(e.StartMessageMoveTask(e.ctx(), in)).TaskHandle
}

func (e *env) moves(arn string, most int32) []types.ListMessageMoveTasksResultEntry {
	e.Helper()
	return must[*sqs.ListMessageMoveTasksOutput](e)(e.ListMessageMoveTasks(e.ctx(), &sqs.ListMessageMoveTasksInput{SourceArn: &arn, MaxResults: &most})).Results
}

// dead makes a queue with a dead-letter queue that holds n of its messages.
func (e *env) dead(n int) (url, dlq *string) {
	e.Helper()
	dlq = e.queue()
	url = e.queue("RedrivePolicy", e.redrive(dlq, "1"))
	for i := range n {
		e.send(url, fmt.Sprint(i))
	}
	for range (n + 9) / 10 {
		e.exhaust(url, 1)
	}
	e.none(url)
	return url, dlq
}

var moveBehaviours = []behaviour{
	{name: "a task without a destination brings messages back as new ones", takes: 3 * time.Second, run: func(e *env) {
		url, dlq := e.dead(1)
		before := e.one(dlq)
		e.visibility(dlq, before, 0)
		arn := e.arn(dlq)
		e.startMove(&sqs.StartMessageMoveTaskInput{SourceArn: &arn})
		e.settle(2 * time.Second)
		task := e.moves(arn, 10)
		if len(task) != 1 || *task[0].Status != "COMPLETED" || task[0].ApproximateNumberOfMessagesMoved != 1 || *task[0].ApproximateNumberOfMessagesToMove != 1 || task[0].TaskHandle != nil {
			e.Errorf("tasks are %+v", task)
		}
		m := e.one(url)
		if *m.MessageId == *before.MessageId || m.Attributes["ApproximateReceiveCount"] != "1" || m.Attributes["DeadLetterQueueSourceArn"] != "" {
			e.Errorf("came back as %s with %v", *m.MessageId, m.Attributes)
		}
		e.none(dlq)
	}},
	{name: "a task moves at its rate to its destination until it is cancelled", takes: 5 * time.Second, run: func(e *env) {
		_, dlq := e.dead(10)
		dest, source := e.queue(), e.arn(dlq)
		target := e.arn(dest)
		handle := e.startMove(&sqs.StartMessageMoveTaskInput{SourceArn: &source, DestinationArn: &target, MaxNumberOfMessagesPerSecond: aws.Int32(1)})
		e.settle(2500 * time.Millisecond)
		if task := e.moves(source, 1); *task[0].Status != "RUNNING" || *task[0].TaskHandle != handle || *task[0].DestinationArn != target || *task[0].MaxNumberOfMessagesPerSecond != 1 {
			e.Errorf("task is %+v", task[0])
		}
		_, err := e.StartMessageMoveTask(e.ctx(), &sqs.StartMessageMoveTaskInput{SourceArn: &source})
		coded(e, err, "InvalidParameterValue", "AWS.SimpleQueueService.UnsupportedOperation")
		out := must[*sqs.CancelMessageMoveTaskOutput](e)(e.CancelMessageMoveTask(e.ctx(), &sqs.CancelMessageMoveTaskInput{TaskHandle: &handle}))
		if out.ApproximateNumberOfMessagesMoved != 3 {
			e.Errorf("moved %d in 2.5 s", out.ApproximateNumberOfMessagesMoved)
		}
		e.settle(2 * time.Second)
		e.counts(dest, "3", "0", "0")
		if task := e.moves(source, 1); *task[0].Status != "CANCELLED" {
			e.Errorf("status is %s", *task[0].Status)
		}
		_, err = e.CancelMessageMoveTask(e.ctx(), &sqs.CancelMessageMoveTaskInput{TaskHandle: &handle})
		coded(e, err, "AWS.SimpleQueueService.UnsupportedOperation", "ResourceNotFoundException")
	}},
	{name: "a task needs a dead letter queue and known queues", run: func(e *env) {
		_, dlq := e.dead(1)
		source, plain := e.arn(dlq), e.arn(e.queue())
		for _, in := range []*sqs.StartMessageMoveTaskInput{
			{SourceArn: &plain}, {SourceArn: &source, MaxNumberOfMessagesPerSecond: aws.Int32(501)}, {SourceArn: &source, DestinationArn: aws.String(e.arn(e.fifo()))},
		} {
			_, err := e.StartMessageMoveTask(e.ctx(), in)
			coded(e, err, "InvalidParameterValue", "AWS.SimpleQueueService.UnsupportedOperation")
		}
		for _, in := range []*sqs.StartMessageMoveTaskInput{{SourceArn: aws.String(source + "-missing")}, {SourceArn: &source, DestinationArn: aws.String(source + "-missing")}} {
			_, err := e.StartMessageMoveTask(e.ctx(), in)
			refused[*types.ResourceNotFoundException](e, err)
		}
		_, err := e.CancelMessageMoveTask(e.ctx(), &sqs.CancelMessageMoveTaskInput{TaskHandle: aws.String("bogus")})
		refused[*types.ResourceNotFoundException](e, err)
	}},
	{name: "a task fails on a message that never had a source", takes: 2 * time.Second, run: func(e *env) {
		_, dlq := e.dead(0)
		e.send(dlq, "put here by hand")
		arn := e.arn(dlq)
		e.startMove(&sqs.StartMessageMoveTaskInput{SourceArn: &arn})
		e.settle(time.Second)
		if task := e.moves(arn, 1); *task[0].Status != "FAILED" || *task[0].FailureReason == "" {
			e.Errorf("task is %+v", task[0])
		}
		e.one(dlq)
	}},
	{name: "the last ten tasks are listed newest first", takes: 2 * time.Second, run: func(e *env) {
		_, dlq := e.dead(0)
		arn := e.arn(dlq)
		for range 11 {
			e.startMove(&sqs.StartMessageMoveTaskInput{SourceArn: &arn})
			e.settle(100 * time.Millisecond)
		}
		tasks := e.moves(arn, 10)
		if len(tasks) != 10 || tasks[0].StartedTimestamp <= tasks[9].StartedTimestamp {
			e.Errorf("listed %d", len(tasks))
		}
		if len(e.moves(arn, 1)) != 1 {
			e.Error("MaxResults is ignored")
		}
	}},
}

var lifetimeBehaviours = []behaviour{
	{name: "purging drops visible hidden and delayed messages", run: func(e *env) {
		url := e.queue()
		e.send(url, "hidden")
		m := e.one(url)
		e.send(url, "visible")
		e.send(url, "delayed", delay(1))
		must[*sqs.PurgeQueueOutput](e)(e.PurgeQueue(e.ctx(), &sqs.PurgeQueueInput{QueueUrl: url}))
		e.counts(url, "0", "0", "0")
		e.delete(url, m)
		e.send(url, "after")
		e.expect(url, "after")
	}},
	{name: "purging releases FIFO groups", run: func(e *env) {
		url := e.fifo()
		e.sendAll(url, "g", "1", "2")
		e.one(url, most(1))
		must[*sqs.PurgeQueueOutput](e)(e.PurgeQueue(e.ctx(), &sqs.PurgeQueueInput{QueueUrl: url}))
		e.sendAll(url, "g", "3")
		e.expect(url, "3")
	}},
	{name: "a second purge within 60 s is refused", takes: time.Minute, run: func(e *env) {
		url := e.queue()
		must[*sqs.PurgeQueueOutput](e)(e.PurgeQueue(e.ctx(), &sqs.PurgeQueueInput{QueueUrl: url}))
		e.edge(time.Minute, func() {
			_, err := e.PurgeQueue(e.ctx(), &sqs.PurgeQueueInput{QueueUrl: url})
			refused[*types.PurgeQueueInProgress](e, err)
		}, func() {
			must[*sqs.PurgeQueueOutput](e)(e.PurgeQueue(e.ctx(), &sqs.PurgeQueueInput{QueueUrl: url}))
		})
	}},
	{name: "a message is gone after the retention period in every state", exact: true, run: func(e *env) {
		url := e.queue("MessageRetentionPeriod", "60", "VisibilityTimeout", "3600")
		e.send(url, "hidden")
		m := e.one(url)
		e.send(url, "visible")
		e.send(url, "delayed", delay(900))
		e.edge(time.Minute, func() { e.counts(url, "1", "1", "1") }, func() { e.counts(url, "0", "0", "0") })
		e.delete(url, m)
		e.settle(time.Hour)
		e.none(url)
	}},
	{name: "a shorter retention period reaches messages that are there", exact: true, run: func(e *env) {
		url := e.queue()
		e.send(url, "x")
		e.settle(2 * time.Minute)
		if err := e.set(url, "MessageRetentionPeriod", "60"); err != nil {
			e.Fatal(err)
		}
		e.none(url)
	}},
	{name: "retention releases a FIFO group", exact: true, run: func(e *env) {
		url := e.fifo("MessageRetentionPeriod", "60", "VisibilityTimeout", "3600")
		e.sendAll(url, "g", "1")
		e.one(url)
		e.settle(30 * time.Second)
		e.sendAll(url, "g", "2")
		e.edge(30*time.Second, func() { e.none(url) }, func() { e.expect(url, "2") })
	}},
}

var fairBehaviours = []behaviour{
	{name: "a message received three times returns behind the others", exact: true, run: func(e *env) {
		url := e.queue()
		e.send(url, "often")
		e.exhaust(url, 2)
		e.send(url, "new")
		e.expectFirst(url, "often") // its third receive
		e.settle(30 * time.Second)
		e.expect(url, "new", "often")
	}},
	{name: "a group on a standard queue neither orders nor locks", run: func(e *env) {
		url := e.queue()
		e.send(url, "1", func(in *sqs.SendMessageInput) { in.MessageGroupId = aws.String("tenant") })
		e.send(url, "2", func(in *sqs.SendMessageInput) { in.MessageGroupId = aws.String("tenant") })
		first := e.one(url, most(1))
		e.one(url, most(1))
		if first.Attributes["MessageGroupId"] != "tenant" {
			e.Errorf("attributes are %v", first.Attributes)
		}
	}},
	{name: "quiet groups come before a noisy one", exact: true, run: func(e *env) {
		url := e.queue()
		tenant := func(name string) func(*sqs.SendMessageInput) {
			return func(in *sqs.SendMessageInput) { in.MessageGroupId = &name }
		}
		for range 60 {
			e.send(url, "noisy", tenant("noisy"))
		}
		for range 3 {
			e.receive(url) // thirty in flight make a tenant noisy
		}
		e.send(url, "quiet", tenant("quiet"))
		e.send(url, "alone")
		got := bodies(e.receive(url))
		if len(got) != 10 || got[0] != "quiet" || got[1] != "alone" || got[2] != "noisy" {
			e.Errorf("received %q", got)
		}
	}},
	{name: "a group is quiet below thirty messages in flight", exact: true, run: func(e *env) {
		url := e.queue()
		for range 40 {
			e.send(url, "busy", func(in *sqs.SendMessageInput) { in.MessageGroupId = aws.String("busy") })
		}
		for range 2 {
			e.receive(url)
		}
		e.receive(url, most(9))
		e.send(url, "other")
		e.expectFirst(url, "busy")
	}},
}

func (e *env) expectFirst(url *string, body string) {
	e.Helper()
	if m := e.one(url, most(1)); *m.Body != body {
		e.Errorf("received %q, want %q", *m.Body, body)
	}
}

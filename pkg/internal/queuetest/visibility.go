package queuetest

import (
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

var visibilityBehaviours = []behaviour{
	{name: "a received message is hidden until its visibility timeout and then stays", takes: 3 * time.Second, run: func(e *env) {
		url := e.queue("VisibilityTimeout", "2")
		e.send(url, "x")
		e.one(url)
		e.edge(2*time.Second, func() { e.none(url) }, func() { e.counts(url, "1", "0", "0") })
		if e.target.Bubble {
			e.settle(time.Hour)
		}
		e.one(url)
	}},
	{name: "a receive may set its own visibility timeout", takes: 3 * time.Second, run: func(e *env) {
		url := e.queue()
		e.send(url, "x")
		e.one(url, hidden(2))
		e.edge(2*time.Second, func() { e.none(url) }, func() { e.one(url) })
	}},
	{name: "changing the visibility counts from the change", takes: 5 * time.Second, run: func(e *env) {
		url := e.queue("VisibilityTimeout", "2")
		e.send(url, "x")
		m := e.one(url)
		e.settle(time.Second)
		e.visibility(url, m, 3)
		e.edge(3*time.Second, func() { e.none(url) }, func() { e.one(url) })
	}},
	{name: "the next receive has the queue's timeout again", takes: 6 * time.Second, run: func(e *env) {
		url := e.queue("VisibilityTimeout", "2")
		e.send(url, "x")
		e.visibility(url, e.one(url), 3)
		e.settle(3*time.Second + e.margin())
		e.one(url)
		e.edge(2*time.Second, func() { e.none(url) }, func() { e.one(url) })
	}},
	{name: "visibility zero makes the message visible at once", run: func(e *env) {
		url := e.queue()
		e.send(url, "x")
		e.visibility(url, e.one(url), 0)
		e.one(url)
	}},
	{name: "a queue's visibility of zero never hides", run: func(e *env) {
		url := e.queue("VisibilityTimeout", "0")
		e.send(url, "x")
		e.one(url)
		e.one(url)
	}},
	{name: "more than 12 hours is refused", run: func(e *env) {
		url := e.queue()
		e.send(url, "x")
		m := e.one(url)
		coded(e, e.tryVisibility(url, m, 43_201), "InvalidParameterValue")
		coded(e, e.tryVisibility(url, m, -1), "InvalidParameterValue")
	}},
	{name: "the 12 hours count from the receive and are not clamped", exact: true, run: func(e *env) {
		url := e.queue("VisibilityTimeout", "43200")
		e.send(url, "x")
		m := e.one(url)
		e.settle(10 * time.Hour)
		e.visibility(url, m, 2*3600)
		coded(e, e.tryVisibility(url, m, 2*3600+1), "InvalidParameterValue")
		e.settle(time.Nanosecond)
		coded(e, e.tryVisibility(url, m, 2*3600), "InvalidParameterValue")
		e.edge(2*time.Hour-time.Nanosecond, func() { e.none(url) }, func() { e.one(url) })
	}},
	{name: "receives are counted and each has its own handle", takes: 2 * time.Second, run: func(e *env) {
		url := e.queue()
		e.send(url, "x")
		first := e.one(url)
		e.visibility(url, first, 0)
		e.settle(time.Second)
		second := e.one(url)
		if first.Attributes["ApproximateReceiveCount"] != "1" || second.Attributes["ApproximateReceiveCount"] != "2" {
			e.Errorf("counts are %v then %v", first.Attributes, second.Attributes)
		}
		if first.Attributes["ApproximateFirstReceiveTimestamp"] != second.Attributes["ApproximateFirstReceiveTimestamp"] {
			e.Error("the first receive's time changed")
		}
		if *first.ReceiptHandle == *second.ReceiptHandle {
			e.Error("the handle was used again")
		}
	}},
	{name: "the visibility of a deleted message cannot be changed", run: func(e *env) {
		url := e.queue()
		e.send(url, "x")
		m := e.one(url)
		e.delete(url, m)
		coded(e, e.tryVisibility(url, m, 5), "AWS.SimpleQueueService.MessageNotInflight", "InvalidParameterValue")
	}},
	{name: "the visibility of an expired message cannot be changed", takes: 2 * time.Second, run: func(e *env) {
		url := e.queue("VisibilityTimeout", "1")
		e.send(url, "x")
		m := e.one(url)
		e.settle(time.Second + e.margin())
		err := e.tryVisibility(url, m, 5)
		coded(e, err, "AWS.SimpleQueueService.MessageNotInflight", "InvalidParameterValue")
		e.one(url)
	}},
	{name: "a standard queue deletes an expired message that nobody else received", takes: 2 * time.Second, run: func(e *env) {
		url := e.queue("VisibilityTimeout", "1")
		e.send(url, "x")
		m := e.one(url)
		e.settle(time.Second + e.margin())
		e.delete(url, m)
		e.none(url)
	}},
	{name: "a stale handle of a standard queue deletes nothing without an error", run: func(e *env) {
		url := e.queue()
		e.send(url, "x")
		old := e.one(url)
		e.visibility(url, old, 0)
		e.one(url)
		e.delete(url, old)
		e.counts(url, "0", "1", "0")
	}},
	{name: "a stale handle cannot change the visibility of a later delivery", run: func(e *env) {
		url := e.queue()
		e.send(url, "x")
		old := e.one(url)
		e.visibility(url, old, 0)
		e.one(url)
		coded(e, e.tryVisibility(url, old, 0), "AWS.SimpleQueueService.MessageNotInflight", "InvalidParameterValue")
		e.none(url)
	}},
	{name: "deleting twice succeeds", run: func(e *env) {
		url, ordered := e.queue(), e.fifo()
		e.send(url, "x")
		e.send(ordered, "x", group("g"))
		for _, u := range []*string{url, ordered} {
			m := e.one(u)
			e.delete(u, m, m)
		}
	}},
	{name: "a bogus handle is refused", run: func(e *env) {
		url, other := e.queue(), e.queue()
		e.send(other, "x")
		foreign := e.one(other)
		for _, m := range []types.Message{{ReceiptHandle: aws.String("bogus")}, {ReceiptHandle: aws.String("AAAA")}, foreign} {
			refused[*types.ReceiptHandleIsInvalid](e, e.tryDelete(url, m))
			refused[*types.ReceiptHandleIsInvalid](e, e.tryVisibility(url, m, 5))
		}
	}},
	{name: "an expired or stale handle of a FIFO queue cannot delete", takes: 2 * time.Second, run: func(e *env) {
		url := e.fifo("VisibilityTimeout", "1")
		e.send(url, "x", group("g"))
		old := e.one(url)
		e.settle(time.Second + e.margin())
		coded(e, e.tryDelete(url, old), "InvalidParameterValue")
		e.one(url, hidden(30))
		coded(e, e.tryDelete(url, old), "InvalidParameterValue")
		coded(e, e.tryVisibility(url, old, 0), "InvalidParameterValue", "AWS.SimpleQueueService.MessageNotInflight")
		e.counts(url, "0", "1", "0")
	}},
}

var delayBehaviours = []behaviour{
	{name: "a delayed message arrives when its delay is over", takes: 3 * time.Second, run: func(e *env) {
		url := e.queue()
		e.send(url, "x", delay(2))
		e.counts(url, "0", "0", "1")
		e.edge(2*time.Second, func() { e.none(url) }, func() { e.one(url) })
	}},
	{name: "a queue's delay applies unless the message has its own", takes: 4 * time.Second, run: func(e *env) {
		url := e.queue("DelaySeconds", "2")
		e.send(url, "queue's")
		e.send(url, "own", delay(1))
		e.edge(time.Second, func() { e.none(url) }, func() { e.expect(url, "own") })
		e.edge(time.Second, func() {}, func() { e.expect(url, "queue's") })
	}},
	{name: "changing a standard queue's delay leaves waiting messages alone", takes: 3 * time.Second, run: func(e *env) {
		url := e.queue("DelaySeconds", "2")
		e.send(url, "x")
		if err := e.set(url, "DelaySeconds", "0"); err != nil {
			e.Fatal(err)
		}
		e.edge(2*time.Second, func() { e.none(url) }, func() { e.one(url) })
	}},
	{name: "changing a FIFO queue's delay reaches waiting messages", run: func(e *env) {
		url := e.fifo("DelaySeconds", "900")
		e.send(url, "x", group("g"))
		e.none(url)
		if err := e.set(url, "DelaySeconds", "0"); err != nil {
			e.Fatal(err)
		}
		e.one(url)
	}},
	{name: "a message's own delay is refused on FIFO", run: func(e *env) {
		_, err := e.trySend(e.fifo(), "x", group("g"), delay(1))
		coded(e, err, "InvalidParameterValue")
	}},
	{name: "a FIFO queue's delay works", takes: 3 * time.Second, run: func(e *env) {
		url := e.fifo("DelaySeconds", "2")
		e.send(url, "1", group("g"))
		e.send(url, "2", group("g"))
		e.edge(2*time.Second, func() { e.none(url) }, func() { e.expect(url, "1", "2") })
	}},
	{name: "more than 15 minutes is refused", run: func(e *env) {
		_, err := e.trySend(e.queue(), "x", delay(901))
		coded(e, err, "InvalidParameterValue")
	}},
	{name: "the longest delay is 15 minutes", exact: true, run: func(e *env) {
		url := e.queue()
		e.send(url, "x", delay(900))
		e.edge(15*time.Minute, func() { e.none(url) }, func() { e.one(url) })
	}},
}

// after runs an action a little later, while the test waits in a poll.
func (e *env) after(d time.Duration, act func()) {
	done := make(chan struct{})
	time.AfterFunc(d, func() { defer close(done); act() })
	e.Cleanup(func() { <-done })
}

// arrives polls for 20 s and checks that the message comes at d after now.
func (e *env) arrives(url *string, d time.Duration) types.Message {
	e.Helper()
	start := time.Now()
	m := e.one(url, wait(20))
	took := time.Since(start)
	if took < d-e.margin() || e.target.Bubble && took != d || took > d+4*time.Second {
		e.Errorf("arrived after %v, want %v", took, d)
	}
	return m
}

// sendLater sends during a poll, where a failure must not end the test's goroutine.
func (e *env) sendLater(d time.Duration, url *string, mods ...func(*sqs.SendMessageInput)) {
	e.after(d, func() {
		if _, err := e.trySend(url, "x", mods...); err != nil {
			e.Error(err)
		}
	})
}

var pollBehaviours = []behaviour{
	{name: "a long poll returns at once on a send", takes: 2 * time.Second, run: func(e *env) {
		url := e.queue()
		e.sendLater(time.Second, url)
		e.arrives(url, time.Second)
	}},
	{name: "a FIFO long poll returns at once on a send", takes: 2 * time.Second, run: func(e *env) {
		url := e.fifo()
		e.sendLater(time.Second, url, group("g"))
		e.arrives(url, time.Second)
	}},
	{name: "a long poll on an empty queue waits its time", takes: 3 * time.Second, run: func(e *env) { e.waitsTwoSeconds(e.queue(), wait(2)) }},
	{name: "a queue's own wait time is honoured", takes: 3 * time.Second, run: func(e *env) {
		e.waitsTwoSeconds(e.queue("ReceiveMessageWaitTimeSeconds", "2"), wait(0))
	}},
	{name: "a long poll wakes when a visibility timeout ends", takes: 3 * time.Second, run: func(e *env) {
		url := e.queue("VisibilityTimeout", "2")
		e.send(url, "x")
		e.one(url)
		e.arrives(url, 2*time.Second)
	}},
	{name: "a long poll wakes when visibility is set to zero", takes: 2 * time.Second, run: func(e *env) {
		url := e.queue()
		e.send(url, "x")
		m := e.one(url)
		e.after(time.Second, func() {
			if err := e.tryVisibility(url, m, 0); err != nil {
				e.Error(err)
			}
		})
		e.arrives(url, time.Second)
	}},
	{name: "a long poll wakes when a delay ends", takes: 3 * time.Second, run: func(e *env) {
		url := e.queue()
		e.send(url, "x", delay(2))
		e.arrives(url, 2*time.Second)
	}},
	{name: "a long poll wakes when its group is released", takes: 2 * time.Second, run: func(e *env) {
		url := e.fifo()
		e.send(url, "1", group("g"))
		held := e.one(url)
		e.send(url, "2", group("g"))
		e.after(time.Second, func() {
			if err := e.tryDelete(url, held); err != nil {
				e.Error(err)
			}
		})
		if m := e.arrives(url, time.Second); *m.Body != "2" {
			e.Errorf("got %s", *m.Body)
		}
	}},
	{name: "a long poll on a dead letter queue wakes when a message is moved there", takes: 3 * time.Second, run: func(e *env) {
		dlq := e.queue()
		url := e.queue("VisibilityTimeout", "1", "RedrivePolicy", e.redrive(dlq, "1"))
		e.send(url, "x")
		e.one(url)
		e.after(2*time.Second, func() { _, _ = e.tryReceive(url) })
		e.arrives(dlq, 2*time.Second)
	}},
	{name: "of five long polls one gets the message", takes: 4 * time.Second, run: func(e *env) {
		url := e.queue()
		got := make(chan int, 5)
		for range 5 {
			go func() {
				out, err := e.tryReceive(url, wait(3))
				if err != nil {
					e.Error(err)
					got <- 0
					return
				}
				got <- len(out.Messages)
			}()
		}
		e.settle(time.Second)
		e.send(url, "x")
		total := 0
		for range 5 {
			total += <-got
		}
		if total != 1 {
			e.Errorf("%d of the polls got it", total)
		}
	}},
	{name: "a poll on a queue that is deleted ends", takes: 2 * time.Second, exact: true, run: func(e *env) {
		url := e.queue()
		e.after(time.Second, func() { _, _ = e.DeleteQueue(e.ctx(), &sqs.DeleteQueueInput{QueueUrl: url}) })
		_, err := e.tryReceive(url, wait(20))
		refused[*types.QueueDoesNotExist](e, err)
	}},
}

func (e *env) waitsTwoSeconds(url *string, mod func(*sqs.ReceiveMessageInput)) {
	e.Helper()
	start := time.Now()
	if got := e.receive(url, mod); len(got) > 0 {
		e.Errorf("received %d", len(got))
	}
	if took := time.Since(start); took < 2*time.Second || e.target.Bubble && took != 2*time.Second {
		e.Errorf("returned after %v", took)
	}
}

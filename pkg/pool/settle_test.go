package pool_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/stagefleet/stagefleet/pkg/outcome"
	"github.com/stagefleet/stagefleet/pkg/pool"
)

// counter counts runs per message id, and how many of one id overlapped.
type counter struct {
	mu      sync.Mutex
	runs    map[string]int
	live    map[string]int
	overlap int
	order   []string
}

func (c *counter) wrap(next pool.Handler) pool.Handler {
	return func(ctx context.Context, m pool.Message) error {
		c.mu.Lock()
		if c.runs == nil {
			c.runs, c.live = map[string]int{}, map[string]int{}
		}
		c.runs[m.ID]++
		c.live[m.ID]++
		c.overlap = max(c.overlap, c.live[m.ID])
		c.order = append(c.order, m.Body)
		c.mu.Unlock()
		defer func() {
			c.mu.Lock()
			c.live[m.ID]--
			c.mu.Unlock()
		}()
		return next(ctx, m)
	}
}

func (c *counter) total() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, runs := range c.runs {
		n += runs
	}
	return n
}

func TestDeletesAreGatheredToTen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		r.sendN(40)
		r.run(pool.Config{Slots: 40})
		settle(time.Minute)
		for _, c := range r.made("delete") {
			if c.entries != 10 {
				t.Errorf("a delete of %d, want 10", c.entries)
			}
		}
		r.wantCounts(0, 0, 0)
	})
}

func TestFailedDeleteEntriesAreRetriedUntilConfirmed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		r.sendN(10)
		c := &counter{}
		r.fail(nil)
		var calls atomic.Int32
		r.edits(func(op string, out any) {
			o, ok := out.(*sqs.DeleteMessageBatchOutput)
			if !ok || calls.Add(1) > 2 {
				return
			}
			for i := range o.Successful {
				o.Failed = append(o.Failed, types.BatchResultErrorEntry{Id: o.Successful[i].Id})
			}
			o.Successful = nil
		})
		run := r.run(pool.Config{Slots: 10, Middleware: []pool.Middleware{c.wrap}})
		settle(time.Hour)
		r.wantCounts(0, 0, 0)
		if c.total() != 10 || run.Status().Held != 0 {
			t.Errorf("%d runs, %d held, want 10 and none", c.total(), run.Status().Held)
		}
	})
}

func TestDeleteThatFailsBeyondTheLeaseIsMadeUpForWithoutASecondRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		r.send("a")
		c := &counter{}
		r.fail(failing("delete", "hide"))
		r.run(pool.Config{Middleware: []pool.Middleware{c.wrap}})
		settle(40 * time.Second)
		r.wantCounts(0, 1, 0) // received again, and not run
		r.fail(nil)
		settle(time.Hour)
		r.wantCounts(0, 0, 0)
		if c.total() != 1 {
			t.Errorf("%d runs, want 1", c.total())
		}
	})
}

func TestLateSuccessWithoutHeartbeatRunsOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		r.send("a")
		c := &counter{}
		r.fail(failing("hide"))
		r.run(pool.Config{Slots: 2, StuckAfter: time.Hour, Middleware: []pool.Middleware{c.wrap}, Handler: deaf(75 * time.Second)})
		settle(time.Hour)
		r.wantCounts(0, 0, 0)
		if c.total() != 1 {
			t.Errorf("%d runs, want 1", c.total())
		}
	})
}

func TestSecondReceiptOfARunningMessageBringsTheHandle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		r.send("a")
		b := newBook(5 * time.Minute)
		c := &counter{}
		r.fail(failing("hide")) // the record's lease goes on, the queue's does not
		r.run(pool.Config{Slots: 2, Ledger: b, Middleware: []pool.Middleware{c.wrap}, Handler: sleeper(100 * time.Second)})
		settle(time.Hour)
		r.wantCounts(0, 0, 0)
		if c.total() != 1 || !b.only().done {
			t.Errorf("%d runs, done %v, want 1 that is", c.total(), b.only().done)
		}
		deletes := r.made("delete")
		if len(deletes) != 1 || r.received() != 4 {
			t.Errorf("%d deletes after %d receipts, want one by the newest of four", len(deletes), r.received())
		}
	})
}

func TestTwinsInOneReceiveRunOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		r.sendN(2)
		c := &counter{}
		r.edits(func(op string, out any) {
			if o, ok := out.(*sqs.ReceiveMessageOutput); ok && len(o.Messages) == 2 {
				o.Messages = append(o.Messages, o.Messages[0])
			}
		})
		r.run(pool.Config{Middleware: []pool.Middleware{c.wrap}})
		settle(time.Hour)
		r.wantCounts(0, 0, 0)
		if deletes := r.made("delete"); c.total() != 2 || len(deletes) != 1 || deletes[0].entries != 2 {
			t.Errorf("%d runs, deletes %+v, want 2 and one call for both", c.total(), deletes)
		}
	})
}

func TestBackoffIsNotUndoneByTheBeat(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		r.send("a")
		c := &counter{}
		// The beat at 10 s takes three seconds, and the handler fails in the middle of it.
		r.fail(func(c call) error {
			if c.op == "hide" && c.timeouts[0] == 30 {
				pause(3 * time.Second)
			}
			return nil
		})
		r.run(pool.Config{Policy: outcome.Policy{Waits: []time.Duration{5 * time.Second}}, Middleware: []pool.Middleware{c.wrap},
			Handler: func(ctx context.Context, m pool.Message) error {
				if m.Attempt == 1 {
					pause(11 * time.Second)
					return errors.New("no luck")
				}
				return nil
			}})
		settle(13*time.Second + 5*time.Second + gathered - 1)
		if c.total() != 1 {
			t.Errorf("%d runs before the wait is over, want 1", c.total())
		}
		settle(1 + time.Second)
		if c.total() != 2 {
			t.Errorf("%d runs after the wait, want 2", c.total())
		}
		settle(time.Hour)
		r.wantCounts(0, 0, 0)
	})
}

func TestMessageIsKeptUntilItsBackoffIsConfirmed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		r.send("a")
		c := &counter{}
		r.run(pool.Config{Policy: outcome.Policy{Waits: []time.Duration{50 * time.Second}}, Middleware: []pool.Middleware{c.wrap},
			Handler: func(context.Context, pool.Message) error { return errors.New("no luck") }})
		r.fail(func(c call) error {
			if c.op == "hide" && c.timeouts[0] == 50 && time.Since(r.start) < 40*time.Second {
				return errQueue
			}
			return nil
		})
		settle(80 * time.Second)
		if c.total() != 1 {
			t.Errorf("%d runs, want 1: the backoff took 40 s to be accepted", c.total())
		}
		settle(20 * time.Second)
		if c.total() != 2 {
			t.Errorf("%d runs, want 2", c.total())
		}
	})
}

func TestDeadLetterHasItsReasonAndIsNotDoubledByAFailedDelete(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		if _, err := r.client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &r.queue, MessageBody: new("a"), MessageGroupId: new("tenant"),
			MessageAttributes: map[string]types.MessageAttributeValue{"own": {DataType: new("String"), StringValue: new("kept")}}}); err != nil {
			t.Fatal(err)
		}
		var failed atomic.Int32
		r.fail(func(c call) error {
			if c.op == "delete" && failed.Add(1) <= 5 {
				return errQueue
			}
			return nil
		})
		r.run(pool.Config{Handler: func(context.Context, pool.Message) error { return outcome.Quarantine("no_such_thing", nil) }})
		settle(time.Second)
		r.wantCounts(0, 1, 1) // the copy first
		settle(time.Hour)
		r.wantCounts(0, 0, 1)
		m := r.peek(r.dlq)[0]
		for name, want := range map[string]string{
			"own": "kept", pool.AttributeClass: "quarantine", pool.AttributeReason: "no_such_thing", pool.AttributeCause: "no_such_thing", pool.AttributeAttempts: "1", pool.AttributeGroup: "tenant",
		} {
			if got := m.MessageAttributes[name].StringValue; got == nil || *got != want {
				t.Errorf("attribute %s = %v, want %q", name, got, want)
			}
		}
		if *m.Body != "a" || m.MessageAttributes[pool.AttributeMessage].StringValue == nil || r.received() != 1 {
			t.Errorf("dead letter %+v after %d receipts", m, r.received())
		}
	})
}

func TestDeadLetterOfAMessageWithTenAttributesIsSentAllTheSame(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		attributes := map[string]types.MessageAttributeValue{}
		for _, n := range "abcdefghi" {
			attributes[string(n)] = types.MessageAttributeValue{DataType: new("String"), StringValue: new("x")}
		}
		if _, err := r.client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &r.queue, MessageBody: new("a"), MessageAttributes: attributes}); err != nil {
			t.Fatal(err)
		}
		r.run(pool.Config{Handler: func(context.Context, pool.Message) error { return outcome.Quarantine("why", nil) }})
		settle(time.Minute)
		r.wantCounts(0, 0, 1)
		if m := r.peek(r.dlq)[0]; len(m.MessageAttributes) != 10 || *m.MessageAttributes[pool.AttributeReason].StringValue != "why" {
			t.Errorf("attributes %v, want the nine and the reason", m.MessageAttributes)
		}
	})
}

func TestDeadLetterOfTheLongestBodyIsSentWithoutItsStory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		r.send(strings.Repeat("x", 1<<20))
		r.run(pool.Config{Handler: func(context.Context, pool.Message) error { return outcome.Quarantine("why", nil) }})
		settle(time.Second)
		r.wantCounts(0, 0, 1)
		if m := r.peek(r.dlq)[0]; len(*m.Body) != 1<<20 || len(m.MessageAttributes) != 0 {
			t.Errorf("dead letter of %d bytes with %v", len(*m.Body), m.MessageAttributes)
		}
	})
}

func TestMissingDeadLetterQueueLosesNothingAndDoesNotSpin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		r.send("a")
		r.run(pool.Config{DeadLetterURL: r.dlq + "-not", Handler: func(context.Context, pool.Message) error { return outcome.Quarantine("why", nil) }})
		settle(5 * time.Minute)
		if n := len(r.made("send")); n < 2 || n > 11 {
			t.Errorf("%d sends in 5 minutes, want one a visibility", n)
		}
		if r.visible()+r.hidden() != 1 {
			t.Error("message lost")
		}
	})
}

func TestWithoutADeadLetterQueueTheQueuesOwnPolicyMovesIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", map[string]string{"maxReceiveCount": "3"})
		r.send("a")
		p, err := pool.New(r, pool.Config{QueueURL: r.queue, Visibility: 30 * time.Second, Handler: func(context.Context, pool.Message) error {
			return outcome.Quarantine("why", nil)
		}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _, _ = p.Run(ctx) }()
		settle(5 * time.Minute)
		cancel()
		<-done
		r.wantCounts(0, 0, 1)
	})
}

func TestWhatAHandlerWritesIntoItsAttributesIsNotInTheDeadLetter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		value := types.MessageAttributeValue{DataType: aws.String("String"), StringValue: aws.String("v")}
		if _, err := r.client.SendMessage(t.Context(), &sqs.SendMessageInput{
			QueueUrl: &r.queue, MessageBody: aws.String("a"), MessageAttributes: map[string]types.MessageAttributeValue{"tenant": value},
		}); err != nil {
			t.Fatal(err)
		}
		r.run(pool.Config{Handler: func(_ context.Context, m pool.Message) error {
			delete(m.Attributes, "tenant")
			m.Attributes["forwarded"] = value
			return outcome.Quarantine("bad", nil)
		}})
		settle(time.Minute)
		got := r.peek(r.dlq)[0].MessageAttributes
		if _, ok := got["tenant"]; !ok {
			t.Errorf("attributes %v, want those of the original", got)
		}
		if _, ok := got["forwarded"]; ok {
			t.Errorf("attributes %v, want none of the handler's", got)
		}
	})
}

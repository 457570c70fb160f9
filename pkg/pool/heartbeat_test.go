package pool_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// gathered is how long a lone settlement waits for company.
const gathered = 5 * time.Millisecond

// sleeper is a handler that takes d, or ends with its context.
func sleeper(d time.Duration) pool.Handler {
	return func(ctx context.Context, _ pool.Message) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// deaf is a handler that takes d whatever happens to its context.
func deaf(d time.Duration) pool.Handler {
	return func(context.Context, pool.Message) error {
		time.Sleep(d)
		return nil
	}
}

// caused is a handler that waits for the end of its context and notes when and why that first came.
type caused struct {
	start time.Time

	mu    sync.Mutex
	cause error
	at    time.Duration
	runs  int
}

func (c *caused) handle(ctx context.Context, _ pool.Message) error {
	<-ctx.Done()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.runs++; c.runs == 1 {
		c.cause, c.at = context.Cause(ctx), time.Since(c.start)
	}
	return ctx.Err()
}

func (c *caused) want(t *testing.T, cause error, at time.Duration) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !errors.Is(c.cause, cause) || c.at != at {
		t.Errorf("context ended with %v at %v, want %v at %v", c.cause, c.at, cause, at)
	}
}

// notYet checks that no context has ended.
func (c *caused) notYet(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.runs > 0 {
		t.Fatalf("context ended early, with %v at %v", c.cause, c.at)
	}
}

var errQueue = errors.New("queue does not answer")

func failing(ops ...string) func(call) error {
	return func(c call) error {
		if slices.Contains(ops, c.op) {
			return errQueue
		}
		return nil
	}
}

func TestMessageIsKeptHiddenUntilItsHandlerReturns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		run := r.run(pool.Config{Handler: sleeper(25 * time.Second)})
		r.send("a")
		settle(10*time.Second - 1)
		r.wantMoments("hide")
		settle(1)
		r.wantMoments("hide", 10*time.Second)
		settle(15 * time.Second)
		r.wantMoments("hide", 10*time.Second, 20*time.Second)
		settle(time.Hour)
		r.wantMoments("hide", 10*time.Second, 20*time.Second)
		r.wantMoments("delete", 25*time.Second+gathered)
		r.wantCounts(0, 0, 0)
		run.drained(pool.Report{})
	})
}

func TestRenewalCountsFromTheCallAndIsNeverAdded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		r.run(pool.Config{Beat: 15 * time.Second, Visibility: 30 * time.Second, Handler: sleeper(59 * time.Second)})
		r.send("a")
		settle(15 * time.Second)
		r.fail(failing("hide", "delete")) // as if the process hung from here on
		settle(30*time.Second - 1)
		if n := r.received(); n != 1 {
			t.Errorf("received %d times before 45 s, want once", n)
		}
		settle(1)
		if n := r.received(); n != 2 {
			t.Errorf("received %d times at 45 s, want twice", n)
		}
		for _, c := range r.made("hide") {
			if !slices.Equal(c.timeouts, []int32{30}) {
				t.Errorf("at %v hidden for %v, want 30 s each time", c.at, c.timeouts)
			}
		}
	})
}

func TestBeatIsOneLoopWithBatchesOfTen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		r.run(pool.Config{Slots: 40, Handler: sleeper(25 * time.Second)})
		r.sendN(37)
		settle(24 * time.Second)
		beats := map[time.Duration][]int{}
		for _, c := range r.made("hide") {
			beats[c.at.Truncate(time.Second)] = append(beats[c.at.Truncate(time.Second)], c.entries)
		}
		for _, at := range []time.Duration{10 * time.Second, 20 * time.Second} {
			slices.Sort(beats[at])
			if !slices.Equal(beats[at], []int{7, 10, 10, 10}) {
				t.Errorf("at %v entries %v, want 4 calls for 37 messages", at, beats[at])
			}
		}
		if len(beats) != 2 {
			t.Errorf("beats at %v, want two", beats)
		}
		settle(time.Hour)
		r.wantCounts(0, 0, 0)
	})
}

func TestBeatKeepsBatchesFullWhenMessagesArriveOverTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		r.run(pool.Config{Slots: 100, Visibility: 7 * time.Minute, Handler: sleeper(time.Hour)})
		for range 60 {
			r.send("a")
			settle(time.Second)
		}
		settle(29 * time.Minute)
		calls, entries := len(r.made("hide")), r.entries("hide")
		if calls*10 > entries+10*10 {
			t.Errorf("%d calls for %d renewals, want about a tenth", calls, entries)
		}
	})
}

func TestFailedBeatIsRetriedWithinSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		run := r.run(pool.Config{Handler: sleeper(20 * time.Second)})
		r.send("a")
		settle(9 * time.Second)
		r.fail(failing("hide"))
		settle(1500 * time.Millisecond)
		r.fail(nil)
		settle(9 * time.Second)
		r.wantMoments("hide", 10*time.Second, 12*time.Second)
		settle(time.Hour)
		r.wantCounts(0, 0, 0)
		if run.Status().Held != 0 {
			t.Error("still held")
		}
	})
}

func TestThrottledEntryIsNoLostReceipt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		h := &caused{start: r.start}
		r.send("a")
		var once atomic.Bool
		r.edits(func(op string, out any) {
			if o, ok := out.(*sqs.ChangeMessageVisibilityBatchOutput); ok && once.CompareAndSwap(false, true) {
				o.Failed = append(o.Failed, types.BatchResultErrorEntry{Id: o.Successful[0].Id, SenderFault: true, Code: aws.String("RequestThrottled")})
				o.Successful = nil
			}
		})
		r.run(pool.Config{Handler: h.handle})
		settle(13 * time.Second)
		h.notYet(t)
		r.wantMoments("hide", 10*time.Second, 12*time.Second)
	})
}

func TestFailedEntryOfABeatIsRetriedAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		r.run(pool.Config{Slots: 3, Handler: sleeper(15 * time.Second)})
		r.sendN(3)
		var once atomic.Bool
		r.edits(func(op string, out any) {
			if o, ok := out.(*sqs.ChangeMessageVisibilityBatchOutput); ok && once.CompareAndSwap(false, true) {
				o.Failed = append(o.Failed, types.BatchResultErrorEntry{Id: o.Successful[1].Id})
				o.Successful = slices.Delete(o.Successful, 1, 2)
			}
		})
		settle(14 * time.Second)
		calls := r.made("hide")
		if len(calls) != 2 || calls[0].entries != 3 || calls[1].entries != 1 || calls[1].handles[0] != calls[0].handles[1] {
			t.Errorf("beats %+v, want all three and then the failed one", calls)
		}
		settle(time.Hour)
		r.wantCounts(0, 0, 0)
	})
}

func TestHungBeatIsBoundedAndTheLeaseGuardedMeanwhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		h := &caused{start: r.start}
		r.run(pool.Config{Handler: h.handle})
		r.send("a")
		r.fail(func(c call) error {
			if c.op != "hide" {
				return nil
			}
			pause(time.Hour) // beyond any bound; the rig does not look at contexts
			return errQueue
		})
		settle(27 * time.Second)
		h.want(t, outcome.ErrLeaseLost, 27*time.Second) // a tenth of 30 s before the end
		settle(2 * time.Hour)
	})
}

func TestWithoutALedgerVisibilityIsTheLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		h := &caused{start: r.start}
		run := r.run(pool.Config{Handler: h.handle})
		r.send("a")
		settle(1) // received
		r.fail(failing("hide", "delete", "receive"))
		settle(27*time.Second - 2)
		h.notYet(t)
		settle(1)
		h.want(t, outcome.ErrLeaseLost, 27*time.Second)
		settle(time.Minute)
		if run.Status().Held != 0 {
			t.Error("still held")
		}
		r.wantCounts(1, 0, 0)
	})
}

func TestReceiptThatTheQueueDisownsEndsTheHandler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		h := &caused{start: r.start}
		r.run(pool.Config{Slots: 1, Handler: h.handle})
		r.send("a")
		r.edits(func(op string, out any) {
			if o, ok := out.(*sqs.ChangeMessageVisibilityBatchOutput); ok {
				o.Failed, o.Successful = []types.BatchResultErrorEntry{{Id: o.Successful[0].Id, SenderFault: true}}, nil
			}
		})
		settle(10 * time.Second)
		h.want(t, outcome.ErrLeaseLost, 10*time.Second)
	})
}

func TestWorkLongerThanTwelveHoursEndsBeforeTheHorizon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		h := &caused{start: r.start}
		r.run(pool.Config{Visibility: 7 * time.Minute, Beat: 3 * time.Minute, Handler: h.handle})
		r.send("a")
		settle(12*time.Hour - time.Minute - 1)
		h.notYet(t)
		settle(1)
		h.want(t, outcome.ErrHorizon, 12*time.Hour-time.Minute)
		for _, c := range r.made("hide") {
			if end := c.at + time.Duration(c.timeouts[0])*time.Second; c.err != nil || end >= 12*time.Hour {
				t.Errorf("at %v hidden until %v, error %v", c.at, end, c.err)
			}
		}
		if n := len(r.made("hide")); n != 239 {
			t.Errorf("%d beats in 12 hours, want one every 3 minutes, 239", n)
		}
	})
}

func TestMiddlewareThatReplacesTheMessageDoesNotStopTheBeat(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q.fifo", nil)
		other := func(next pool.Handler) pool.Handler {
			return func(ctx context.Context, m pool.Message) error {
				m.ID, m.Body = "another", "another"
				return next(ctx, m)
			}
		}
		r.run(pool.Config{Slots: 10, Visibility: 5 * time.Second, Beat: 2 * time.Second, Wait: time.Second, Middleware: []pool.Middleware{other}, Handler: sleeper(12 * time.Second)})
		for i := range 10 {
			r.send(fmt.Sprintf("g%d:x", i))
		}
		settle(time.Hour)
		r.wantCounts(0, 0, 0)
		if n := r.entries("delete"); n != 10 {
			t.Errorf("%d deletes, want 10", n)
		}
	})
}

func TestCrashedWorkerReleasesItsMessageWithinOneVisibility(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		r.run(pool.Config{Slots: 1, Wait: time.Second, Handler: sleeper(10 * time.Hour)})
		r.send("a")
		settle(50 * time.Minute)
		r.fail(failing("hide", "receive", "delete"))
		settle(30*time.Second + 5*time.Second)
		r.wantCounts(1, 0, 0)
	})
}

func TestTenThousandInFlightCostATenthInCalls(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("10,000 messages")
	}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		run := r.run(pool.Config{Slots: 10_000, Visibility: 7 * time.Minute, Handler: sleeper(10 * time.Minute)})
		r.sendN(10_000)
		settle(time.Minute)
		if run.Status().Running != 10_000 {
			t.Fatalf("%d run", run.Status().Running)
		}
		settle(7 * time.Minute) // at 3 and 6 minutes
		if n := len(r.made("hide")); n != 2*1000 {
			t.Errorf("%d calls in two beats, want 2,000", n)
		}
		for _, c := range r.made("hide") {
			if c.entries != 10 || c.bytes >= 4096 {
				t.Fatalf("a renewal of %d messages in %d bytes", c.entries, c.bytes)
			}
		}
		settle(time.Hour)
	})
}

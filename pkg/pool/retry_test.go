package pool_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagefleet/stagefleet/pkg/internal/change"
	"github.com/stagefleet/stagefleet/pkg/outcome"
	"github.com/stagefleet/stagefleet/pkg/pool"
)

var errNoLuck = errors.New("no luck")

func TestFailuresAreSpreadByThePolicyAndEndInTheDeadLetters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		r.sendN(20)
		var mu sync.Mutex
		starts := map[string][]time.Duration{}
		r.run(pool.Config{Slots: 20, Policy: outcome.Policy{MaxAttempts: 5, Waits: []time.Duration{10 * time.Second, 30 * time.Second, time.Minute}, Jitter: 0.2},
			Handler: func(_ context.Context, m pool.Message) error {
				mu.Lock()
				defer mu.Unlock()
				starts[m.ID] = append(starts[m.ID], time.Since(r.start))
				return errNoLuck
			}})
		settle(10 * time.Minute)
		for id, at := range starts {
			if len(at) != 5 {
				t.Fatalf("message %s ran at %v, want five times", id, at)
			}
			for i, wait := range []time.Duration{10 * time.Second, 30 * time.Second, time.Minute, time.Minute} {
				if got := at[i+1] - at[i]; got < wait || got > wait*6/5+2*time.Second {
					t.Errorf("wait %d was %v, want %v and up to a fifth more", i, got, wait)
				}
			}
		}
		r.wantCounts(0, 0, 20)
	})
}

func TestDeferralIsNoAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		r.send("a")
		b := newBook(30 * time.Second)
		runs := 0
		r.run(pool.Config{Ledger: b, Handler: func(_ context.Context, m pool.Message) error {
			if runs++; m.Attempt != 1 {
				t.Errorf("attempt %d after deferrals alone", m.Attempt)
			}
			if runs <= 50 {
				return outcome.Defer(10*time.Second, "rate_limited")
			}
			return nil
		}})
		settle(time.Hour)
		if p := b.only(); !p.done || p.runs != 51 || p.attempts != 1 {
			t.Errorf("record %+v, want 51 runs and one attempt", p)
		}
		r.wantCounts(0, 0, 0)
	})
}

func TestRejectedInputIsNoDeadLetter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		r.send("a")
		r.run(pool.Config{Handler: func(context.Context, pool.Message) error { return outcome.Reject("empty", "The file is empty.") }})
		settle(time.Minute)
		r.wantCounts(0, 0, 0)
	})
}

func TestQuarantineReachesTheDeadLettersWithinASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		r.run(pool.Config{Handler: pool.JSON(func(context.Context, pool.Message, struct{}) error { return nil })})
		r.send("not json")
		settle(time.Second)
		r.wantCounts(0, 0, 1)
		if r.received() != 1 {
			t.Errorf("received %d times", r.received())
		}
	})
}

func TestAwaitWithoutALedgerFailsClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		r.send("a")
		r.run(pool.Config{Handler: func(context.Context, pool.Message) error { return outcome.Await("effect", time.Now().Add(time.Hour)) }})
		settle(time.Minute)
		r.wantCounts(0, 0, 1)
		if m := r.peek(r.dlq)[0]; *m.MessageAttributes[pool.AttributeReason].StringValue != "await_without_ledger" {
			t.Errorf("reason %v", m.MessageAttributes[pool.AttributeReason])
		}
	})
}

func TestBadMessagesLeakNoSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		good := 0
		r.sendN(1000)
		r.send(`42`)
		r.sendN(1000)
		run := r.run(pool.Config{Slots: 10, Handler: pool.JSON(func(context.Context, pool.Message, int) error { good++; return nil })})
		settle(time.Hour)
		if good != 1 || run.Status().Held != 0 || run.Status().Running != 0 {
			t.Errorf("good %d, status %+v", good, run.Status())
		}
		r.wantCounts(0, 0, 2000)
	})
}

func TestMessageAlreadyWaitingForItsSlotIsNeverReceived(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		r.sendN(10)
		r.run(pool.Config{Slots: 1, Handler: sleeper(time.Hour)})
		settle(time.Minute)
		r.wantCounts(9, 1, 0)
		for _, m := range r.peek(r.queue) {
			if m.Attributes["ApproximateReceiveCount"] != "1" {
				t.Errorf("receive count %s before the peek, want 0", m.Attributes["ApproximateReceiveCount"])
			}
		}
	})
}

// valve is a gate by hand, which may also give out permits one by one.
type valve struct {
	change.Signal
	mu    sync.Mutex
	shut  string
	limit int // permits at a time; 0: any number
	out   int
	every time.Duration // between two messages
	last  time.Time
}

func (v *valve) Changed() <-chan struct{} { return v.Next() }

func (v *valve) set(reason string) {
	v.mu.Lock()
	v.shut = reason
	v.mu.Unlock()
	v.Fire()
}

func (v *valve) Admit(want int) (int, func(), string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.shut != "":
		return 0, nil, v.shut
	case v.limit > 0:
		n := min(want, v.limit-v.out)
		if n <= 0 {
			return 0, nil, "limit"
		}
		v.out += n
		return n, func() {
			v.mu.Lock()
			v.out -= n
			v.mu.Unlock()
			v.Fire()
		}, ""
	case v.every > 0:
		if since := time.Since(v.last); since < v.every {
			time.AfterFunc(v.every-since, v.Fire)
			return 0, nil, "rate"
		}
		v.last = time.Now()
		return 1, nil, ""
	}
	return want, nil, ""
}

func TestNothingIsReceivedWhileAGateIsShut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", map[string]string{"maxReceiveCount": "3"})
		v := &valve{shut: "paused"}
		r.sendN(10)
		run := r.run(pool.Config{Gates: []pool.Gate{v}})
		settle(12 * time.Hour)
		if len(r.made("receive")) != 0 {
			t.Errorf("%d receives while shut from the start", len(r.made("receive")))
		}
		if err := errors.Join(run.Live(), run.Ready()); err != nil || run.Status().Reason != "paused" {
			t.Errorf("health %v, reason %q: a pause is no fault", err, run.Status().Reason)
		}
		v.set("")
		settle(time.Second)
		r.wantCounts(0, 0, 0)
		v.set("paused")
		settle(20 * time.Second) // the poll under way ends
		n := len(r.made("receive"))
		r.sendN(10)
		settle(time.Hour)
		if got := len(r.made("receive")); got != n {
			t.Errorf("%d receives while shut", got-n)
		}
		r.wantCounts(10, 0, 0)
		for _, m := range r.peek(r.queue) {
			if m.Attributes["ApproximateReceiveCount"] != "1" {
				t.Errorf("receive count %s, want none but the peek's", m.Attributes["ApproximateReceiveCount"])
			}
		}
	})
}

func TestRateLimitAsAGateDeadLettersNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", map[string]string{"maxReceiveCount": "3"})
		r.sendN(500)
		c := &counter{}
		r.run(pool.Config{Gates: []pool.Gate{&valve{every: time.Second}}, Middleware: []pool.Middleware{c.wrap}})
		settle(499*time.Second + time.Millisecond)
		if c.total() != 500 {
			t.Errorf("%d runs in 499 s at one a second, want 500", c.total())
		}
		settle(time.Hour)
		r.wantCounts(0, 0, 0)
	})
}

func TestPermitsComeBackWhenTheirMessagesAreSettled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		v := &valve{limit: 3}
		run := r.run(pool.Config{Gates: []pool.Gate{v}, Handler: sleeper(time.Second)})
		settle(time.Minute) // polls that bring nothing give theirs back
		r.sendN(30)
		for range 10 {
			settle(time.Second)
			if n := run.Status().Held; n > 3 {
				t.Fatalf("%d held with three permits", n)
			}
		}
		settle(time.Minute)
		r.wantCounts(0, 0, 0)
		run.stop()
		<-run.done
		if v.out != 0 {
			t.Errorf("%d permits not given back", v.out)
		}
	})
}

func TestRefusalOfOneGateUndoesThePermitsOfOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		permits, shut := &valve{limit: 1}, &valve{shut: "paused"}
		r.send("a")
		r.run(pool.Config{Gates: []pool.Gate{permits, shut}})
		settle(time.Minute)
		shut.set("")
		settle(time.Minute)
		r.wantCounts(0, 0, 0)
	})
}

func TestHoursOfOutageOfTheRecordBurnNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", map[string]string{"maxReceiveCount": "3"})
		b := newBook(30 * time.Second)
		b.ill = errIll
		r.sendN(30)
		run := r.run(pool.Config{Ledger: b})
		settle(2 * time.Hour)
		if n := r.received(); n != 10 {
			t.Errorf("received %d, want the first ten alone", n)
		}
		if run.Status().Reason != "store_unreachable" || run.Live() != nil {
			t.Errorf("status %+v, live %v", run.Status(), run.Live())
		}
		b.with(func() { b.ill = nil })
		settle(time.Minute)
		r.wantCounts(0, 0, 0)
		if b.pings < 700 || b.pings > 730 {
			t.Errorf("%d pings in two hours, want one each ten seconds", b.pings)
		}
	})
}

func TestMessageAtItsReceiveLimitWaitsForAnIllRecord(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", map[string]string{"maxReceiveCount": "1"})
		b := newBook(30 * time.Second)
		b.ill = errIll
		r.send("a")
		run := r.run(pool.Config{Ledger: b, MaxReceives: 1})
		settle(10 * time.Minute)
		if r.received() != 1 || run.Status().Held != 1 {
			t.Errorf("received %d, held %d, want it kept", r.received(), run.Status().Held)
		}
		b.with(func() { b.ill = nil })
		settle(time.Minute)
		r.wantCounts(0, 0, 0)
		if !b.only().done {
			t.Error("not done")
		}
	})
}

func TestRefusedClaimsAreSettledAndNoAttempts(t *testing.T) {
	t.Parallel()
	for i, refusal := range []pool.Settlement{
		{Action: pool.Delete, Reason: "ended"},
		{Action: pool.Hide, After: 40 * time.Second, Reason: "held"},
		{Action: pool.DeadLetter, Reason: "unknown_step"},
		{Action: pool.Leave, Reason: "lost"},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, "q", nil)
			r.send("a")
			b := &refuser{book: newBook(30 * time.Second), refusal: refusal}
			c := &counter{}
			r.run(pool.Config{Slots: 1, Ledger: b, Middleware: []pool.Middleware{c.wrap}})
			settle(29 * time.Second)
			want := [][3]int{{0, 0, 0}, {0, 1, 0}, {0, 0, 1}, {0, 1, 0}}[i]
			r.wantCounts(want[0], want[1], want[2])
			if c.total() != 0 {
				t.Errorf("%v: it ran", refusal)
			}
		})
	}
}

// refuser is a book that refuses every claim.
type refuser struct {
	*book
	refusal pool.Settlement
}

func (r *refuser) Claim(context.Context, pool.Message) (pool.Grant, error) {
	return pool.Grant{}, fmt.Errorf("claim: %w", &pool.Refusal{Settlement: r.refusal})
}

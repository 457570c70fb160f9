package pool_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/smithy-go"

	"github.com/stagefleet/stagefleet/pkg/pool"
)

func TestIdlePoolMakesThreeReceivesAMinuteWhateverItsSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		r.run(pool.Config{Slots: 1000})
		settle(time.Hour)
		if n := len(r.made("receive")); n != 180+1 {
			t.Errorf("%d receives in an hour, want 3 a minute", n)
		}
		for _, c := range r.made("receive") {
			if c.wait != 20 {
				t.Fatalf("a poll of %d s", c.wait)
			}
		}
	})
}

func TestIdleAgainAfterABacklog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		r.sendN(2000)
		r.run(pool.Config{Slots: 100, Handler: sleeper(10 * time.Millisecond)})
		settle(time.Minute)
		r.wantCounts(0, 0, 0)
		n := len(r.made("receive"))
		settle(time.Hour)
		if got := len(r.made("receive")) - n; got > 181 {
			t.Errorf("%d receives in an idle hour, want 3 a minute", got)
		}
	})
}

func TestBacklogIsPolledInParallelUpToEight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		var mu sync.Mutex
		live, most := 0, 0
		r.fail(func(c call) error {
			if c.op == "receive" {
				mu.Lock()
				live++
				most = max(most, live)
				mu.Unlock()
				pause(20 * time.Millisecond)
				mu.Lock()
				live--
				mu.Unlock()
			}
			return nil
		})
		r.sendN(5000)
		r.run(pool.Config{Slots: 200})
		settle(2 * time.Second)
		if most != 8 {
			t.Errorf("%d polls at once, want 8", most)
		}
		r.wantCounts(0, 0, 0)
	})
}

func TestEightPollsStayUnderWayWhileABacklogLasts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		r.fail(func(call) error {
			pause(10 * time.Millisecond)
			return nil
		})
		r.sendN(8000)
		r.run(pool.Config{Slots: 100})
		settle(10 * time.Second)
		r.wantCounts(0, 0, 0)
		deletes := r.moments("delete")
		// 8,000 messages are a hundred rounds of eight polls; three rounds are for finding out that there is a backlog, one for the last delete.
		if last := deletes[len(deletes)-1]; last > 1050*time.Millisecond {
			t.Errorf("the backlog was worked off at %v, want 1.05 s at most", last)
		}
		if n := len(r.made("receive")); n > 800+8+1 {
			t.Errorf("%d receives, want ten messages in each", n)
		}
	})
}

func TestCallsPerMessageStayLow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		r.fail(func(call) error {
			pause(5 * time.Millisecond)
			return nil
		})
		r.sendN(5000)
		r.run(pool.Config{Slots: 100, Handler: sleeper(3 * time.Millisecond)})
		settle(10 * time.Second)
		r.wantCounts(0, 0, 0)
		if calls := len(r.made("receive")) + len(r.made("delete")); calls > 5000*21/100 {
			t.Errorf("%d calls for 5,000 messages, want at most 0.21 each", calls)
		}
	})
}

func TestNoSlotIdlesBesideASlowHandler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		r.sendN(501)
		var mu sync.Mutex
		quick, last := 0, time.Duration(0)
		r.run(pool.Config{Slots: 10, Handler: func(context.Context, pool.Message) error {
			mu.Lock()
			quick++
			slow := quick == 5
			mu.Unlock()
			if slow {
				pause(time.Minute)
				return nil
			}
			pause(20 * time.Millisecond)
			mu.Lock()
			last = time.Since(r.start)
			mu.Unlock()
			return nil
		}})
		settle(30 * time.Second)
		if limit := 1125 * time.Millisecond; last > limit || r.hidden() != 1 {
			t.Errorf("the 500 were done at %v, want %v; the ideal is 1.12 s", last, limit)
		}
	})
}

func TestOneLongHandlerDoesNotKeepOthersWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		c := &counter{}
		r.send("long")
		r.run(pool.Config{Slots: 120, Middleware: []pool.Middleware{c.wrap}, Handler: func(ctx context.Context, m pool.Message) error {
			if m.Body == "long" {
				return sleeper(5*time.Minute)(ctx, m)
			}
			return nil
		}})
		settle(time.Minute)
		r.sendN(1000)
		settle(time.Second)
		if c.total() != 1001 {
			t.Errorf("%d runs a second after the queue was filled, want all", c.total())
		}
	})
}

func TestReceivesGoOnAfterAnyTrouble(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"unavailable": &smithy.GenericAPIError{Code: "ServiceUnavailable"},
		"throttled":   &smithy.GenericAPIError{Code: "ThrottlingException"},
		"over limit":  &smithy.GenericAPIError{Code: "OverLimit"},
		"reset":       io.ErrUnexpectedEOF,
		"garbage":     errors.New("invalid character"),
		"hang":        errHang,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, "q", nil)
				c := &counter{}
				run := r.run(pool.Config{Middleware: []pool.Middleware{c.wrap}})
				settle(time.Minute)
				r.fail(func(c call) error {
					if c.op == "receive" {
						return err
					}
					return nil
				})
				n := len(r.made("receive"))
				settle(10 * time.Minute)
				if got := len(r.made("receive")) - n; got > 70 || got < 10 {
					t.Errorf("%d receives in ten bad minutes", got)
				}
				if run.Ready() == nil || run.Live() == nil {
					t.Error("healthy while nothing is received")
				}
				r.fail(nil)
				r.send("a")
				settle(30 * time.Second)
				if c.total() != 1 || run.Ready() != nil || run.Live() != nil {
					t.Errorf("%d runs, ready %v half a minute after the trouble", c.total(), run.Ready())
				}
			})
		})
	}
}

func TestManyPoolsLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		for i := range 200 {
			r.send("a")
			run := r.run(pool.Config{Name: fmt.Sprint(i), Wait: time.Second})
			run.stop()
			<-run.done
		}
	}) // a goroutine that is left fails the bubble
}

func TestDeletesThatAreSlowDoNotPileUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		r.fail(func(c call) error {
			if c.op == "delete" {
				pause(9 * time.Second)
			}
			return nil
		})
		r.sendN(2000)
		run := r.run(pool.Config{Slots: 50})
		settle(30 * time.Second)
		if n := run.Status().Held; n > 50+200+50 {
			t.Errorf("%d held while deletes hang", n)
		}
		settle(2 * time.Hour)
		r.wantCounts(0, 0, 0)
	})
}

func TestQueueWithSlowCallsAndManyInFlightDrains(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", map[string]string{"VisibilityTimeout": "300"})
		r.fail(func(call) error {
			pause(200 * time.Millisecond)
			return nil
		})
		r.sendN(500)
		c := &counter{}
		r.run(pool.Config{Slots: 500, Visibility: 5 * time.Minute, Beat: 2 * time.Minute, Middleware: []pool.Middleware{c.wrap}, Handler: sleeper(9 * time.Minute)})
		settle(time.Hour)
		r.wantCounts(0, 0, 0)
		if c.total() != 500 {
			t.Errorf("%d runs of 500", c.total())
		}
		for _, h := range r.made("hide") {
			for _, s := range h.timeouts {
				if s != 300 {
					t.Fatalf("hidden for %d s, want the configured 300", s)
				}
			}
		}
	})
}

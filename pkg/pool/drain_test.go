package pool_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagefleet/stagefleet/pkg/outcome"
	"github.com/stagefleet/stagefleet/pkg/pool"
)

func TestStopLetsTheRunningPollEndAndHandsBackWhatItBrings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		c := &counter{}
		run := r.run(pool.Config{Middleware: []pool.Middleware{c.wrap}})
		settle(5 * time.Second)
		run.stop()
		settle(time.Millisecond)
		r.send("a")
		settle(time.Second)
		if !run.ended() {
			t.Fatal("still running a second after its poll got the message")
		}
		r.wantCounts(1, 0, 0)
		run.drained(pool.Report{Released: 1})
		if c.total() != 0 {
			t.Error("it was run")
		}
	})
}

func TestStopOfAnIdlePoolLastsNoLongerThanItsPoll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		run := r.run(pool.Config{})
		settle(5 * time.Second)
		run.stop()
		settle(15*time.Second - 1)
		if run.ended() {
			t.Error("the poll was cut")
		}
		settle(1)
		if !run.ended() {
			t.Error("still running after its poll")
		}
		n := len(r.calls)
		settle(time.Hour)
		if len(r.calls) != n {
			t.Error("calls after the end")
		}
	})
}

func TestStopWaitsForHandlersAndKeepsTheirMessages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		r.send("a")
		c := &counter{}
		run := r.run(pool.Config{Slots: 1, Visibility: 10 * time.Second, Beat: 4 * time.Second, Wait: time.Second, Drain: time.Minute,
			Middleware: []pool.Middleware{c.wrap}, Handler: sleeper(55 * time.Second)})
		run.stop()
		settle(55*time.Second + gathered - 1)
		if run.ended() {
			t.Error("ended before its handler")
		}
		settle(1)
		if !run.ended() || c.total() != 1 {
			t.Errorf("ended %v, runs %d, want true and 1", run.ended(), c.total())
		}
		r.wantCounts(0, 0, 0)
		run.drained(pool.Report{Finished: 1})
	})
}

func TestStopWithAFullPoolTakesNoLongerThanItsHandlers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		r.sendN(100)
		run := r.run(pool.Config{Slots: 10, Handler: sleeper(20 * time.Millisecond)})
		settle(50 * time.Millisecond)
		stopped := time.Now()
		run.stop()
		<-run.done
		if took := time.Since(stopped); took > 120*time.Millisecond {
			t.Errorf("stop took %v, want at most 100 ms beyond a handler", took)
		}
		if r.hidden() != 0 {
			t.Errorf("%d left hidden", r.hidden())
		}
		if run.report.Abandoned != 0 || run.err != nil {
			t.Errorf("report %+v, error %v", run.report, run.err)
		}
	})
}

func TestSettlementsBelowABatchAreSentAtTheStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		r.sendN(3)
		run := r.run(pool.Config{Slots: 3, Handler: sleeper(time.Second)})
		settle(time.Second - 1)
		run.stop()
		settle(1 + gathered)
		if deletes := r.made("delete"); len(deletes) != 1 || deletes[0].entries != 3 || !run.ended() {
			t.Errorf("deletes %+v, ended %v, want one of 3 and the end", deletes, run.ended())
		}
		run.drained(pool.Report{Finished: 3})
	})
}

func TestHandlersAreInterruptedWhenTheDrainIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		b := newBook(30 * time.Second)
		h := &caused{start: r.start}
		run := r.run(pool.Config{Slots: 1, Handler: h.handle, Ledger: b})
		r.send("a")
		settle(5 * time.Second)
		run.stop()
		settle(30*time.Second - 1)
		h.notYet(t)
		settle(1 + gathered)
		h.want(t, outcome.ErrDraining, 35*time.Second)
		if p := b.only(); p.attempts != 0 || len(p.ends) != 1 || p.ends[0] != outcome.KindInterrupted {
			t.Errorf("record %+v, want one interrupted execution and no attempt", p)
		}
		r.wantCounts(1, 0, 0)
		run.drained(pool.Report{Released: 1})
		r.wantMoments("hide", 10*time.Second, 20*time.Second, 30*time.Second, 35*time.Second+gathered) // beats go on in the drain
	})
}

func TestWorkThatFinishesWithinTheGraceIsRecorded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		r.send("a")
		run := r.run(pool.Config{Slots: 1, Handler: deaf(33*time.Second - 50*time.Millisecond)})
		run.stop()
		<-run.done
		run.drained(pool.Report{Finished: 1})
		r.wantCounts(0, 0, 0)
	})
}

func TestHandlerThatDoesNotReturnIsAbandonedAndTheRestSettled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		free := make(chan struct{})
		run := r.run(pool.Config{Slots: 2, Visibility: 60 * time.Second, Handler: func(ctx context.Context, m pool.Message) error {
			if m.Body == "hangs" {
				<-free
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}})
		r.send("hangs", "stops")
		settle(time.Second)
		run.stop()
		settle(33*time.Second - 1)
		if run.ended() {
			t.Error("ended before the grace")
		}
		settle(1)
		if !run.ended() {
			t.Error("still running after the grace, with nothing to settle")
		}
		run.drained(pool.Report{Released: 1, Abandoned: 1})
		if run.err == nil {
			t.Error("no error for an abandoned message")
		}
		r.wantCounts(1, 1, 0)
		n := len(r.calls)
		close(free)
		settle(time.Hour)
		if len(r.calls) != n {
			t.Error("calls for an abandoned message after the end")
		}
	})
}

func TestHungPollAndHungHandlerCannotOutlastTheStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		free := make(chan struct{})
		r.send("a")
		run := r.run(pool.Config{Slots: 2, Visibility: time.Minute, Handler: func(context.Context, pool.Message) error { <-free; return nil }})
		settle(20*time.Second - 1)
		r.fail(func(c call) error {
			if c.op == "receive" {
				return errHang
			}
			return nil
		})
		settle(11 * time.Second) // a poll that hangs has begun
		run.stop()
		settle(33*time.Second - 1)
		if run.ended() {
			t.Error("ended before drain and grace")
		}
		settle(1)
		if !run.ended() {
			t.Error("still running after drain and grace")
		}
		close(free)
		run.drained(pool.Report{Abandoned: 1})
	})
}

func TestStopWaitsForNoPauseBetweenReceivesThatFail(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		r.fail(failing("receive"))
		run := r.run(pool.Config{})
		settle(5 * time.Minute) // the pauses are up to 15 s by now
		n, stopped := len(r.made("receive")), time.Now()
		run.stop()
		<-run.done
		if took := time.Since(stopped); took > 0 || run.err != nil {
			t.Errorf("stop took %v, error %v", took, run.err)
		}
		settle(time.Hour)
		if more := len(r.made("receive")) - n; more != 0 {
			t.Errorf("%d receives after the stop", more)
		}
	})
}

func TestPoolThatIsStoppedBeforeItBeginsCallsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if report, err := r.pool(pool.Config{}).Run(ctx); report != (pool.Report{}) || err != nil || len(r.calls) > 0 {
			t.Errorf("report %+v, error %v, calls %d, want nothing", report, err, len(r.calls))
		}
	})
}

func TestSettlingIsBoundedWhenTheQueueDoesNotAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		r.send("a")
		run := r.run(pool.Config{Slots: 1, Visibility: 5 * time.Minute, Handler: sleeper(time.Second)})
		r.fail(failing("delete", "hide"))
		run.stop()
		settle(30*time.Second + 3*time.Second + 8*time.Second - 1)
		if run.ended() {
			t.Error("gave up early")
		}
		settle(1)
		if !run.ended() {
			t.Error("still running after drain, grace and settle")
		}
		run.drained(pool.Report{Abandoned: 1})
	})
}

func TestDeleteIsSentEvenIfTheStopComesAsTheHandlerReturns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		r.send("a")
		returning := make(chan struct{})
		run := r.run(pool.Config{Slots: 1, Handler: func(context.Context, pool.Message) error {
			pause(time.Second)
			close(returning)
			return nil
		}})
		<-returning
		run.stop()
		settle(time.Minute)
		run.drained(pool.Report{Finished: 1})
		r.wantCounts(0, 0, 0)
	})
}

func TestNothingStaysHiddenAfterAStopAtAnyMoment(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			r := newRig(t, "q", nil)
			var mu sync.Mutex
			below := func(n int) time.Duration {
				mu.Lock()
				defer mu.Unlock()
				return time.Duration(random.IntN(n)) * time.Millisecond
			}
			r.fail(func(call) error {
				pause(below(20))
				return nil
			})
			r.sendN(100)
			c := &counter{}
			run := r.run(pool.Config{Slots: 100, Middleware: []pool.Middleware{c.wrap}, Handler: sleeper(30 * time.Millisecond)})
			settle(below(400))
			run.stop()
			r.sendN(5)
			<-run.done
			if run.err != nil || r.hidden() != 0 || c.total() != r.entries("delete") || r.visible() != 105-c.total() {
				t.Errorf("seed %d: hidden %d, runs %d, deletes %d, visible %d, error %v", seed, r.hidden(), c.total(), r.entries("delete"), r.visible(), run.err)
			}
			for _, m := range r.peek(r.queue) {
				if m.Attributes["ApproximateReceiveCount"] > "2" { // the peek is one
					t.Errorf("seed %d: received %s times by a pool that stopped", seed, m.Attributes["ApproximateReceiveCount"])
				}
			}
		})
	}
}

func TestRollingRestartsAreNoAttempts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		b := newBook(30 * time.Second)
		r.send("a")
		for i := range 20 {
			run := r.run(pool.Config{Name: fmt.Sprint(i), Slots: 1, Ledger: b, Wait: time.Second, Drain: time.Second, Handler: sleeper(5 * time.Minute)})
			settle(4 * time.Minute)
			run.stop()
			<-run.done
		}
		r.run(pool.Config{Ledger: b, Handler: sleeper(5 * time.Minute)})
		settle(10 * time.Minute)
		if p := b.only(); !p.done || p.attempts != 1 || p.runs != 21 || p.crashes != 0 {
			t.Errorf("record %+v, want done in 1 attempt after 20 interruptions", p)
		}
		r.wantCounts(0, 0, 0)
	})
}

func TestMessageAtItsReceiveLimitIsGivenBackThroughTheRecord(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		b := newBook(30 * time.Second)
		run := r.run(pool.Config{Slots: 1, Ledger: b, MaxReceives: 1})
		settle(time.Second)
		run.stop()
		r.send("a")
		settle(time.Second)
		run.drained(pool.Report{Released: 1})
		if p := b.only(); p.runs != 1 || p.attempts != 0 || len(p.ends) != 1 || p.ends[0] != outcome.KindInterrupted {
			t.Errorf("record %+v, want a claim that was closed as interrupted", p)
		}
	})
}

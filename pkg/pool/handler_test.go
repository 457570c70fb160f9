package pool_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/stagefleet/stagefleet/pkg/outcome"
	"github.com/stagefleet/stagefleet/pkg/pool"
)

// shield counts who is between Enter and Leave.
type shield struct {
	mu            sync.Mutex
	enters, inner int
	wait          time.Duration
}

func (s *shield) Enter(context.Context) {
	pause(s.wait)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.enters++
	s.inner++
}

// counts returns how often it was entered, and by how many it is now.
func (s *shield) counts() (enters, inner int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.enters, s.inner
}

func (s *shield) Leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inner--
}

func TestHandlerThatDoesNotReturnNormallyFailsOnceAndFreesEverything(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(){
		"panics":                func() { panic("secret") },
		"panics with nil":       func() { panic(nil) },
		"panics in the runtime": func() { var m map[string]int; m["a"] = 1 },
		"ends its goroutine":    runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, "q", nil)
				core, logs := observer.New(zap.DebugLevel)
				b, s := newBook(30*time.Second), &shield{}
				run := r.run(pool.Config{Slots: 1, Ledger: b, Protector: s, Log: zap.New(core), Handler: func(_ context.Context, m pool.Message) error {
					if m.Attempt < 3 {
						fault()
					}
					return nil
				}})
				r.send("a")
				settle(10 * time.Minute)
				if p := b.only(); !p.done || p.attempts != 3 || p.ends[0] != outcome.KindPanic {
					t.Errorf("record %+v, want two failures and a success", p)
				}
				r.wantCounts(0, 0, 0)
				enters, inner := s.counts()
				if st := run.Status(); enters != 3 || inner != 0 || st.Held != 0 || st.Running != 0 {
					t.Errorf("entered %d times, %d inside, status %+v", enters, inner, st)
				}
				for _, e := range logs.All() {
					for k, v := range e.ContextMap() {
						if text, ok := v.(string); ok && strings.Contains(text, "secret") {
							t.Errorf("log field %s has what was thrown", k)
						}
					}
				}
			})
		})
	}
}

func TestTimeLimitIsACountedFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		b := newBook(30 * time.Second)
		h := &caused{start: r.start}
		r.run(pool.Config{TimeLimit: 45 * time.Second, Ledger: b, Handler: func(ctx context.Context, m pool.Message) error {
			if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) != 45*time.Second {
				t.Errorf("deadline %v, want one that tools can see", deadline)
			}
			return h.handle(ctx, m)
		}})
		r.send("a")
		settle(45*time.Second - 1)
		h.notYet(t)
		settle(1)
		h.want(t, outcome.ErrTimeLimit, 45*time.Second)
		if p := b.only(); p.attempts != 1 || p.ends[0] != outcome.KindRetry {
			t.Errorf("record %+v, want a counted failure", p)
		}
	})
}

func TestHandlerThatIgnoresItsEndIsReportedAndReplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		core, logs := observer.New(zap.ErrorLevel)
		free := make(chan struct{})
		c := &counter{}
		run := r.run(pool.Config{Slots: 1, MaxStuck: 1, TimeLimit: 20 * time.Second, StuckAfter: 15 * time.Second, Log: zap.New(core),
			Middleware: []pool.Middleware{c.wrap}, Handler: func(_ context.Context, m pool.Message) error {
				if m.Body == "hangs" && m.Attempt == 1 {
					<-free
				}
				return nil
			}})
		r.send("hangs")
		settle(time.Second)
		r.sendN(5)
		settle(34*time.Second - 1)
		if c.total() != 1 || run.Status().Stuck != 0 || run.Ready() != nil {
			t.Errorf("runs %d, status %+v before it is stuck", c.total(), run.Status())
		}
		settle(1)
		if c.total() != 6 || run.Status().Stuck != 1 {
			t.Errorf("runs %d, status %+v, want its slot to serve the others", c.total(), run.Status())
		}
		if run.Ready() == nil {
			t.Error("ready with as many stuck handlers as may be replaced")
		}
		entries := logs.FilterMessage("handler does not return after its context ended").All()
		if len(entries) != 1 || !strings.Contains(entries[0].ContextMap()["goroutines"].(string), "TestHandlerThatIgnoresItsEnd") {
			t.Errorf("log %+v, want one entry with the handler's goroutine", entries)
		}
		settle(time.Minute)
		if c.total() != 7 { // delivered again once nobody renewed it
			t.Errorf("%d runs, want a second one of the stuck message", c.total())
		}
		r.wantCounts(0, 0, 0)
		close(free)
		settle(time.Hour)
		if st := run.Status(); st.Stuck != 0 || st.Running != 0 || run.Ready() != nil {
			t.Errorf("status %+v after it returned", st)
		}
		r.send("x")
		settle(time.Minute)
		if c.total() != 8 {
			t.Error("its slot was lost, or given back twice")
		}
	})
}

func TestPoolWithTooManyStuckHandlersReceivesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		free := make(chan struct{})
		run := r.run(pool.Config{Slots: 2, MaxStuck: 1, TimeLimit: time.Second, StuckAfter: time.Second, Handler: func(context.Context, pool.Message) error {
			<-free
			return nil
		}})
		r.sendN(10)
		settle(10 * time.Second)
		if st := run.Status(); st.Stuck != 2 || st.Reason != "handlers_stuck" {
			t.Errorf("status %+v, want two stuck handlers, one more than may be replaced", st)
		}
		n := len(r.made("receive"))
		settle(time.Hour)
		if got := len(r.made("receive")); got != n {
			t.Errorf("%d receives", got-n)
		}
		close(free)
		settle(time.Hour)
		r.wantCounts(0, 0, 0)
	})
}

func TestMiddlewareThatReturnsBeforeItsHandlerSettlesOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		b := newBook(30 * time.Second)
		impatient := func(next pool.Handler) pool.Handler {
			return func(ctx context.Context, m pool.Message) error {
				go func() { _ = next(ctx, m) }()
				_ = next(ctx, m)
				return next(ctx, m)
			}
		}
		run := r.run(pool.Config{Ledger: b, Middleware: []pool.Middleware{impatient}, Handler: sleeper(time.Second)})
		r.send("a")
		settle(time.Hour)
		if p := b.only(); b.closes != 1 || !p.done || len(r.made("delete")) != 1 {
			t.Errorf("%d closes, %d deletes, want one of each", b.closes, len(r.made("delete")))
		}
		if run.Status().Running != 0 {
			t.Error("still running")
		}
	})
}

func TestMiddlewareIsAppliedOutsideIn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		var order []string
		named := func(name string) pool.Middleware {
			return func(next pool.Handler) pool.Handler {
				return func(ctx context.Context, m pool.Message) error {
					order = append(order, name)
					return next(ctx, m)
				}
			}
		}
		r.run(pool.Config{Middleware: []pool.Middleware{named("outer"), named("inner")}})
		r.send("a")
		settle(time.Minute)
		if strings.Join(order, " ") != "outer inner" {
			t.Errorf("order %v", order)
		}
	})
}

func TestHandlerStartsOnlyOnceProtected(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		s := &shield{wait: 4 * time.Second}
		r.run(pool.Config{Protector: s, Handler: func(context.Context, pool.Message) error {
			if at := time.Since(r.start); at != 4*time.Second {
				t.Errorf("started at %v, want after the protector returned", at)
			}
			return nil
		}})
		r.send("a")
		settle(4*time.Second + gathered - 1)
		if _, inner := s.counts(); inner != 1 {
			t.Errorf("protected %d, want it until it is settled", inner)
		}
		settle(1)
		if _, inner := s.counts(); inner != 0 {
			t.Error("still protected after the settlement")
		}
	})
}

func TestRefusedMessagesNeedNoProtection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		s := &shield{}
		r.send("a")
		r.run(pool.Config{Protector: s, Ledger: &refuser{book: newBook(time.Minute), refusal: pool.Settlement{Action: pool.Delete}}})
		settle(time.Minute)
		if enters, _ := s.counts(); enters != 0 {
			t.Error("entered for a message that did not start")
		}
	})
}

func TestHandlersErrorAfterItsContextEndedIsPutDownToTheCause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		b := newBook(30 * time.Second)
		run := r.run(pool.Config{Ledger: b, Drain: time.Second, Wait: time.Second, Handler: func(ctx context.Context, _ pool.Message) error {
			<-ctx.Done()
			return outcome.Reject("bad_media", "A tool was killed, which looks like a bad file.")
		}})
		r.send("a")
		settle(time.Second)
		run.stop()
		<-run.done
		if p := b.only(); p.ends[0] != outcome.KindInterrupted || p.dead {
			t.Errorf("record %+v, want an interruption", p)
		}
	})
}

func TestOverdueHandlerIsWaitedForBeforeItsMessageIsGivenToAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		c := &counter{}
		cfg := pool.Config{TimeLimit: 20 * time.Second, Middleware: []pool.Middleware{c.wrap}, Handler: func(ctx context.Context, m pool.Message) error {
			if m.Attempt == 1 {
				<-ctx.Done()
				pause(25 * time.Second) // to clean up
				return ctx.Err()
			}
			return nil
		}}
		r.run(cfg)
		cfg.Name = "idle"
		r.run(cfg)
		r.send("a")
		settle(time.Hour)
		if c.total() != 2 || c.overlap != 1 {
			t.Errorf("%d runs, %d at once, want two in turn", c.total(), c.overlap)
		}
		r.wantCounts(0, 0, 0)
	})
}

func TestNothingOfAFailedMessageIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q.fifo", nil)
		for i := range 5 {
			r.send(fmt.Sprintf("g:%d", i))
		}
		failures := 0
		run := r.run(pool.Config{Policy: outcome.Policy{MaxAttempts: 1000, Waits: []time.Duration{time.Second}}, Handler: func(_ context.Context, m pool.Message) error {
			if m.Body == "g:0" && failures < 100 {
				failures++
				return errNoLuck
			}
			return nil
		}})
		settle(time.Hour)
		if st := run.Status(); st.Held != 0 || failures != 100 {
			t.Errorf("%d failures, status %+v", failures, st)
		}
		for _, h := range r.made("hide") {
			if h.timeouts[0] != 1 {
				t.Errorf("at %v renewed for %d s a message that had failed", h.at, h.timeouts[0])
			}
		}
		r.wantCounts(0, 0, 0)
	})
}

func TestStuckHandlerKeepsNoPermit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		v := &valve{limit: 1}
		free := make(chan struct{})
		c := &counter{}
		run := r.run(pool.Config{Slots: 2, TimeLimit: time.Second, StuckAfter: time.Second, Gates: []pool.Gate{v}, Middleware: []pool.Middleware{c.wrap},
			Handler: func(context.Context, pool.Message) error {
				if c.total() == 1 {
					<-free
				}
				return nil
			}})
		r.send("hangs")
		settle(time.Second)
		r.send("waits for its permit")
		settle(time.Minute)
		if c.total() < 2 {
			t.Error("the permit of a stuck handler was not given back")
		}
		close(free)
		settle(time.Minute)
		run.stop()
		<-run.done
		v.mu.Lock()
		defer v.mu.Unlock()
		if v.out != 0 {
			t.Errorf("%d permits out, want none and none given back twice", v.out)
		}
	})
}

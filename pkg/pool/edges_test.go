package pool_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/stagefleet/stagefleet/pkg/internal/edge"
	"github.com/stagefleet/stagefleet/pkg/outcome"
	"github.com/stagefleet/stagefleet/pkg/pool"
)

// timed starts a pool on a fresh queue and tells of one edge of what follows.
type timed func(r *rig) edge.Edge

func checkEdges(t *testing.T, edges map[string]timed) {
	t.Helper()
	for name, e := range edges {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { e(newRig(t, "q", nil)).Check(t) })
		})
	}
}

// counted says how many calls of one kind were made.
func (r *rig) counted(op string) func() string {
	return func() string { return fmt.Sprint(len(r.made(op))) }
}

// seen says how often a handler's context ended, and why it first did.
func (c *caused) seen() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprint(c.runs, " ", c.cause)
}

func ended(n int, cause error) string { return fmt.Sprint(n, " ", cause) }

func TestEdgesOfTheHeartbeat(t *testing.T) {
	t.Parallel()
	checkEdges(t, map[string]timed{
		"a message is renewed each beat": func(r *rig) edge.Edge {
			r.send("a")
			r.run(pool.Config{Handler: sleeper(15 * time.Second)})
			return edge.Edge{At: 10 * time.Second, Look: r.counted("hide"), Before: "0", Then: "1"}
		},
		"a message is renewed every three minutes by default": func(r *rig) edge.Edge {
			r.send("a")
			r.run(pool.Config{Visibility: pool.DefaultVisibility, Handler: sleeper(5 * time.Minute)})
			return edge.Edge{At: 3 * time.Minute, Look: r.counted("hide"), Before: "0", Then: "1"}
		},
		"a beat that failed is repeated after two seconds": func(r *rig) edge.Edge {
			r.send("a")
			r.run(pool.Config{Handler: sleeper(15 * time.Second)})
			settle(9 * time.Second)
			r.fail(failing("hide"))
			settle(time.Second)
			r.fail(nil)
			return edge.Edge{At: 2 * time.Second, Look: r.counted("hide"), Before: "1", Then: "2"}
		},
		"a handler is told a tenth before its lease lapses": func(r *rig) edge.Edge {
			r.send("a")
			b, h := newBook(60*time.Second), &caused{start: r.start}
			b.renewErr = errIll
			r.run(pool.Config{Slots: 1, Visibility: 2 * time.Minute, Ledger: b, Handler: h.handle})
			r.fail(failing("receive"))
			return edge.Edge{At: 54 * time.Second, Look: h.seen, Before: ended(0, nil), Then: ended(1, outcome.ErrLeaseLost)}
		},
		"and a second before a short one does": func(r *rig) edge.Edge {
			r.send("a")
			b, h := newBook(5*time.Second), &caused{start: r.start}
			b.renewErr = errIll
			r.run(pool.Config{Slots: 1, Ledger: b, Handler: h.handle})
			r.fail(failing("receive"))
			return edge.Edge{At: 4 * time.Second, Look: h.seen, Before: ended(0, nil), Then: ended(1, outcome.ErrLeaseLost)}
		},
		"without a ledger a tenth before it may be seen again": func(r *rig) edge.Edge {
			r.send("a")
			h := &caused{start: r.start}
			r.run(pool.Config{Slots: 1, Visibility: 2 * time.Minute, Handler: h.handle})
			r.fail(failing("receive", "hide"))
			return edge.Edge{At: 108 * time.Second, Look: h.seen, Before: ended(0, nil), Then: ended(1, outcome.ErrLeaseLost)}
		},
		"work ends a minute before SQS's twelve hours": func(r *rig) edge.Edge {
			r.send("a")
			h := &caused{start: r.start}
			run := r.run(pool.Config{Slots: 1, Visibility: 7 * time.Minute, Handler: h.handle})
			time.AfterFunc(12*time.Hour-time.Minute, run.stop) // its retry is no part of this
			return edge.Edge{At: 12*time.Hour - time.Minute, Look: h.seen, Before: ended(0, nil), Then: ended(1, outcome.ErrHorizon)}
		},
	})
}

func TestEdgesOfAHandler(t *testing.T) {
	t.Parallel()
	checkEdges(t, map[string]timed{
		"its context ends at its time limit": func(r *rig) edge.Edge {
			r.send("a")
			h := &caused{start: r.start}
			r.run(pool.Config{Slots: 1, TimeLimit: 45 * time.Second, Policy: outcome.Policy{MaxAttempts: 1}, Handler: h.handle})
			return edge.Edge{At: 45 * time.Second, Look: h.seen, Before: ended(0, nil), Then: ended(1, outcome.ErrTimeLimit)}
		},
		"its slot is replaced half a minute after that, if it goes on": func(r *rig) edge.Edge {
			r.send("a", "b")
			free := make(chan struct{})
			b := newBook(24 * time.Hour) // nobody else may have the stuck one meanwhile
			run := r.run(pool.Config{Slots: 1, Ledger: b, TimeLimit: 10 * time.Second, Handler: func(_ context.Context, m pool.Message) error {
				if m.Body == "a" {
					<-free
				}
				return nil
			}})
			r.Cleanup(func() { close(free) })
			return edge.Edge{At: 40 * time.Second, Look: func() string { return fmt.Sprint(run.Status().Stuck, b.endings()) }, Before: "0 0", Then: "1 1"}
		},
	})
}

// endings is how many executions the book has seen end.
func (b *book) endings() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.pages {
		n += len(p.ends)
	}
	return n
}

func TestEdgesOfAWait(t *testing.T) {
	t.Parallel()
	// The queue counts a wait from the call that hides the message, which comes as late as a lone settlement is gathered.
	after := func(end error, wait time.Duration, attempts int) timed {
		return func(r *rig) edge.Edge {
			r.send("a")
			c := &counter{}
			r.run(pool.Config{Slots: 1, Middleware: []pool.Middleware{c.wrap}, Handler: func(context.Context, pool.Message) error {
				if c.total() <= attempts {
					return end
				}
				return nil
			}})
			return edge.Edge{At: wait + time.Duration(attempts)*gathered, Look: func() string { return fmt.Sprint(c.total()) }, Before: fmt.Sprint(attempts), Then: fmt.Sprint(attempts + 1)}
		}
	}
	failed := errors.New("503")
	checkEdges(t, map[string]timed{
		"the second attempt comes after 30 s":          after(failed, 30*time.Second, 1),
		"the third comes 60 s after the second":        after(failed, 90*time.Second, 2),
		"a provider's Retry-After is waited for":       after(outcome.RetryAfter(7*time.Second, failed), 7*time.Second, 1),
		"and rounded up where the queue counts whole":  after(outcome.RetryAfter(6500*time.Millisecond, failed), 7*time.Second, 1),
		"a deferral lasts as long as it was asked for": after(outcome.Defer(40*time.Second, "busy"), 40*time.Second, 1),
	})
}

// slow is a book of which one method hangs until its context ends.
type slow struct {
	*book
	claims, ends atomic.Int64
	hang         string
}

func (s *slow) Claim(ctx context.Context, m pool.Message) (pool.Grant, error) {
	s.claims.Add(1)
	if s.hang == "claim" {
		<-ctx.Done()
		return pool.Grant{}, ctx.Err()
	}
	return s.book.Claim(ctx, m)
}

func (s *slow) Close(ctx context.Context, g pool.Grant, end error) (pool.Settlement, error) {
	if ends := s.ends.Add(1); s.hang == "close" && ends == 1 {
		<-ctx.Done()
		return pool.Settlement{}, ctx.Err()
	}
	return s.book.Close(ctx, g, end)
}

func TestEdgesOfTheRecord(t *testing.T) {
	t.Parallel()
	checkEdges(t, map[string]timed{
		"a claim is waited for ten seconds": func(r *rig) edge.Edge {
			r.send("a")
			b := &slow{book: newBook(time.Minute), hang: "claim"}
			b.ill = errIll // nothing is received again
			run := r.run(pool.Config{Slots: 1, Ledger: b})
			return edge.Edge{At: 10 * time.Second, Look: func() string { return fmt.Sprint(b.claims.Load(), " ", run.Status().Reason) }, Before: "1 capacity", Then: "1 store_unreachable"}
		},
		"an end is waited for half a minute, and then recorded again": func(r *rig) edge.Edge {
			r.send("a")
			b := &slow{book: newBook(time.Minute), hang: "close"}
			r.run(pool.Config{Slots: 1, Ledger: b})
			return edge.Edge{At: 30*time.Second + 100*time.Millisecond, Look: func() string { return fmt.Sprint(b.ends.Load(), " ", b.endings()) }, Before: "1 0", Then: "2 1"}
		},
		"an ill record is asked after a second": func(r *rig) edge.Edge {
			r.send("a")
			b := newBook(time.Minute)
			b.ill = errIll
			r.run(pool.Config{Slots: 1, Ledger: b})
			b.with(func() { b.ill = nil })
			return edge.Edge{At: time.Second, Look: func() string { b.mu.Lock(); defer b.mu.Unlock(); return fmt.Sprint(b.pings) }, Before: "0", Then: "1"}
		},
	})
}

func TestEdgesOfACallToTheQueue(t *testing.T) {
	t.Parallel()
	// once makes the first call of a kind hang until its context ends.
	once := func(r *rig, op string) {
		r.fail(func(c call) error {
			if c.op == op && len(r.made(op)) == 1 {
				return errHang
			}
			return nil
		})
	}
	checkEdges(t, map[string]timed{
		"a receive has nine seconds beyond its long poll": func(r *rig) edge.Edge {
			once(r, "receive")
			r.run(pool.Config{Handler: sleeper(2 * time.Hour)})
			r.send("a")
			return edge.Edge{At: 29 * time.Second, Look: func() string { return fmt.Sprint(r.received()) }, Before: "0", Then: "1"}
		},
		"a delete has ten seconds": func(r *rig) edge.Edge {
			r.send("a")
			once(r, "delete")
			run := r.run(pool.Config{Slots: 1})
			return edge.Edge{At: gathered + 10*time.Second + 100*time.Millisecond + gathered, Look: func() string { return fmt.Sprint(len(r.made("delete")), run.Status().Held) }, Before: "1 1", Then: "2 0"}
		},
		"a beat has half its time": func(r *rig) edge.Edge {
			r.send("a")
			once(r, "hide")
			r.run(pool.Config{Handler: sleeper(19 * time.Second)})
			return edge.Edge{At: 10*time.Second + 5*time.Second + 2*time.Second, Look: r.counted("hide"), Before: "1", Then: "2"}
		},
	})
}

func TestEdgesOfAStop(t *testing.T) {
	t.Parallel()
	// seen says whether Run has returned, and what it then reported.
	seen := func(run *running) func() string {
		return func() string {
			if !run.ended() {
				return fmt.Sprint(false, " ", pool.Report{})
			}
			return fmt.Sprint(true, " ", run.report)
		}
	}
	going := fmt.Sprint(false, " ", pool.Report{})
	done := func(report pool.Report) string { return fmt.Sprint(true, " ", report) }
	checkEdges(t, map[string]timed{
		"handlers have half a minute": func(r *rig) edge.Edge {
			r.send("a")
			h := &caused{start: r.start}
			r.run(pool.Config{Slots: 1, Handler: h.handle}).stop()
			return edge.Edge{At: 30 * time.Second, Look: h.seen, Before: ended(0, nil), Then: ended(1, outcome.ErrDraining)}
		},
		"and three seconds to return": func(r *rig) edge.Edge {
			r.send("a")
			free := make(chan struct{})
			run := r.run(pool.Config{Slots: 1, Handler: func(context.Context, pool.Message) error { <-free; return nil }})
			r.Cleanup(func() { close(free) })
			run.stop()
			return edge.Edge{At: 33 * time.Second, Look: seen(run), Before: going, Then: done(pool.Report{Abandoned: 1})}
		},
		"settling has eight more": func(r *rig) edge.Edge {
			r.send("a")
			run := r.run(pool.Config{Slots: 1, Visibility: 5 * time.Minute, Handler: sleeper(time.Second)})
			r.fail(failing("delete"))
			run.stop()
			return edge.Edge{At: 41 * time.Second, Look: seen(run), Before: going, Then: done(pool.Report{Abandoned: 1})}
		},
		"an idle pool ends with its poll": func(r *rig) edge.Edge {
			run := r.run(pool.Config{})
			run.stop()
			return edge.Edge{At: 20 * time.Second, Look: func() string { return seen(run)() + r.counted("receive")() }, Before: going + "1", Then: done(pool.Report{}) + "1"}
		},
		"a full one with its last handler": func(r *rig) edge.Edge {
			r.sendN(10)
			run := r.run(pool.Config{Handler: sleeper(25 * time.Second)})
			run.stop()
			return edge.Edge{At: 25 * time.Second, Look: func() string { return seen(run)() + r.counted("delete")() }, Before: going + "0", Then: done(pool.Report{Finished: 10}) + "1"}
		},
	})
}

func TestEdgesOfTheWatchdogs(t *testing.T) {
	t.Parallel()
	well := func(err error) string {
		if err == nil {
			return "well"
		}
		return "ill"
	}
	checkEdges(t, map[string]timed{
		"a pool without a receive for two polls and half a minute is not ready": func(r *rig) edge.Edge {
			r.fail(failing("receive"))
			run := r.run(pool.Config{})
			return edge.Edge{At: 70*time.Second + 1, Look: func() string { return well(run.Ready()) }, Before: "well", Then: "ill"}
		},
		"and for five minutes not alive": func(r *rig) edge.Edge {
			r.fail(failing("receive"))
			run := r.run(pool.Config{})
			return edge.Edge{At: 5*time.Minute + 1, Look: func() string { return well(run.Live()) }, Before: "well", Then: "ill"}
		},
		"nor is one whose heartbeat is five minutes late": func(r *rig) edge.Edge {
			r.send("a")
			blocked, free := make(chan struct{}), make(chan struct{})
			core, _ := observer.New(zap.ErrorLevel)
			log := zap.New(core, zap.Hooks(func(zapcore.Entry) error { <-blocked; return nil }))
			run := r.run(pool.Config{Slots: 2, Log: log, TimeLimit: time.Second, StuckAfter: time.Second, Handler: func(context.Context, pool.Message) error {
				<-free
				return nil
			}})
			r.Cleanup(func() { close(blocked); close(free) })
			// It tells of the stuck handler at 2 s, which was the last time that it was to wake.
			return edge.Edge{At: 2*time.Second + 5*time.Minute + 1, Look: func() string { return well(run.Live()) }, Before: "well", Then: "ill"}
		},
	})
}

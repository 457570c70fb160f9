package pool_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagefleet/stagefleet/pkg/breaker"
	"github.com/stagefleet/stagefleet/pkg/outcome"
	"github.com/stagefleet/stagefleet/pkg/pool"
)

// behind makes a handler that needs a dependency behind a breaker.
func behind(b *breaker.Breaker, down *atomic.Bool) pool.Handler {
	return func(ctx context.Context, _ pool.Message) error {
		return b.Do(ctx, func(context.Context) error {
			if down.Load() {
				return errNoLuck
			}
			return nil
		})
	}
}

func TestOutageOfADependencyCostsNeitherReceivesNorMessages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", map[string]string{"maxReceiveCount": "20"})
		b, err := breaker.New(breaker.Config{Name: "speech", Cooldown: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		var down atomic.Bool
		down.Store(true)
		r.sendN(100)
		run := r.run(pool.Config{Slots: 10, Gates: []pool.Gate{b}, Policy: outcome.Policy{Waits: []time.Duration{5 * time.Minute}}, Handler: behind(b, &down)})
		settle(time.Minute)
		if b.State() != breaker.Open || run.Status().Reason != breaker.ReasonOpen {
			t.Fatalf("breaker %s, pool waits for %q", b.State(), run.Status().Reason)
		}
		calls, got := len(r.made("receive")), r.received()
		if got > 20 {
			t.Errorf("%d messages received before it opened", got)
		}
		settle(58 * time.Minute)
		if n := len(r.made("receive")); n != calls {
			t.Errorf("%d receives while open", n-calls)
		}
		if run.Live() != nil || run.Ready() != nil {
			t.Error("unhealthy because a dependency is down")
		}
		settle(2 * time.Minute) // half open: one message finds out, and it is still down
		if n := r.received() - got; n != 1 {
			t.Errorf("%d messages received while half open, want one", n)
		}
		down.Store(false)
		settle(time.Hour)
		settle(time.Hour)
		r.wantCounts(0, 0, 0)
	})
}

func TestHalfBrokenDependencySlowsThePoolDownAndRecovers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		b, err := breaker.New(breaker.Config{Name: "speech"})
		if err != nil {
			t.Fatal(err)
		}
		var n, broken atomic.Int32
		broken.Store(1)
		r.sendN(400)
		r.run(pool.Config{Slots: 10, Gates: []pool.Gate{b}, Policy: outcome.Policy{MaxAttempts: 50, Waits: []time.Duration{time.Minute}},
			Handler: func(ctx context.Context, m pool.Message) error {
				return b.Do(ctx, func(context.Context) error {
					if n.Add(1)%5 < 3 && broken.Load() == 1 { // three of five fail
						return errNoLuck
					}
					return sleeper(100*time.Millisecond)(ctx, m)
				})
			}})
		settle(10 * time.Minute)
		if got := n.Load(); got > 400 {
			t.Errorf("%d calls of a broken dependency in ten minutes", got)
		}
		r.wantDead(0)
		broken.Store(0)
		settle(3 * time.Hour)
		r.wantCounts(0, 0, 0)
	})
}

func TestMessageThatMakesNoCallWhileHalfOpenLetsTheNextOneTry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		b, err := breaker.New(breaker.Config{Name: "speech", MinSamples: 1})
		if err != nil {
			t.Fatal(err)
		}
		_ = b.Do(t.Context(), func(context.Context) error { return errNoLuck })
		r.sendN(5)
		run := r.run(pool.Config{Gates: []pool.Gate{b}})
		settle(31 * time.Second)
		r.wantCounts(0, 0, 0)
		if b.State() != breaker.HalfOpen || run.Status().Held != 0 {
			t.Errorf("state %s", b.State())
		}
	})
}

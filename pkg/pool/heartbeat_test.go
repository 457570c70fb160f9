package pool_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagefleet/stagefleet/pkg/pool"
)

// sleeper is a handler that takes d.
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

func TestMessageIsKeptHiddenUntilItsHandlerReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		run := r.run(pool.Config{Handler: sleeper(25 * time.Second)})
		r.send("a")
		settle(25 * time.Second)
		r.wantMoments("hide", 10*time.Second, 20*time.Second)
		settle(time.Hour)
		r.wantMoments("hide", 10*time.Second, 20*time.Second)
		r.wantMoments("delete", 25*time.Second+5*time.Millisecond)
		r.wantCounts(0, 0, 0)
		run.drained(pool.Report{})
	})
}

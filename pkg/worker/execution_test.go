package worker

import (
	"context"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/outcome"
	"github.com/stagefleet/stagefleet/pkg/pool"
)

func TestAWorkerWithoutRoomForAFolderHasAttemptedNothing(t *testing.T) {
	e := &executor{scratch: filepath.Join(t.TempDir(), "gone")}
	err := e.handle(t.Context(), pool.Message{Grant: newHeld(job.Claim{}, pool.Message{}, false)})
	if v := outcome.Of(err); v.Kind != outcome.KindDefer || v.Reason != "scratch_unavailable" {
		t.Errorf("%+v, want a deferral", v)
	}
}

func TestAReportOfProgressThatIsUnderWayIsNotCutByTheEndOfTheHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		h := newHeld(job.Claim{}, pool.Message{}, false)
		var kept error
		start := time.Now()
		stop := h.follow(ctx, func(ctx context.Context, _ job.Progress) {
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
			kept = ctx.Err()
		})
		h.attempt.report("clips", 5, 5)
		synctest.Wait()
		cancel()
		stop()
		if kept != nil || time.Since(start) != time.Second {
			t.Errorf("%v after %v", kept, time.Since(start))
		}
	})
}

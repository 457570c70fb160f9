package worker

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/outcome"
)

// away is a record that cannot be asked.
type away struct{ begins, keeps error }

func (a away) begin(context.Context, string) (job.Effect, error) {
	return job.Effect{ID: "e"}, a.begins
}
func (a away) done(context.Context, string, []byte) error { return a.keeps }

func TestAnEffectThatTheRecordCannotKeepIsDeferredAndNoAttempt(t *testing.T) {
	ill := errors.New("connection refused")
	for name, test := range map[string]struct {
		record away
		calls  int
		kind   outcome.Kind
	}{
		"before the call":         {away{begins: ill}, 0, outcome.KindDefer},
		"after it":                {away{keeps: ill}, 1, outcome.KindDefer},
		"the lease is lost":       {away{begins: fmt.Errorf("%w: %w", outcome.ErrLeaseLost, job.ErrNotOwner)}, 0, outcome.KindLost},
		"its name cannot be kept": {away{begins: &job.Invalid{Sentence: "No."}}, 0, outcome.KindRetry},
		"the effect is not known": {away{keeps: job.ErrNotFound}, 1, outcome.KindRetry},
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			_, err := (&attempt{effects: test.record}).once(t.Context(), "pay", func(context.Context, string, bool) ([]byte, error) {
				calls++
				return nil, nil
			})
			if v := outcome.Of(err); v.Kind != test.kind || calls != test.calls {
				t.Errorf("%+v after %d calls, want %s after %d", v, calls, test.kind, test.calls)
			}
		})
	}
}

// silent is a record that answers nothing.
type silent struct{ away }

func (silent) done(ctx context.Context, _ string, _ []byte) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestAResultIsOfferedToASilentRecordForAWhileOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		_, err := (&attempt{effects: silent{}}).once(t.Context(), "pay", func(context.Context, string, bool) ([]byte, error) { return nil, nil })
		if v := outcome.Of(err); v.Kind != outcome.KindDefer || time.Since(start) != keepBudget {
			t.Errorf("%+v after %v, want a deferral after %v", v, time.Since(start), keepBudget)
		}
	})
}

package fleet

import (
	"context"
	"errors"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/stagefleet/stagefleet/pkg/job"
)

// queuesAway answers every call with its error.
type queuesAway struct{ err error }

func (q queuesAway) Send(_ context.Context, rows []job.Outgoing) []error {
	return append(make([]error, len(rows)-1), q.err)
}

func (q queuesAway) Count(context.Context, string) (visible, inFlight, delayed int64, err error) {
	return 1, 2, 3, q.err
}

func TestFaultsThatAreWaitedOutAreLoggedUnlessAStopCausedThem(t *testing.T) {
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for name, c := range map[string]struct {
		ctx  context.Context
		err  error
		want int
	}{
		"away":    {t.Context(), errors.New("connection refused"), 2},
		"well":    {t.Context(), nil, 0},
		"stopped": {stopped, context.Canceled, 0},
	} {
		core, logs := observer.New(zap.InfoLevel)
		away := queuesAway{c.err}
		errs := loggedSender{away, zap.New(core)}.Send(c.ctx, []job.Outgoing{{Body: "canary"}, {Body: "canary"}})
		visible, _, _, err := loggedCounter{away, zap.New(core)}.Count(c.ctx, "q")
		if len(errs) != 2 || !errors.Is(errs[1], c.err) || !errors.Is(err, c.err) || visible != 1 {
			t.Errorf("%s: the answers are %v, %d, %v", name, errs, visible, err)
		}
		if logs.Len() != c.want {
			t.Errorf("%s: %d lines, want %d", name, logs.Len(), c.want)
		}
	}
}

package worker

import (
	"context"

	"github.com/stagefleet/stagefleet/pkg/control"
	"github.com/stagefleet/stagefleet/pkg/job"
)

// pauses reads the record's pauses for the stage's control.
type pauses struct{ store *job.Store }

var _ control.Record = pauses{}

// Pauses returns the pauses of all stages.
func (p pauses) Pauses(ctx context.Context) ([]control.Pause, error) {
	entries, err := p.store.Pauses(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]control.Pause, len(entries))
	for i, e := range entries {
		out[i] = control.Pause{Stage: e.Stage, Reason: e.Reason, By: e.Who, Since: e.At, Until: e.Until}
	}
	return out, nil
}

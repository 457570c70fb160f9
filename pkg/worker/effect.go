package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/outcome"
)

// keeper remembers the effects of a step.
type keeper interface {
	begin(ctx context.Context, name string) (job.Effect, error)
	done(ctx context.Context, id string, result []byte) error
}

// effects keeps them in the record.
type effects struct {
	store *job.Store
	claim job.Claim
}

func (e effects) begin(ctx context.Context, name string) (job.Effect, error) {
	effect, err := e.store.EffectBegin(ctx, e.claim, name)
	if errors.Is(err, job.ErrNotOwner) {
		err = fmt.Errorf("%w: %w", outcome.ErrLeaseLost, err)
	}
	return effect, err
}

func (e effects) done(ctx context.Context, id string, result []byte) error {
	return e.store.EffectDone(ctx, e.claim, id, result)
}

// once keeps the order of a call that cannot be undone: key, call, result. The
// result is kept even if the attempt has been told to end meanwhile.
func (a *attempt) once(ctx context.Context, name string, call Call) ([]byte, error) {
	if a == nil || a.effects == nil {
		return nil, outcome.Quarantine("effects_missing", ErrNoEffects)
	}
	effect, err := a.effects.begin(ctx, name)
	if err != nil {
		return nil, unkept("begin", name, err)
	}
	if effect.Done {
		return effect.Result, nil
	}
	result, err := call(ctx, effect.ID, effect.Again)
	if err != nil {
		return nil, err
	}
	keep, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepBudget)
	defer cancel()
	if err := a.effects.done(keep, effect.ID, result); err != nil {
		return nil, unkept("keep the result of", name, err)
	}
	return result, nil
}

// keepBudget bounds how long a result is offered to a record that keeps silent. A handler that waited longer would be taken for stuck;
// a result that is not kept is asked for again.
const keepBudget = 10 * time.Second

// recordRest is how long work waits after the record could not be asked.
const recordRest = 10 * time.Second

// unkept defers the work: that the record is away is not its fault, and no attempt. An effect that the record does not know, or
// cannot keep by that name, is a fault.
func unkept(what, name string, err error) error {
	_, invalid := errors.AsType[*job.Invalid](err)
	if invalid || errors.Is(err, job.ErrNotFound) {
		return fmt.Errorf("%s effect %s: %w", what, name, err)
	}
	return fmt.Errorf("%s effect %s: %w: %w", what, name, err, outcome.Defer(recordRest, "record_unavailable"))
}

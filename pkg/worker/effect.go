package worker

import (
	"context"
	"errors"
	"fmt"

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
		return nil, fmt.Errorf("begin effect %s: %w", name, err)
	}
	if effect.Done {
		return effect.Result, nil
	}
	result, err := call(ctx, effect.ID, effect.Again)
	if err != nil {
		return nil, err
	}
	if err := a.effects.done(context.WithoutCancel(ctx), effect.ID, result); err != nil {
		return nil, fmt.Errorf("keep the result of effect %s: %w", name, err)
	}
	return result, nil
}

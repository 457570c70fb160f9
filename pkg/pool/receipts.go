package pool

import (
	"context"
	"math/rand/v2"

	"github.com/stagefleet/stagefleet/pkg/outcome"
)

// receipts is the Ledger of a pool that has none: every claim is granted, receives are attempts, and a policy decides.
type receipts struct{ policy outcome.Policy }

func (r receipts) Claim(_ context.Context, m Message) (Grant, error) {
	return Grant{Attempt: m.Receives}, nil
}

func (r receipts) Renew(_ context.Context, grants []Grant) ([]error, error) {
	return make([]error, len(grants)), nil
}

func (r receipts) Ping(context.Context) error { return nil }

func (r receipts) Close(_ context.Context, g Grant, end error) (Settlement, error) {
	a := r.policy.Decide(outcome.Of(end), g.Attempt, rand.Float64())
	switch a.Do {
	case outcome.Finish, outcome.Refuse:
		return Settlement{Action: Delete, Reason: a.Reason}, nil
	case outcome.Wait:
		return Settlement{Action: Hide, After: a.Wait, Reason: a.Reason}, nil
	case outcome.Release:
		return Settlement{Action: Hide, Reason: a.Reason}, nil
	case outcome.Park: // nobody could resume it
		return Settlement{Action: DeadLetter, Reason: "await_without_ledger"}, nil
	case outcome.Die:
		return Settlement{Action: DeadLetter, Reason: a.Reason}, nil
	default:
		return Settlement{Action: Leave, Reason: a.Reason}, nil
	}
}

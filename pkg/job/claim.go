package job

import (
	"context"
	"encoding/json"
	"time"
)

// Reasons of refused claims, fit for a metric label; an ended step's is its state.
const (
	ReasonUnknownStep   = "unknown_step"
	ReasonWrongTenant   = "wrong_tenant"
	ReasonWrongStage    = "wrong_stage"
	ReasonOlderEmission = "older_emission"
	ReasonFutureMessage = "future_emission"
	ReasonHeld          = "held"
	ReasonNotDue        = "not_due"
	ReasonNotWanted     = "not_wanted" // the step waits for something else than a message
)

// holdMargin is added to the wait for a live owner's lease, so that the message comes back after it.
const holdMargin = 100 * time.Millisecond

// Claim asks to run a step. A refusal is a *ClaimRefused: it says what to do with the message and is never an
// attempt. Any other error means that the store is ill and nothing is known.
func (s *Store) Claim(ctx context.Context, r ClaimRequest) (Claim, error) {
	if r.MaxCrashes == 0 {
		r.MaxCrashes = DefaultMaxCrashes
	}
	r.token = newToken()
	got, err := s.claims.do(ctx, r)
	if err != nil {
		return Claim{}, err
	}
	if got.refused != nil {
		s.metrics.refusals.WithLabelValues(got.refused.Reason).Inc()
		return Claim{}, got.refused
	}
	return got.claim, nil
}

type claimed struct {
	claim   Claim
	refused *ClaimRefused
}

func (s *Store) claimBatch(ctx context.Context, rs []ClaimRequest) ([]claimed, error) {
	ids := make([]string, len(rs))
	for i, r := range rs {
		ids[i] = r.Step
	}
	var got []claimed
	err := s.update(ctx, "claim", locks{level: lockSteps, steps: ids, claims: true}, func(u *unit) error {
		got = make([]claimed, len(rs))
		for i, r := range rs {
			before := len(u.outbox)
			got[i] = u.claim(r)
			if got[i].refused != nil {
				got[i].refused.Outgoing = u.outgoing(before)
			}
		}
		return nil
	})
	return got, err
}

func (u *unit) claim(r ClaimRequest) claimed {
	s := u.steps[r.Step]
	if s != nil && s.live(u.now) && s.Token == r.token { // the answer was lost
		return claimed{claim: s.claim(r)}
	}
	if refusal := u.unclaimable(s, r); refusal != nil {
		return claimed{refused: &ClaimRefused{Settle: *refusal}}
	}
	if s.State == stepRunning && !u.crash(s, r.MaxCrashes) {
		return claimed{refused: &ClaimRefused{Settle: Settle{Do: Delete, Reason: reasonCrashes}}}
	}
	u.set(s, stepRunning)
	s.Token, s.Attempt, s.Worker = r.token, u.newID(), r.Worker
	s.LeaseEnd = u.now + r.Lease.Microseconds()
	u.opened = append(u.opened, attemptRow{
		ID: s.Attempt, Step: s.ID, Job: s.Job, Emission: s.Emission, Worker: r.Worker,
		DueAt: max(s.EmittedAt, s.NotBefore), ClaimedAt: u.now, LeaseUs: r.Lease.Microseconds(),
	})
	return claimed{claim: s.claim(r)}
}

// claim is what the owner of a running step is told.
func (s *stepRow) claim(r ClaimRequest) Claim {
	return Claim{
		Step: s.ID, Job: s.Job, Tenant: s.Tenant, Target: s.target.Name, Stage: s.Stage, Token: s.Token, Key: s.Attempt,
		Version: s.job.Version, Emission: s.Emission, Part: int(s.Part), Attempt: int(s.Attempts) + 1,
		Input: json.RawMessage(s.Input), Gaps: s.job.gaps(), Event: event(s.Event), Lease: r.Lease,
	}
}

// unclaimable is the decision: nil when the step may be run now.
func (u *unit) unclaimable(s *stepRow, r ClaimRequest) *Settle {
	switch {
	case s == nil:
		return &Settle{Do: Quarantine, Reason: ReasonUnknownStep}
	case s.Tenant != r.Tenant:
		return &Settle{Do: Quarantine, Reason: ReasonWrongTenant}
	case s.Stage != r.Stage:
		return &Settle{Do: Quarantine, Reason: ReasonWrongStage}
	case s.ended():
		return &Settle{Do: Delete, Reason: s.State}
	case r.Emission < s.Emission:
		return &Settle{Do: Delete, Reason: ReasonOlderEmission}
	case r.Emission > s.Emission:
		return &Settle{Do: Quarantine, Reason: ReasonFutureMessage}
	case s.target.Ingested > s.job.Version && !s.live(u.now):
		u.supersede(s)
		return &Settle{Do: Delete, Reason: stepSuperseded}
	case s.State == stepAwaiting, s.State == stepHeld:
		return &Settle{Do: Delete, Reason: ReasonNotWanted}
	case s.live(u.now):
		return &Settle{Do: Hide, After: micro(s.LeaseEnd-u.now) + holdMargin, Reason: ReasonHeld}
	case s.State == stepQueued && s.NotBefore > u.now:
		if r.ReceivesAtLimit {
			u.emit(s)
			return &Settle{Do: Delete, Reason: ReasonNotDue}
		}
		return &Settle{Do: Hide, After: micro(s.NotBefore - u.now), Reason: ReasonNotDue}
	}
	return nil
}

func event(body string) json.RawMessage {
	if body == "" {
		return nil
	}
	return json.RawMessage(body)
}

func micro(us int64) time.Duration { return time.Duration(us) * time.Microsecond }

package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"

	"github.com/stagefleet/stagefleet/pkg/internal/envelope"
	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/outcome"
	"github.com/stagefleet/stagefleet/pkg/pool"
	"github.com/stagefleet/stagefleet/pkg/stage"
)

// dispatchBudget bounds the sending of rows that were just committed. They are
// leased to us for ten seconds; what is not sent by then is the relay's.
const dispatchBudget = 5 * time.Second

// ledger makes the record the pool's permission to execute. The order of every end
// is: record, then the messages it caused, then (by the pool) the message itself.
type ledger struct {
	store    *job.Store
	sender   job.Sender
	settings stage.Settings
	policy   outcome.Policy
	worker   string
	log      *zap.Logger
}

var _ pool.Ledger = (*ledger)(nil)

func newLedger(store *job.Store, sender job.Sender, s stage.Settings, worker string, log *zap.Logger) *ledger {
	r := s.Stage.Retry
	policy := outcome.Policy{MaxAttempts: r.Attempts, Waits: r.Waits, Jitter: r.Jitter, MaxRetryAfter: r.MaxRetryAfter}
	return &ledger{store: store, sender: sender, settings: s, policy: policy, worker: worker, log: log}
}

// Claim asks the record for the step that the message stands for.
func (l *ledger) Claim(ctx context.Context, m pool.Message) (pool.Grant, error) {
	body, err := envelope.Decode(m.Body)
	if err != nil {
		return pool.Grant{}, &pool.Refusal{Settlement: pool.Settlement{Action: pool.DeadLetter, Reason: outcome.ReasonUndecodable}}
	}
	c, err := l.store.Claim(ctx, job.ClaimRequest{
		Step: body.Step, Tenant: body.Tenant, Emission: body.Emission,
		Stage: l.settings.Stage.Name, Worker: l.worker, Lease: l.lease(time.Since(m.ReceivedAt)),
		MaxCrashes: l.settings.Stage.Retry.Crashes, ReceivesAtLimit: l.atLimit(m),
	})
	if refused, ok := errors.AsType[*job.ClaimRefused](err); ok {
		l.dispatch(ctx, refused.Outgoing)
		return pool.Grant{}, &pool.Refusal{Settlement: settlement(refused.Settle)}
	}
	if err != nil {
		return pool.Grant{}, fmt.Errorf("claim step %s: %w", body.Step, err)
	}
	return pool.Grant{
		Attempt: c.Attempt, Lease: c.Lease, Value: newHeld(c, m, l.atLimit(m)),
		IDs: map[string]string{"job": c.Job, "step": c.Step, "version": fmt.Sprint(c.Version)},
	}, nil
}

// leaseLead is how much sooner the record's lease ends than the queue shows the message again.
const leaseLead = 500 * time.Millisecond

// lease is how long a claim lasts that is made some time after its message was received. It ends before the queue
// shows the message again: otherwise the next owner after a crash would come too early, be refused as held, and
// have burnt one of the few receives that a message has. A claim that took very long keeps most of its lease
// nevertheless, so that it can be renewed.
func (l *ledger) lease(sinceReceive time.Duration) time.Duration {
	whole := l.settings.Stage.Durations.Lease
	return max(whole*3/4, whole-sinceReceive-leaseLead)
}

func (l *ledger) atLimit(m pool.Message) bool {
	return m.Receives >= l.settings.Stage.Retry.MaxReceives
}

// Renew lengthens every claim in one statement.
func (l *ledger) Renew(ctx context.Context, grants []pool.Grant) ([]error, error) {
	rs := make([]job.Renewal, len(grants))
	for i, g := range grants {
		c := g.Value.(*held).claim
		rs[i] = job.Renewal{Step: c.Step, Token: c.Token, Lease: c.Lease}
	}
	return l.store.Renew(ctx, rs)
}

// Ping tells whether the record can be reached.
func (l *ledger) Ping(ctx context.Context) error { return l.store.Ping(ctx) }

// Close records how the execution ended. Success is the guarded publish.
func (l *ledger) Close(ctx context.Context, g pool.Grant, end error) (pool.Settlement, error) {
	h := g.Value.(*held)
	if end == nil {
		return l.publish(ctx, h)
	}
	return l.end(ctx, h, end)
}

func (l *ledger) publish(ctx context.Context, h *held) (pool.Settlement, error) {
	r := h.result()
	done, err := l.store.Publish(ctx, job.Publication{
		Claim: h.claim, Output: r.output, FanOut: r.fanOut, Parts: r.parts, Result: r.offer,
		Next: route(l.settings.Next), Join: route(l.settings.Join),
		Gaps: h.attempt.noted(), Timings: h.timings(), TraceParent: h.traceparent(),
	})
	if errors.Is(err, job.ErrInvalidPublication) { // would be refused for ever
		return l.end(ctx, h, outcome.Quarantine("output_invalid", err))
	}
	if err != nil {
		return pool.Settlement{}, fmt.Errorf("publish step %s: %w", h.claim.Step, err)
	}
	l.dispatch(ctx, done.Outgoing)
	return settlement(done.Settle), nil
}

func (l *ledger) end(ctx context.Context, h *held, end error) (pool.Settlement, error) {
	verdict := outcome.Of(end)
	ended, err := l.store.End(ctx, job.Ending{
		Claim: h.claim, Verdict: verdict, Action: l.policy.Decide(verdict, h.claim.Attempt, rand.Float64()),
		Timings: h.timings(), ReceivesAtLimit: h.atLimit, TraceParent: h.traceparent(),
	})
	if err != nil {
		return pool.Settlement{}, fmt.Errorf("record the end of step %s: %w", h.claim.Step, err)
	}
	l.dispatch(ctx, ended.Outgoing)
	return settlement(ended.Settle), nil
}

// dispatch sends committed rows. A failure loses nothing: the relay takes them.
func (l *ledger) dispatch(ctx context.Context, rows []job.Outgoing) {
	if len(rows) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dispatchBudget)
	defer cancel()
	if err := l.store.Dispatch(ctx, l.sender, rows); err != nil {
		l.log.Warn("messages left to the relay", zap.Int("rows", len(rows)), zap.Error(err))
	}
}

// settlement says the record's word in the pool's terms.
func settlement(s job.Settle) pool.Settlement {
	actions := map[job.Do]pool.Action{
		job.Delete: pool.Delete, job.Hide: pool.Hide, job.Leave: pool.Leave, job.Quarantine: pool.DeadLetter,
	}
	return pool.Settlement{Action: actions[s.Do], After: s.After, Reason: s.Reason}
}

func route(r *stage.Route) *job.Route {
	if r == nil {
		return nil
	}
	out := job.Route(*r)
	return &out
}

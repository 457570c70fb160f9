package pool

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"go.uber.org/zap"

	"github.com/stagefleet/stagefleet/pkg/outcome"
)

const (
	// claimTimeout and closeTimeout bound one call of the Ledger.
	claimTimeout = 10 * time.Second
	closeTimeout = 30 * time.Second

	// A message whose claim could not be asked for is hidden this long, and up to as much again.
	storeHide = 5 * time.Second

	// maxIdleWorkers is how many goroutines wait for their next message: starting one, and growing its stack, costs more than the rest
	// of a message's life.
	maxIdleWorkers = 100

	firstRetry   = 100 * time.Millisecond
	slowestRetry = 5 * time.Second
)

// work takes one message from its receipt to its settlement. The message is renewed meanwhile, from before the claim on.
func (p *Pool) work(h *held) {
	switch {
	case p.undeleted.has(h.msg.ID): // its work is done, only the delete was missed
		p.giveBack(h, Settlement{Action: Delete, Reason: reasonDone})
		return
	case p.intake.Err() != nil && !p.atLimit(h):
		p.giveBack(h, Settlement{Action: Hide, Reason: reasonDraining})
		return
	}
	if !p.claim(h) {
		return
	}
	if p.intake.Err() != nil { // stopped meanwhile, or a message that only the record can give back
		p.metrics.notStarted.WithLabelValues(reasonDraining).Inc()
		p.close(h, outcome.ErrDraining)
		return
	}
	if p.cfg.Protector != nil {
		p.mu.Lock()
		h.entered = true
		p.mu.Unlock()
		p.cfg.Protector.Enter(p.working)
	}
	if cause := p.revoked(h, time.Now()); cause != nil {
		p.metrics.notStarted.WithLabelValues(reasonRevoked).Inc()
		p.close(h, cause)
		return
	}
	p.execute(h)
}

// revoked tells why a message must not be started any more, though its claim was granted: the claim, or the wait for protection, may
// have lasted.
func (p *Pool) revoked(h *held, now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if lease, _ := p.ends(h); h.taken == nil && !now.Before(lease) {
		return outcome.ErrLeaseLost
	}
	return h.taken
}

// atLimit tells whether the queue would move the message to its dead letters rather than deliver it again. Only the record can
// give such a message back, by sending a new one.
func (p *Pool) atLimit(h *held) bool {
	return p.cfg.Ledger != nil && p.cfg.MaxReceives > 0 && h.msg.Receives >= p.cfg.MaxReceives
}

// bounded limits one call of the Ledger. Without one there is no call that could take long.
func (p *Pool) bounded(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if p.cfg.Ledger == nil {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, limit)
}

// giveBack settles a message that was received and is not to be started.
func (p *Pool) giveBack(h *held, s Settlement) {
	p.metrics.notStarted.WithLabelValues(s.Reason).Inc()
	p.freeSlot(h)
	p.settle(h, s)
}

// claim asks for the permission to execute, and settles the message if that is refused or cannot be asked for.
func (p *Pool) claim(h *held) bool {
	for {
		start := time.Now()
		ctx, cancel := p.bounded(p.working, claimTimeout)
		grant, err := p.ledger.Claim(ctx, h.msg)
		cancel()
		if err == nil {
			p.granted(h, grant, start)
			return true
		}
		if refusal, ok := errors.AsType[*Refusal](err); ok {
			p.cfg.Log.Info("claim refused", append(p.fields(h), zap.String("reason", refusal.Settlement.Reason))...)
			p.metrics.notStarted.WithLabelValues("refused").Inc()
			p.conclude(h, refusal.Settlement, outcome.Verdict{Kind: outcome.KindQuarantine, Reason: refusal.Settlement.Reason})
			return false
		}
		p.storeFailed(err)
		if p.atLimit(h) && sleep(p.intake, firstPing) {
			continue
		}
		p.giveBack(h, Settlement{Action: Hide, After: storeHide + rand.N(storeHide), Reason: reasonStore})
		return false
	}
}

func (p *Pool) granted(h *held, g Grant, start time.Time) {
	h.msg.Attempt, h.msg.Grant = g.Attempt, g.Value
	p.mu.Lock()
	defer p.mu.Unlock()
	h.grant = g
	if g.Lease > 0 {
		h.leaseUntil = start.Add(g.Lease)
	}
}

// startHandler makes the handler's context, from when on the keeper guards it. It is no child of another: to have each of them in a
// parent's list costs more than to end them one by one.
func (p *Pool) startHandler(h *held) context.Context {
	ctx, cancel := context.WithCancelCause(p.values)
	now := time.Now()
	p.mu.Lock()
	h.ctx, h.cancel, h.running = ctx, cancel, true
	p.running++
	if p.cfg.TimeLimit > 0 {
		h.limitAt = now.Add(p.cfg.TimeLimit)
	}
	if p.working.Err() != nil {
		p.endHandler(h, outcome.ErrDraining, now)
	}
	p.pokeKeeper(p.nextFor(h, now, false))
	p.mu.Unlock()
	return ctx
}

// errExited is the end of a handler that called runtime.Goexit.
var errExited error = &outcome.Panic{}

// execute calls the handler. Whatever it does, return, panic or end its goroutine, the message is settled.
func (p *Pool) execute(h *held) {
	ctx := p.startHandler(h)
	start := time.Now()
	ctx, span := p.tracer.start(ctx, h)
	end := errExited // unless the handler returns, or panics
	defer func() {
		if v := recover(); v != nil {
			end = &outcome.Panic{Value: v, Stack: debug.Stack()}
		}
		p.returned(h, outcome.Because(ctx, end), time.Since(start), span)
	}()
	if !h.limitAt.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, h.limitAt, outcome.ErrTimeLimit)
		defer cancel()
	}
	m := h.msg
	m.Attributes = maps.Clone(m.Attributes) // a handler may fill them up, to send the message on
	end = p.handler(ctx, m)
}

// returned records the end of a handler, unless it had been given up.
func (p *Pool) returned(h *held, end error, took time.Duration, span span) {
	verdict := outcome.Of(end)
	p.mu.Lock()
	h.running, h.end = false, string(verdict.Kind)
	p.running--
	givenUp := h.stuck
	if givenUp {
		p.stuck--
	}
	p.mu.Unlock()
	h.cancel(nil)
	span.finish(verdict)
	if givenUp {
		p.cfg.Log.Warn("stuck handler returned", p.fields(h)...)
		p.freeSlot(h)
		return
	}
	p.metrics.ended(verdict.Kind, took)
	p.logEnd(h, verdict, took)
	p.close(h, end)
}

// close has the record say what to do with the message, for as long as the lease lasts, and does it.
func (p *Pool) close(h *held, end error) {
	s := Settlement{Action: Leave, Reason: reasonStore}
	for wait := firstRetry; p.settling.Err() == nil; wait = min(2*wait, slowestRetry) {
		ctx, cancel := p.bounded(p.settling, closeTimeout)
		got, err := p.ledger.Close(ctx, h.grant, end)
		cancel()
		if err == nil {
			s = got
			break
		}
		p.cfg.Log.Warn("end not recorded", append(p.fields(h), errorType(err))...)
		if !sleep(p.settling, wait) || !p.permitted(h) {
			break
		}
	}
	p.conclude(h, s, outcome.Of(end))
}

// conclude frees the slot and settles the message. The verdict is for the dead letter, if that is what becomes of it.
func (p *Pool) conclude(h *held, s Settlement, v outcome.Verdict) {
	p.freeSlot(h)
	if s.Action == DeadLetter {
		s = p.bury(h, s, v)
	}
	p.settle(h, s)
}

func (p *Pool) permitted(h *held) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Before(h.permittedUntil())
}

// freeSlot gives the message's slot back, once.
func (p *Pool) freeSlot(h *held) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h.replaced {
		return
	}
	h.replaced = true
	p.in.free++
	if p.in.free >= p.in.want {
		p.wakeIntake()
	}
	p.addPoller()
}

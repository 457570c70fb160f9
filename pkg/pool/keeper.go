package pool

import (
	"context"
	"errors"
	"time"

	"github.com/stagefleet/stagefleet/pkg/outcome"
)

const (
	// horizonMargin before SQS's 12 hours are over, a handler is told to stop.
	horizonMargin = time.Minute

	// slowestBeat bounds one call of a renewal, and beatRetry the pause after one that failed.
	slowestBeat = 10 * time.Second
	beatRetry   = 2 * time.Second

	// idleKeeper is how long the keeper sleeps when nothing is held.
	idleKeeper = time.Hour
)

// keep is the one heartbeat of the pool. It sleeps until the next moment at which any held message needs something, renews what is
// due, and ends the context of every handler whose permission is about to run out. A renewal under way never keeps it from that.
func (p *Pool) keep(ctx context.Context) {
	renewed := make(chan struct{}, 1)
	renewing := false
	for {
		now := time.Now()
		due, next := p.inspect(now, !renewing)
		if len(due) > 0 {
			renewing = true
			p.tasks.Go(func() {
				p.renew(due)
				renewed <- struct{}{}
			})
		}
		timer := time.NewTimer(next.Sub(now))
		select {
		case <-timer.C:
		case <-p.poke:
		case <-renewed:
			renewing = false
		case <-ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

// pokeKeeper makes the keeper look again if it would sleep beyond t. It runs under mu, as the keeper's look does.
func (p *Pool) pokeKeeper(t time.Time) {
	if !p.keeperWakes.After(t) {
		return
	}
	select {
	case p.poke <- struct{}{}:
	default:
	}
}

// inspect ends what must end and returns what is due for renewal (nothing while one is under way) and when to look again.
func (p *Pool) inspect(now time.Time, mayRenew bool) (due []*held, next time.Time) {
	next = now.Add(idleKeeper)
	soon := now.Add(p.cfg.Beat / 4) // what is due soon goes along, so that batches fill and stay together
	anyDue := false
	var stuck []*held
	p.mu.Lock()
	for h := p.held.first; h != nil; h = h.next {
		p.guard(h, now)
		if p.isStuck(h, now) {
			stuck = append(stuck, h)
		}
		if h.renewable() && mayRenew {
			anyDue = anyDue || !h.beatDue.After(now)
			if !h.beatDue.After(soon) {
				due = append(due, h)
			}
		}
		next = earliest(next, p.nextFor(h, now, mayRenew))
	}
	if !anyDue {
		due = nil
	}
	for _, h := range due {
		h.beating = true
	}
	for _, h := range stuck {
		p.giveUp(h)
	}
	p.keeperWakes = next
	p.mu.Unlock()
	for _, h := range stuck {
		p.reportStuck(h)
		p.settled.Fire()
	}
	return due, next
}

// guard ends the handler's context when its permission, its time or SQS's patience runs out. It runs under mu.
func (p *Pool) guard(h *held, now time.Time) {
	if !h.running || !h.endedAt.IsZero() {
		return
	}
	lease, horizon := p.ends(h)
	switch {
	case !now.Before(lease):
		p.endHandler(h, outcome.ErrLeaseLost, now)
	case !now.Before(horizon):
		p.endHandler(h, outcome.ErrHorizon, now)
	case !h.limitAt.IsZero() && !now.Before(h.limitAt):
		h.endedAt = now // its context has that deadline
	}
}

func (p *Pool) ends(h *held) (lease, horizon time.Time) {
	return h.permittedUntil().Add(-margin(h.lease(p.cfg.Visibility))), h.receivedAt.Add(maxHidden - horizonMargin)
}

// endHandler tells a handler why it should stop. It runs under mu.
func (p *Pool) endHandler(h *held, cause error, now time.Time) {
	if !h.running || !h.endedAt.IsZero() {
		return
	}
	h.endedAt, h.lost = now, errors.Is(cause, outcome.ErrLeaseLost)
	h.cancel(cause)
}

// renewable tells whether the message should be kept from others now. It runs under mu.
func (h *held) renewable() bool { return !h.beating && !h.hiding && !h.lost }

// nextFor is when the keeper must look at h again. It runs under mu.
func (p *Pool) nextFor(h *held, now time.Time, mayRenew bool) time.Time {
	next := now.Add(idleKeeper)
	if h.renewable() && mayRenew {
		next = earliest(next, h.beatDue)
	}
	switch {
	case !h.running:
	case !h.endedAt.IsZero():
		next = earliest(next, h.endedAt.Add(p.cfg.StuckAfter))
	default:
		lease, horizon := p.ends(h)
		next = earliest(next, earliest(lease, horizon))
		if !h.limitAt.IsZero() {
			next = earliest(next, h.limitAt)
		}
	}
	return next
}

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

package pool

import (
	"context"
	"sync"
	"time"

	"github.com/stagefleet/stagefleet/pkg/internal/change"
)

// How often a record that could not be reached is asked again.
const (
	firstPing   = time.Second
	slowestPing = 10 * time.Second
)

// Reasons for which a pool itself receives nothing; gates add theirs.
const (
	reasonStore    = "store_unreachable"
	reasonStuck    = "handlers_stuck"
	reasonCapacity = "capacity"
	reasonDraining = "draining"
	reasonDone     = "done_before" // of a message that is not started, as
	reasonRevoked  = "revoked"     // is this one
)

// storeGate is closed from a claim that failed until a ping succeeds.
type storeGate struct {
	changed change.Signal
	mu      sync.Mutex
	ill     bool
}

func (g *storeGate) Changed() <-chan struct{} { return g.changed.Next() }

func (g *storeGate) Admit(want int) (int, func(), string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ill {
		return 0, nil, reasonStore
	}
	return want, nil, ""
}

// set reports whether the state changed.
func (g *storeGate) set(ill bool) bool {
	g.mu.Lock()
	was := g.ill
	g.ill = ill
	g.mu.Unlock()
	if was != ill {
		g.changed.Fire()
	}
	return was != ill
}

// storeFailed closes the intake and asks the record until it answers.
func (p *Pool) storeFailed(err error) {
	if p.intake.Err() != nil || !p.store.set(true) {
		return
	}
	p.cfg.Log.Warn("record unreachable, intake closed", errorType(err))
	p.tasks.Go(func() {
		for wait := firstPing; ; wait = min(2*wait, slowestPing) {
			if !sleep(p.intake, wait) {
				return
			}
			if p.ping() == nil {
				break
			}
		}
		p.store.set(false)
		p.cfg.Log.Info("record reachable, intake open")
	})
}

func (p *Pool) ping() error {
	ctx, cancel := context.WithTimeout(p.intake, slowestPing)
	defer cancel()
	return p.ledger.Ping(ctx)
}

// admit asks every gate for want messages, and takes the least. The first refusal ends it, and what others were promised is undone.
// The gate that refused last is asked first: undoing a promise may count as a change, and must not lead to the same refusal again
// and again.
func (p *Pool) admit(want int) (int, *pass, string) {
	var owed *pass
	first := int(p.refuser.Load())
	for i := range p.gates {
		at := (first + i) % len(p.gates)
		n, done, reason := p.gates[at].Admit(want)
		if done != nil {
			if owed == nil {
				owed = &pass{}
			}
			owed.done = append(owed.done, done)
		}
		if n <= 0 {
			p.refuser.Store(int32(at))
			owed.pay()
			return 0, nil, reason
		}
		want = min(want, n)
	}
	return want, owed, ""
}

// watch forwards one gate's changes to the intake.
func (p *Pool) watch(g Gate) {
	for {
		changed := g.Changed()
		p.wakeIntake()
		select {
		case <-changed:
		case <-p.intake.Done():
			return
		}
	}
}

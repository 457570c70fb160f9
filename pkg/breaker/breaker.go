// Package breaker stops work that depends on something which is down: calls are refused while it is open, and as the gate of a pool
// it stops messages from being received at all, so that an outage costs neither attempts nor receives.
//
// It wraps github.com/sony/gobreaker. A call counts when it finishes, whatever its length; the ratio is over finished calls; a probe
// that never reports is reported as failed; nothing of the caller's runs under a lock. It knows one process: a fleet has one each.
package breaker

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sony/gobreaker/v2"
	"go.uber.org/zap"

	"github.com/stagefleet/stagefleet/pkg/internal/change"
)

// State is one of closed, half_open and open.
type State string

// The states.
const (
	Closed   State = "closed"    // calls go through and are counted
	HalfOpen State = "half_open" // one call, and one message, go through to find out
	Open     State = "open"      // nothing goes through
)

// ErrOpen is in the error of every call that was refused.
var ErrOpen = errors.New("circuit open")

// Reasons of a refusal.
const (
	ReasonOpen    = "breaker_open"
	ReasonProbing = "breaker_probing"
)

// rampLimit: below so many messages a time, each success after a recovery doubles what may be received.
const rampLimit = 64

// Breaker guards one dependency. It is safe for concurrent use.
type Breaker struct {
	cfg      Config
	cooldown time.Duration // with jitter
	changed  change.Signal
	refused  prometheus.Counter

	mu         sync.Mutex // around every call of steps
	steps      *gobreaker.TwoStepCircuitBreaker[struct{}]
	state      State
	generation int       // of the state: what began in an earlier one decides nothing
	openedAt   time.Time // for the wait of those who are refused
	closedAt   time.Time // after a recovery; zero: never was open
	ramp       int       // messages that may be received at a time after a recovery; 0: any number
	admitted   bool      // half-open: a message has been let through and has neither ended nor decided anything
	pending    []transition
	telling    bool // somebody is telling of changes
}

type transition struct{ from, to State }

// New makes a closed breaker.
func New(cfg Config) (*Breaker, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configure breaker: %w", err)
	}
	cfg = cfg.withDefaults()
	b := &Breaker{cfg: cfg, state: Closed}
	b.cooldown = cfg.Cooldown + time.Duration(float64(cfg.Cooldown)*cfg.Jitter*rand.Float64())
	b.steps = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name:          cfg.Name,
		MaxRequests:   1,
		Interval:      cfg.Window,
		BucketPeriod:  cfg.Window / buckets,
		Timeout:       b.cooldown,
		ReadyToTrip:   b.trips,
		OnStateChange: b.transition, // runs under gobreaker's lock, within mu
		IsSuccessful:  func(err error) bool { return err == nil },
		IsExcluded:    func(err error) bool { return err != nil && neutral(err) },
	})
	if err := b.register(); err != nil {
		return nil, fmt.Errorf("register metrics of breaker %s: %w", cfg.Name, err)
	}
	return b, nil
}

// trips judges finished calls only: those under way say nothing yet.
func (b *Breaker) trips(c gobreaker.Counts) bool {
	finished := c.TotalSuccesses + c.TotalFailures
	return int(finished) >= b.cfg.MinSamples && float64(c.TotalFailures) >= b.cfg.Ratio*float64(finished)
}

// transition notes a change; it is told to others when mu is free.
func (b *Breaker) transition(_ string, _, to gobreaker.State) {
	next := map[gobreaker.State]State{gobreaker.StateClosed: Closed, gobreaker.StateHalfOpen: HalfOpen, gobreaker.StateOpen: Open}[to]
	b.pending = append(b.pending, transition{b.state, next})
	b.state, b.admitted = next, false
	b.generation++
	switch next {
	case Open:
		b.openedAt = time.Now()
		time.AfterFunc(b.cooldown+1, func() { b.State() }) // gobreaker looks at the clock only when asked, and is open at the very end
	case Closed:
		b.closedAt, b.ramp = time.Now(), 1
	case HalfOpen:
	}
}

// unlock frees mu and tells of what changed under it. Whoever finds somebody telling leaves its own to them, so that changes are told
// in order, and OnChange may call the breaker.
func (b *Breaker) unlock() {
	if b.telling {
		b.mu.Unlock()
		return
	}
	b.telling = true
	for len(b.pending) > 0 {
		changes := b.pending
		b.pending = nil
		b.mu.Unlock()
		b.tell(changes)
		b.mu.Lock()
	}
	b.telling = false
	b.mu.Unlock()
}

func (b *Breaker) tell(changes []transition) {
	b.changed.Fire()
	for _, c := range changes {
		b.cfg.Log.Warn("breaker changed", zap.String("breaker", b.cfg.Name), zap.String("from", string(c.from)), zap.String("to", string(c.to)))
		if b.cfg.OnChange != nil {
			b.cfg.OnChange(c.from, c.to)
		}
	}
}

// State returns the present state.
func (b *Breaker) State() State {
	b.mu.Lock()
	defer b.unlock()
	return b.now()
}

// now lets the state follow the clock. It runs under mu.
func (b *Breaker) now() State {
	b.steps.State()
	return b.state
}

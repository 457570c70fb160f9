package breaker

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Changed returns a channel that is closed when Admit may answer differently. With Admit it makes the breaker a gate of a pool.
func (b *Breaker) Changed() <-chan struct{} { return b.changed.Next() }

// Admit says how many of the wanted messages may be received: all while closed, none while open, and one while half open, until that
// message has decided the state or done was called for it. After a recovery it lets more and more through.
func (b *Breaker) Admit(want int) (n int, done func(), reason string) {
	b.mu.Lock()
	defer b.unlock()
	switch state := b.now(); {
	case state == Open:
		return 0, nil, ReasonOpen
	case state == Closed && b.ramping():
		return min(want, b.ramp), nil, ""
	case state == Closed:
		return want, nil, ""
	case b.admitted:
		return 0, nil, ReasonProbing
	}
	b.admitted = true
	generation := b.generation
	return 1, func() { b.ended(generation) }, ""
}

// ramping ends as enough calls succeeded, or a window has passed without trouble. It runs under mu.
func (b *Breaker) ramping() bool {
	if b.ramp > rampLimit || time.Since(b.closedAt) >= b.cfg.Window {
		b.ramp = 0
	}
	return b.ramp > 0
}

// ended lets the next message through if the last one did not decide.
func (b *Breaker) ended(generation int) {
	b.mu.Lock()
	if b.generation == generation {
		b.admitted = false
	}
	b.unlock()
	b.changed.Fire()
}

func (b *Breaker) register() error {
	labels := prometheus.Labels{"breaker": b.cfg.Name}
	b.refused = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "stagefleet_breaker_refused_total", Help: "Calls refused by the breaker.", ConstLabels: labels,
	})
	if b.cfg.Metrics == nil {
		return nil
	}
	if err := b.cfg.Metrics.Register(b.refused); err != nil {
		return err
	}
	return b.cfg.Metrics.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "stagefleet_breaker_state", Help: "0 closed, 1 half open, 2 open.", ConstLabels: labels,
	}, func() float64 {
		return map[State]float64{Closed: 0, HalfOpen: 1, Open: 2}[b.State()]
	}))
}

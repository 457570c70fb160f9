package breaker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stagefleet/stagefleet/pkg/outcome"
)

var (
	errProbeOverdue = errors.New("probe overdue")
	errAborted      = errors.New("call did not return") // it panicked or ended its goroutine
)

// Do makes one call of the dependency and counts how it ends.
//
// While the circuit is open, or half open with another call finding out, it returns an error that wraps ErrOpen and is an
// outcome.Defer, so that a handler may return it as it is. The call's own error is returned unchanged. Errors that do not speak
// against the dependency count neither way: that of an ended ctx, of an input that is at fault, of a limit of ours (RetryAfter, but
// see Outage).
// A call that finds out has a context that ends after Config.Probe.
func (b *Breaker) Do(ctx context.Context, call func(ctx context.Context) error) error {
	probing, report, err := b.begin()
	if err != nil {
		return err
	}
	end := errAborted
	defer func() { report(end) }()
	own := ctx
	if probing {
		var cancel context.CancelFunc
		own, cancel = context.WithTimeoutCause(ctx, b.cfg.Probe, errProbeOverdue)
		defer cancel()
	}
	err = call(own)
	end = judged(ctx, err)
	return err
}

// judged is what the end of a call says about the dependency: nothing if the caller cut it off, much if it took too long.
func judged(ctx context.Context, err error) error {
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		return outcome.Defer(0, "call_cancelled")
	}
	return outcome.Because(ctx, err)
}

// Outage is an error that can tell what the dependency refuses to all, such as by a 503 or to a key that has expired, from what is about
// one call, such as a 429 that says when to try again. Without it a failure that says so is taken for a limit of ours, and a
// quarantine for a fault of the call's.
type Outage interface {
	error
	Outage() bool
}

// IsOutage tells whether err is one.
func IsOutage(err error) bool {
	o, ok := errors.AsType[Outage](err)
	return ok && o.Outage()
}

// neutral ends say nothing about the dependency.
func neutral(err error) bool {
	v := outcome.Of(err)
	switch v.Kind {
	case outcome.KindRetry, outcome.KindPanic:
		return v.After > 0 && !IsOutage(err)
	case outcome.KindQuarantine:
		return !IsOutage(err)
	default:
		return true
	}
}

// begin asks for one call. The report must be made, and only the first one counts.
func (b *Breaker) begin() (probing bool, report func(error), err error) {
	b.mu.Lock()
	defer b.unlock()
	switch b.now() {
	case Open:
		return false, nil, b.refuse(ReasonOpen, time.Until(b.openedAt.Add(b.cooldown)))
	case HalfOpen:
		done, err := b.steps.Allow()
		if err != nil {
			return false, nil, b.refuse(ReasonProbing, b.cooldown)
		}
		return true, b.probe(done), nil
	default:
		generation := b.generation
		return false, func(end error) { b.book(generation, end) }, nil
	}
}

func (b *Breaker) refuse(reason string, wait time.Duration) error {
	b.refused.Inc()
	return fmt.Errorf("call %s: %w: %w", b.cfg.Name, ErrOpen, outcome.Defer(max(wait, time.Second), reason))
}

// probe makes the report of a call that decides. If none comes in time, that is one.
func (b *Breaker) probe(done func(error)) func(error) {
	var once sync.Once
	report := func(end error) {
		once.Do(func() {
			b.mu.Lock()
			defer b.unlock()
			done(end)
		})
	}
	overdue := time.AfterFunc(b.cfg.Probe, func() { report(errProbeOverdue) })
	return func(end error) {
		overdue.Stop()
		report(end)
	}
}

// book counts a call as it finishes: gobreaker books a call where it began, so it is given one that takes no time. What began before
// the last change of state decides nothing.
func (b *Breaker) book(generation int, end error) {
	b.mu.Lock()
	defer b.unlock()
	if b.now(); b.generation != generation {
		return
	}
	done, err := b.steps.Allow()
	if err != nil {
		return // cannot be while closed
	}
	done(end)
	if end == nil && b.ramp > 0 {
		b.ramp *= 2
		b.changed.Fire()
	}
}

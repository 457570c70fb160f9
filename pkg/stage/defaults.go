package stage

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// The defaults of a stage that says nothing else.
const (
	DefaultSlots     = 1
	DefaultTasks     = 1
	DefaultMaxInput  = int64(4) << 30
	DefaultTimeLimit = 30 * time.Minute
	DefaultCPU       = 256
	DefaultMemory    = 512
	DefaultObjective = 10 * time.Minute

	DefaultVisibility   = 7 * time.Minute
	DefaultBeat         = 3 * time.Minute
	DefaultPoll         = 20 * time.Second
	DefaultDrain        = 30 * time.Second
	DefaultGrace        = 3 * time.Second
	DefaultSettle       = 8 * time.Second
	DefaultStopTimeout  = 45 * time.Second
	DefaultProtection   = 2 * time.Hour
	DefaultRetention    = 4 * 24 * time.Hour
	DefaultDLQRetention = 14 * 24 * time.Hour

	DefaultAttempts      = 3
	DefaultJitter        = 0.1
	DefaultMaxRetryAfter = 5 * time.Minute
	DefaultCrashes       = 3
	DefaultMaxReceives   = 3

	DefaultBreakerWindow     = 30 * time.Second
	DefaultBreakerRatio      = 0.5
	DefaultBreakerMinSamples = 4
	DefaultBreakerCallTime   = 5 * time.Second
	DefaultBreakerOpen       = 30 * time.Second
)

// DefaultWaits returns the pauses before the second, third and fourth attempt.
func DefaultWaits() []time.Duration {
	return []time.Duration{30 * time.Second, 60 * time.Second, 120 * time.Second}
}

// WithDefaults returns the stage with every zero field set to its default. It
// shares nothing with the receiver.
func (s Stage) WithDefaults() Stage {
	s.Queue = cmp.Or(s.Queue, FIFO)
	s.Profile = s.Profile.withDefaults()
	s.Durations = s.Durations.withDefaults()
	s.Retry = s.Retry.withDefaults()
	s.Breaker = s.Breaker.withDefaults()
	return s
}

func (p Profile) withDefaults() Profile {
	p.Slots = cmp.Or(p.Slots, DefaultSlots)
	p.MinTasks = cmp.Or(p.MinTasks, DefaultTasks)
	p.MaxTasks = cmp.Or(p.MaxTasks, p.MinTasks)
	p.Ceiling = cmp.Or(p.Ceiling, p.MaxTasks*p.Slots)
	p.MaxInput = cmp.Or(p.MaxInput, DefaultMaxInput)
	p.TimeLimit = cmp.Or(p.TimeLimit, DefaultTimeLimit)
	p.CPU = cmp.Or(p.CPU, DefaultCPU)
	p.Memory = cmp.Or(p.Memory, DefaultMemory)
	p.Objective = cmp.Or(p.Objective, DefaultObjective)
	p.Typical = cmp.Or(p.Typical, p.TimeLimit/10)
	return p
}

func (d Durations) withDefaults() Durations {
	d.Visibility = cmp.Or(d.Visibility, DefaultVisibility)
	d.Lease = cmp.Or(d.Lease, d.Visibility)
	d.Beat = cmp.Or(d.Beat, DefaultBeat)
	d.Poll = cmp.Or(d.Poll, DefaultPoll)
	d.Drain = cmp.Or(d.Drain, DefaultDrain)
	d.Grace = cmp.Or(d.Grace, DefaultGrace)
	d.Settle = cmp.Or(d.Settle, DefaultSettle)
	d.StopTimeout = cmp.Or(d.StopTimeout, DefaultStopTimeout)
	d.Protection = cmp.Or(d.Protection, DefaultProtection)
	d.Retention = cmp.Or(d.Retention, DefaultRetention)
	d.DLQRetention = cmp.Or(d.DLQRetention, DefaultDLQRetention)
	return d
}

func (r Retry) withDefaults() Retry {
	r.Attempts = cmp.Or(r.Attempts, DefaultAttempts)
	if r.Waits == nil {
		r.Waits = DefaultWaits()
	}
	r.Waits = slices.Clone(r.Waits)
	r.Jitter = cmp.Or(r.Jitter, DefaultJitter)
	r.MaxRetryAfter = cmp.Or(r.MaxRetryAfter, DefaultMaxRetryAfter)
	r.Crashes = cmp.Or(r.Crashes, DefaultCrashes)
	r.MaxReceives = cmp.Or(r.MaxReceives, DefaultMaxReceives)
	return r
}

func (b Breaker) withDefaults() Breaker {
	b.Window = cmp.Or(b.Window, DefaultBreakerWindow)
	b.Ratio = cmp.Or(b.Ratio, DefaultBreakerRatio)
	b.MinSamples = cmp.Or(b.MinSamples, DefaultBreakerMinSamples)
	b.CallTime = cmp.Or(b.CallTime, DefaultBreakerCallTime)
	b.Open = cmp.Or(b.Open, DefaultBreakerOpen)
	return b
}

// LocalScale is the factor by which local runs and tests shorten what heals a
// kill: 7 min, 3 min and 20 s become 21 s, 9 s and 1 s.
const LocalScale = 1.0 / 20

// Scaled returns the stage, with its defaults, with visibility, lease, beat and
// poll multiplied by the factor and rounded to whole seconds, at least one.
// Retry waits, drain and protection stay as they are.
func (s Stage) Scaled(factor float64) Stage {
	s = s.WithDefaults()
	for _, d := range []*time.Duration{&s.Durations.Visibility, &s.Durations.Lease, &s.Durations.Beat, &s.Durations.Poll} {
		*d = max(time.Second, time.Duration(math.Round(d.Seconds()*factor))*time.Second)
	}
	return s
}

// Scaled returns the pipeline with every stage scaled.
func (p Pipeline) Scaled(factor float64) Pipeline {
	scaled := make(Pipeline, len(p))
	for i, s := range p {
		scaled[i] = s.Scaled(factor)
	}
	return scaled
}

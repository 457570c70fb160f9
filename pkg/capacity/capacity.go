// Package capacity tells how many slots a provider's limits bear, from what attempts were measured to take and use.
//
// It is arithmetic on values: nothing here reads a clock, a queue or a provider. Slots are handlers that run at once
// over all tasks of a stage. The use of one attempt is taken as spread evenly over its duration, so n slots of
// attempts that take the median time use n x 60 / median x (use of one attempt) a minute; the ceiling is the largest n
// that stays within every limit. Durations enter as their median, because shorter attempts come round sooner and use
// more; use enters as p90, and as p99 for comparison. Retries come on top of what is counted here.
package capacity

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Sample is what one finished attempt took and used. Duration must be above zero, the rest zero or more.
type Sample struct {
	Duration                            time.Duration
	Requests, InputTokens, OutputTokens int64
}

// Spread is three values of what was measured, each by nearest rank: one that did occur.
type Spread struct {
	Median float64 `json:"median"`
	P90    float64 `json:"p90"`
	P99    float64 `json:"p99"`
}

// Measured sums up samples.
type Measured struct {
	Attempts     int    `json:"attempts"`
	Seconds      Spread `json:"duration_seconds"`
	Requests     Spread `json:"requests"`
	InputTokens  Spread `json:"input_tokens"`
	OutputTokens Spread `json:"output_tokens"`
}

// ErrNoSamples means that there is nothing to measure.
var ErrNoSamples = errors.New("no finished attempt to measure")

// Measure sums up samples, in any order. ErrNoSamples without any.
func Measure(samples []Sample) (Measured, error) {
	if len(samples) == 0 {
		return Measured{}, ErrNoSamples
	}
	return Measured{
		Attempts:     len(samples),
		Seconds:      spread(samples, func(s Sample) float64 { return s.Duration.Seconds() }),
		Requests:     spread(samples, func(s Sample) float64 { return float64(s.Requests) }),
		InputTokens:  spread(samples, func(s Sample) float64 { return float64(s.InputTokens) }),
		OutputTokens: spread(samples, func(s Sample) float64 { return float64(s.OutputTokens) }),
	}, nil
}

func spread(samples []Sample, value func(Sample) float64) Spread {
	values := make([]float64, len(samples))
	for i, s := range samples {
		values[i] = value(s)
	}
	slices.Sort(values)
	rank := func(percent int) float64 { return values[(percent*len(values)+99)/100-1] }
	return Spread{Median: rank(50), P90: rank(90), P99: rank(99)}
}

// Limits are what a provider grants a minute; zero where it does not limit.
type Limits struct {
	Requests     int64 `json:"requests_per_minute,omitempty"`
	InputTokens  int64 `json:"input_tokens_per_minute,omitempty"`
	OutputTokens int64 `json:"output_tokens_per_minute,omitempty"`
}

// Bound is how many slots one limit bears.
type Bound struct {
	Limit      string  `json:"limit"` // requests, input tokens or output tokens
	PerMinute  int64   `json:"per_minute"`
	PerAttempt float64 `json:"per_attempt"`
	Slots      float64 `json:"slots"` // before rounding down
}

// Estimate is how many slots the limits bear at one percentile of use.
type Estimate struct {
	Percentile string  `json:"percentile"` // of the use of one attempt: p90 or p99
	Binding    string  `json:"binding"`    // the limit that is met first
	Ceiling    int     `json:"ceiling"`    // slots; zero: one alone would break the limit
	Start      int     `json:"start"`      // slots to begin with: a quarter of the ceiling, rounded up
	Bounds     []Bound `json:"bounds"`     // the binding one first
}

// UnusedError says that a limit cannot be compared with anything: no attempt used what it limits.
type UnusedError struct{ Limit string }

// Error implements error.
func (e *UnusedError) Error() string {
	return fmt.Sprintf("a limit of %s a minute is given, but the attempts measured used none", e.Limit)
}

// Estimate returns the ceilings at p90 and at p99 of use. It needs one limit at least; an *UnusedError for a limit of
// what no attempt used.
func (m Measured) Estimate(l Limits) (p90, p99 Estimate, err error) {
	if p90, err = m.at("p90", l, func(s Spread) float64 { return s.P90 }); err != nil {
		return Estimate{}, Estimate{}, err
	}
	p99, err = m.at("p99", l, func(s Spread) float64 { return s.P99 })
	return p90, p99, err
}

func (m Measured) at(percentile string, l Limits, pick func(Spread) float64) (Estimate, error) {
	e := Estimate{Percentile: percentile}
	for _, b := range []struct {
		limit     string
		perMinute int64
		use       Spread
	}{{"requests", l.Requests, m.Requests}, {"input tokens", l.InputTokens, m.InputTokens}, {"output tokens", l.OutputTokens, m.OutputTokens}} {
		if b.perMinute <= 0 {
			continue
		}
		use := pick(b.use)
		if use <= 0 {
			return Estimate{}, &UnusedError{b.limit}
		}
		// One division, so that a quotient that is whole comes out whole.
		e.Bounds = append(e.Bounds, Bound{b.limit, b.perMinute, use, float64(b.perMinute) * m.Seconds.Median / (60 * use)})
	}
	if len(e.Bounds) == 0 {
		return Estimate{}, errors.New("no limit is given")
	}
	slices.SortStableFunc(e.Bounds, func(a, b Bound) int { return cmp.Compare(a.Slots, b.Slots) })
	e.Binding = e.Bounds[0].Limit
	e.Ceiling = int(min(math.Floor(e.Bounds[0].Slots), maxSlots))
	e.Start = (e.Ceiling + 3) / 4
	return e, nil
}

// maxSlots keeps absurd limits within an int on every platform.
const maxSlots = 1 << 30

// Forecast is what becomes of a queue.
type Forecast struct {
	Workers   int     `json:"workers"`
	PerWorker float64 `json:"per_worker_per_minute"`
	Arrivals  float64 `json:"arrivals_per_minute"`
	Backlog   int64   `json:"backlog"` // now
}

// Growth is by how many messages a minute the backlog grows; negative where it shrinks.
func (f Forecast) Growth() float64 { return f.Arrivals - float64(f.Workers)*f.PerWorker }

// Needed is how many workers keep up with the arrivals.
func (f Forecast) Needed() int {
	if f.PerWorker <= 0 {
		return 0
	}
	return int(min(math.Ceil(f.Arrivals/f.PerWorker), maxSlots))
}

// Clear is how long the present backlog lasts, a year at most, and whether it ends at all.
func (f Forecast) Clear() (time.Duration, bool) {
	if f.Growth() >= 0 {
		return 0, f.Growth() == 0 && f.Backlog == 0
	}
	minutes := min(float64(f.Backlog)/-f.Growth(), (365 * 24 * time.Hour).Minutes())
	return time.Duration(minutes * float64(time.Minute)), true
}

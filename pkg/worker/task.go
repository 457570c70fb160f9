package worker

import (
	"context"
	"errors"
	"time"

	"github.com/stagefleet/stagefleet/pkg/outcome"
)

// Task is one attempt at one step. Its methods may be called by several
// goroutines; none of them blocks on the queue or the record, except Once. On a
// Task that a test built by hand they do nothing but their own work.
type Task[In any] struct {
	Input In

	Tenant string
	Job    string
	Step   string
	Stage  string
	// Target and Version name what the job is about: the recording and which of its versions.
	Target  string
	Version int64
	// Part is the 0-based number of the part, or -1 when the step is none.
	Part int
	// Attempt counts executions from 1; interrupted and deferred ones do not count.
	Attempt int

	// Dir is an empty folder of this attempt alone; it is removed when Handle returns.
	Dir string
	// Objects reads what earlier stages made and keeps what this attempt makes.
	Objects Objects
	// Gaps are what earlier steps of the job noted as missing.
	Gaps []outcome.Gap

	attempt *attempt
}

// Gap notes that something is missing from an otherwise good result. It is
// published with the output, and the job ends completed_with_gaps. Code is a
// bounded snake_case word; sentence is for the submitter.
func (t Task[In]) Gap(code, sentence string) {
	t.attempt.gap(outcome.Gap{Code: code, Sentence: sentence})
}

// Progress says how far the attempt is, in a unit a person understands ("seconds",
// "clips"). A total below 0 means unknown. It never blocks; at most one report a
// second is kept.
func (t Task[In]) Progress(unit string, done, total int64) { t.attempt.report(unit, done, total) }

// Ran keeps the lifetime and the processor time of an external tool in the record
// of the attempt. It fits the Record field of a media.Runner.
func (t Task[In]) Ran(tool string, start, end time.Time, cpu time.Duration) {
	t.attempt.ran(tool, start, end, cpu)
}

// Provider calls a provider: its time counts as provider wait rather than work,
// and its end feeds the stage's breaker. While the breaker is open the call is not
// made and the error defers the step.
func (t Task[In]) Provider(ctx context.Context, call func(ctx context.Context) error) error {
	return t.attempt.provider(ctx, call)
}

// ErrNoEffects is the reason that Once refuses: the record has no table of effects
// yet, and a call that cannot be undone must not be made without one.
var ErrNoEffects = errors.New("the record keeps no effects yet; a call that cannot be undone is not made")

// Once makes a call that cannot be undone: the record holds a stable key for it
// before the call, so that after a crash the provider is asked again with the same
// key. It fails with ErrNoEffects until the record can hold one.
func (t Task[In]) Once(context.Context, string, func(ctx context.Context, key string) ([]byte, error)) ([]byte, error) {
	return nil, outcome.Quarantine("effects_missing", ErrNoEffects)
}

package worker

import (
	"context"
	"encoding/json"
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
	// Event is what a provider answered, when the step goes on after outcome.Await; else empty.
	Event json.RawMessage
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
// the requests and tokens of package provider's calls that get its ctx are kept in
// the record of the attempt, and its end feeds the stage's breaker. While the breaker is open the call is not
// made. Return the error as it is or wrapped: it defers the step where the provider
// is down, and is a counted failure where only this call went wrong.
func (t Task[In]) Provider(ctx context.Context, call func(ctx context.Context) error) error {
	return t.attempt.provider(ctx, call)
}

// ErrNoEffects is the reason that Once refuses on a Task without a record: a call
// that cannot be undone must not be made where nothing remembers it.
var ErrNoEffects = errors.New("no record keeps the effect; a call that cannot be undone is not made")

// Call is a call that cannot be undone. The key is the same in every execution of
// the step: give it to the provider as its idempotency key, or ask by it what
// became of an earlier call. Again says that an earlier execution began the call
// and nobody knows how it ended.
type Call func(ctx context.Context, key string, again bool) ([]byte, error)

// Once makes a call that cannot be undone: the record holds its key before it is
// made, and its result afterwards, so that later executions get the result instead
// of making it. The name tells a step's effects apart. A call may return
// outcome.Await(key, deadline): the step then rests until the provider answers,
// and its next execution finds the answer in Event.
func (t Task[In]) Once(ctx context.Context, name string, call Call) ([]byte, error) {
	return t.attempt.once(ctx, name, call)
}

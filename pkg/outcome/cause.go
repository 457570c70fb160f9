package outcome

import (
	"context"
	"errors"
	"fmt"
	"runtime"
)

// The causes with which a handler's context ends; read them with context.Cause. They are also the errors of a Ledger.
var (
	ErrLeaseLost  = errors.New("lease lost")              // another owner may run the work: stop, nothing of it will be accepted
	ErrDraining   = errors.New("draining")                // the process stops: return soon, the work is not counted as an attempt
	ErrSuperseded = errors.New("superseded")              // a newer version exists: the result would be thrown away
	ErrCancelled  = errors.New("cancelled")               // a person called the work off
	ErrTimeLimit  = errors.New("time limit exceeded")     // the handler's own limit: a counted failure
	ErrHorizon    = errors.New("queue horizon reached")   // SQS hides a message for 12 hours at most: a counted failure
	ErrStuck      = errors.New("handler ignores its end") // not a cause of a context: the end of a handler that never returned
)

// causes is in the order in which Of looks: what takes the work away outranks what merely ends this execution.
var causes = []struct {
	err    error
	kind   Kind
	reason string
}{
	{ErrSuperseded, KindSuperseded, ReasonSuperseded},
	{ErrCancelled, KindCancelled, ReasonCancelled},
	{ErrLeaseLost, KindLost, ReasonLeaseLost},
	{ErrStuck, KindStuck, ReasonStuck},
	{ErrDraining, KindInterrupted, ReasonDraining},
	{ErrTimeLimit, KindRetry, ReasonTimeLimit},
	{ErrHorizon, KindRetry, ReasonHorizon},
}

func ofCause(err error) (Verdict, bool) {
	for _, c := range causes {
		if errors.Is(err, c.err) {
			return Verdict{Kind: c.kind, Reason: c.reason, Err: err}, true
		}
	}
	return Verdict{}, false
}

// Because joins what a handler returned with the cause that ended its context, if one of ours did. A nil error stays nil: work
// that was finished in spite of the end is finished, and the record decides whether it is still wanted.
func Because(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	cause := context.Cause(ctx)
	if _, known := ofCause(cause); !known || errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w: %w", cause, err)
}

// Panic is the end of a handler that panicked or called runtime.Goexit. Its text names the type of the value that was thrown, and
// the value itself only when the Go runtime made it, because any other may carry the data that was being worked on.
type Panic struct {
	Value any    // what was thrown; nil when the handler ended its goroutine
	Stack []byte // the stack at that moment, as debug.Stack gives it
}

func (p *Panic) Error() string {
	switch v := p.Value.(type) {
	case nil:
		return "handler ended its goroutine"
	case runtime.Error:
		return "handler panicked: " + v.Error()
	default:
		return fmt.Sprintf("handler panicked with a %T", v)
	}
}

func (p *Panic) reason() string {
	if p.Value == nil {
		return ReasonExited
	}
	return ReasonPanic
}

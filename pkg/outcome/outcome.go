// Package outcome names the ways in which the execution of a message can end, and decides what follows from each.
//
// A handler returns nil when its work is done, or an error. A plain error is a counted failure; the constructors here say more:
// that the input is at fault, that the work should wait, that a person must look. Of reads any error back into a Verdict and
// Policy.Decide turns a verdict into an action. Both are pure: nothing here sends, stores, sleeps or logs.
package outcome

import (
	"errors"
	"fmt"
	"regexp"
	"time"
)

// Kind is how an execution ended. The set is closed, so a kind is safe as a metric label.
type Kind string

// The kinds. Only done, retry and panic are attempts: the others say nothing about whether the work can succeed.
const (
	KindDone        Kind = "done"        // the handler returned nil
	KindRetry       Kind = "retry"       // a counted failure: a plain error, Retry, Fail, RetryAfter, the time limit
	KindPanic       Kind = "panic"       // a counted failure: the handler panicked or ended its goroutine
	KindDefer       Kind = "defer"       // Defer: try later, nothing was attempted
	KindReject      Kind = "reject"      // Reject: the input is at fault
	KindQuarantine  Kind = "quarantine"  // Quarantine: a person must look
	KindAwait       Kind = "await"       // Await: somebody else will report the result
	KindInterrupted Kind = "interrupted" // the process is stopping
	KindLost        Kind = "lost"        // another owner may hold the work
	KindSuperseded  Kind = "superseded"  // a newer version made the work pointless
	KindCancelled   Kind = "cancelled"   // a person called the work off
	KindStuck       Kind = "stuck"       // the handler ignores the end of its context
)

// Kinds returns every kind.
func Kinds() []Kind {
	return []Kind{KindDone, KindRetry, KindPanic, KindDefer, KindReject, KindQuarantine, KindAwait, KindInterrupted, KindLost, KindSuperseded, KindCancelled, KindStuck}
}

// Reasons that Of gives by itself. Those of Fail, Defer, Reject and Quarantine are the caller's; a Reasoner has its own.
const (
	ReasonFailed      = "failed"
	ReasonRetryAfter  = "retry_after"
	ReasonPanic       = "panic"
	ReasonExited      = "goroutine_exited"
	ReasonTimeLimit   = "time_limit"
	ReasonHorizon     = "horizon"
	ReasonAwait       = "await"
	ReasonDraining    = "draining"
	ReasonLeaseLost   = "lease_lost"
	ReasonSuperseded  = "superseded"
	ReasonCancelled   = "cancelled"
	ReasonStuck       = "stuck"
	ReasonUndecodable = "undecodable"
)

// Verdict is an end, read back from an error by Of. The zero Verdict is not valid.
type Verdict struct {
	Kind     Kind
	Reason   string        // a short code in snake_case, never a text made from data
	Sentence string        // for the submitter; only Reject gives one
	After    time.Duration // how long to wait, where the error said so; 0: it did not
	Effect   string        // the effect that is awaited (KindAwait)
	Deadline time.Time     // when to ask if nobody reported (KindAwait)
	Err      error         // what was returned; nil only when done
}

// end is the error behind every constructor.
type end struct {
	verdict Verdict
	err     error
}

func (e *end) Error() string {
	if e.err == nil {
		return string(e.verdict.Kind) + ": " + e.verdict.Reason
	}
	return fmt.Sprintf("%s: %s: %v", e.verdict.Kind, e.verdict.Reason, e.err)
}

func (e *end) Unwrap() error { return e.err }

// Reasoner is an error that can say safely why work failed. An error's text may quote data and is never kept, so that without a
// reason a record knows only that an execution failed. Of takes the reason of the first Reasoner in the tree of an error that is a
// plain failure. A reason that is no short code, in snake_case and at most 64 bytes, is not taken: it could be made from data.
type Reasoner interface {
	error
	Reason() string // such as "ffmpeg_missing": chosen by code, of parts that the code knows
}

// Retry marks err as a counted failure, to be tried again after the policy's wait. Returning err itself means the same. See Reasoner for its reason.
func Retry(err error) error {
	return &end{Verdict{Kind: KindRetry, Reason: ReasonFailed}, err}
}

// Fail is Retry with a reason, a short code such as "model_missing" that says what failed without the data that it failed on.
func Fail(code string, err error) error {
	return &end{Verdict{Kind: KindRetry, Reason: code}, err}
}

// RetryAfter marks err as a counted failure of which somebody, usually a provider, said when to try again. It is not tried
// sooner, unless d is longer than 30 days; a wait beyond the policy's bound makes it a deferral, which is not counted. A d of 0 or
// less means Retry.
func RetryAfter(d time.Duration, err error) error {
	if d <= 0 {
		return Retry(err)
	}
	return &end{Verdict{Kind: KindRetry, Reason: ReasonRetryAfter, After: d}, err}
}

// Defer asks for another try no sooner than d from now, without counting this one. The reason is a short code such as
// "breaker_open". A d below zero counts as zero, one above 30 days as 30 days.
func Defer(d time.Duration, reason string) error {
	return &end{Verdict{Kind: KindDefer, Reason: reason, After: max(d, 0)}, nil}
}

// Reject ends the work because its input cannot be used. The submitter is shown the code and the sentence; nobody is paged and
// nothing reaches a dead-letter queue.
func Reject(code, sentence string) error {
	return &end{Verdict{Kind: KindReject, Reason: code, Sentence: sentence}, nil}
}

// Quarantine ends the work because it cannot be understood or because the fault is ours. It reaches the dead-letter queue at
// once, without further attempts. err may be nil.
func Quarantine(code string, err error) error {
	return &end{Verdict{Kind: KindQuarantine, Reason: code}, err}
}

// Await parks the work until the result of the named effect is reported, or until the deadline, when its provider is asked.
func Await(effect string, deadline time.Time) error {
	return &end{Verdict{Kind: KindAwait, Reason: ReasonAwait, Effect: effect, Deadline: deadline}, nil}
}

// Of reads an end from any error, however wrapped. The cause of an ended context (see Because) outranks what the handler made
// of it, since a cut-off handler cannot know why its tools failed. nil is done; an error of no known shape is a counted failure.
func Of(err error) Verdict {
	if err == nil {
		return Verdict{Kind: KindDone, Reason: string(KindDone)}
	}
	if v, ok := ofCause(err); ok {
		return v
	}
	if p, ok := errors.AsType[*Panic](err); ok {
		return Verdict{Kind: KindPanic, Reason: p.reason(), Err: err}
	}
	if e, ok := errors.AsType[*end](err); ok {
		v := e.verdict
		v.Err = err
		if v.Reason == ReasonFailed || v.Reason == ReasonRetryAfter {
			v.Reason = reasonOf(e.err, v.Reason)
		}
		return v
	}
	return Verdict{Kind: KindRetry, Reason: reasonOf(err, ReasonFailed), Err: err}
}

var codeShape = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)

func reasonOf(err error, otherwise string) string {
	if r, ok := errors.AsType[Reasoner](err); ok && codeShape.MatchString(r.Reason()) {
		return r.Reason()
	}
	return otherwise
}

// Gap is something missing from a result that is otherwise good. It ends a job "completed with gaps".
type Gap struct {
	Code     string `json:"code"`     // snake_case, for programs
	Sentence string `json:"sentence"` // for people
}

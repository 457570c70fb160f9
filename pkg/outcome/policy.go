package outcome

import (
	"fmt"
	"slices"
	"time"
)

// Defaults of a Policy's fields that are zero.
const (
	DefaultMaxAttempts   = 3
	DefaultMaxRetryAfter = 15 * time.Minute
)

var defaultWaits = []time.Duration{30 * time.Second, 60 * time.Second}

// Policy says how often and when failed work is tried again. The zero value is usable.
type Policy struct {
	MaxAttempts   int             // executions that count, the first included; 0: DefaultMaxAttempts
	Waits         []time.Duration // before the 2nd, 3rd ... attempt; the last repeats; nil: 30 s, 60 s
	Jitter        float64         // 0 to 1: every wait is stretched by up to this share of itself, never shortened
	MaxRetryAfter time.Duration   // a longer wait asked for by RetryAfter becomes a deferral; 0: DefaultMaxRetryAfter
}

// Validate reports the first field that cannot work.
func (p Policy) Validate() error {
	switch {
	case p.MaxAttempts < 0:
		return fmt.Errorf("MaxAttempts is %d, must be 0 or more", p.MaxAttempts)
	case p.Jitter < 0 || p.Jitter > 1:
		return fmt.Errorf("Jitter is %g, must be between 0 and 1", p.Jitter)
	case p.MaxRetryAfter < 0:
		return fmt.Errorf("MaxRetryAfter is %v, must be 0 or more", p.MaxRetryAfter)
	}
	if i := slices.IndexFunc(p.Waits, func(d time.Duration) bool { return d < 0 }); i >= 0 {
		return fmt.Errorf("Waits[%d] is %v, must be 0 or more", i, p.Waits[i])
	}
	return nil
}

// Do is what to do with work whose execution ended.
type Do string

// The actions.
const (
	Finish  Do = "finish"  // the work is done
	Wait    Do = "wait"    // run it again after Action.Wait
	Die     Do = "die"     // no more attempts: dead letter
	Refuse  Do = "refuse"  // the input is at fault: end it, tell the submitter
	Release Do = "release" // give it back at once, untouched
	Park    Do = "park"    // keep it until its effect is reported
	Drop    Do = "drop"    // it is not ours any more: write nothing
)

// ReasonExhausted is the reason of a death by the last attempt.
const ReasonExhausted = "exhausted"

// Action is a decision.
type Action struct {
	Do      Do
	Wait    time.Duration // for Wait
	Attempt int           // attempts that have counted so far, this execution included if it counts
	Reason  string
}

// Decide is the whole retry decision: a verdict, the 1-based number that this execution has if it counts, and a random number in
// [0, 1) in; an action out.
func (p Policy) Decide(v Verdict, attempt int, random float64) Action {
	switch v.Kind {
	case KindDone:
		return Action{Do: Finish, Attempt: attempt, Reason: v.Reason}
	case KindRetry, KindPanic:
		return p.failed(v, attempt, random)
	case KindDefer:
		return Action{Do: Wait, Wait: p.stretch(v.After, random), Attempt: attempt - 1, Reason: v.Reason}
	case KindReject:
		return Action{Do: Refuse, Attempt: attempt, Reason: v.Reason}
	case KindQuarantine:
		return Action{Do: Die, Attempt: attempt, Reason: v.Reason}
	case KindAwait:
		return Action{Do: Park, Attempt: attempt - 1, Reason: v.Reason}
	case KindInterrupted:
		return Action{Do: Release, Attempt: attempt - 1, Reason: v.Reason}
	default:
		return Action{Do: Drop, Attempt: attempt - 1, Reason: v.Reason}
	}
}

func (p Policy) failed(v Verdict, attempt int, random float64) Action {
	if v.After > orDefault(p.MaxRetryAfter, DefaultMaxRetryAfter) {
		return Action{Do: Wait, Wait: p.stretch(v.After, random), Attempt: attempt - 1, Reason: v.Reason}
	}
	if attempt >= orDefault(p.MaxAttempts, DefaultMaxAttempts) {
		return Action{Do: Die, Attempt: attempt, Reason: ReasonExhausted}
	}
	wait := v.After
	if wait == 0 {
		wait = p.wait(attempt)
	}
	return Action{Do: Wait, Wait: p.stretch(wait, random), Attempt: attempt, Reason: v.Reason}
}

// wait is the pause after the given attempt.
func (p Policy) wait(attempt int) time.Duration {
	waits := p.Waits
	if len(waits) == 0 {
		waits = defaultWaits
	}
	return waits[min(max(attempt, 1), len(waits))-1]
}

// maxWait is the longest that anybody is believed to mean. A provider's date may be in the year 9999.
const maxWait = 30 * 24 * time.Hour

// stretch only ever lengthens, so that nobody's "not before" is broken by jitter.
func (p Policy) stretch(d time.Duration, random float64) time.Duration {
	d = min(d, maxWait)
	return d + time.Duration(float64(d)*p.Jitter*random)
}

func orDefault[N int | time.Duration](n, def N) N {
	if n == 0 {
		return def
	}
	return n
}

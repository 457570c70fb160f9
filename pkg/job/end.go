package job

import (
	"context"
	"strings"

	"github.com/stagefleet/stagefleet/pkg/outcome"
)

// maxHide is the longest wait for which a message is hidden instead of sent anew when due. Queues hide for up to
// twelve hours from the receive, but count every receive, and a FIFO queue holds the group up meanwhile.
const maxHide = maxDelay

// End commits an end other than success: a retry, a deferral, an interruption, a refusal, a death, an await. Accepted is
// false when the execution no longer owned its step; then nothing has changed.
func (s *Store) End(ctx context.Context, e Ending) (Ended, error) {
	for _, text := range []*string{&e.Verdict.Reason, &e.Verdict.Sentence, &e.Verdict.Effect, &e.Action.Reason} {
		*text = kept(*text)
	}
	l := locks{level: lockAll, steps: []string{e.Claim.Step}}
	switch e.Action.Do {
	case outcome.Die, outcome.Refuse:
		l.level = lockAllPaid
	case outcome.Park:
		l.effect = e.Verdict.Effect
	default: // nothing more to lock
	}
	var got Ended
	err := s.update(ctx, "end", l, func(u *unit) error {
		settle, accepted, err := u.end(e)
		if err != nil {
			return err
		}
		got = Ended{Accepted: accepted, Settle: settle, Outgoing: u.outgoing(0)}
		return nil
	})
	if err == nil && !got.Accepted {
		s.metrics.stale.WithLabelValues(e.Claim.Stage, got.Reason).Inc()
	}
	return got, err
}

func (u *unit) end(e Ending) (Settle, bool, error) {
	s := u.steps[e.Claim.Step]
	if refusal := u.stale(s, e.Claim); refusal != nil {
		return *refusal, false, nil
	}
	kind, reason := e.Verdict.Kind, e.Action.Reason
	counted := kind == outcome.KindRetry || kind == outcome.KindPanic
	// A RetryAfter beyond the policy's bound has become a deferral: the policy says so by not counting it.
	counted = counted && e.Action.Attempt > int(s.Attempts)
	switch e.Action.Do {
	case outcome.Wait:
		u.closeAttempt(s, string(kind), reason, counted, e.Timings)
		u.set(s, stepQueued)
		s.NotBefore = u.now + e.Action.Wait.Microseconds()
		return u.again(s, e), true, nil
	case outcome.Release:
		u.release(s, kind, reason, e.Timings)
		return u.again(s, e), true, nil
	case outcome.Die:
		u.closeAttempt(s, string(kind), e.Verdict.Reason, counted, e.Timings)
		u.die(s, reason, e.Verdict.Reason)
		return Settle{Do: Delete, Reason: reason}, true, nil
	case outcome.Refuse:
		u.closeAttempt(s, string(kind), reason, false, e.Timings)
		return Settle{Do: Delete, Reason: reason}, true, u.refuse(s, reason, e.Verdict.Sentence)
	case outcome.Park:
		u.closeAttempt(s, string(kind), reason, false, e.Timings)
		return u.park(s, e.Verdict)
	default:
		return u.drop(s, e)
	}
}

// kept is a text as both databases keep it: Postgres takes no NUL and nothing but UTF-8. A handler's words may be made of data, and an
// end that is not taken would be tried for ever.
func kept(text string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "\uFFFD")
}

// drop is the end of work that its owner must not touch any more. A handler that has returned frees its step,
// one that is stuck keeps it until the lease ends.
func (u *unit) drop(s *stepRow, e Ending) (Settle, bool, error) {
	if e.Verdict.Kind != outcome.KindLost {
		return Settle{Do: Leave, Reason: e.Action.Reason}, false, nil
	}
	u.release(s, e.Verdict.Kind, e.Action.Reason, e.Timings)
	return u.again(s, e), true, nil
}

// release gives a step back as if the execution had never been.
func (u *unit) release(s *stepRow, kind outcome.Kind, reason string, t Timings) {
	u.closeAttempt(s, string(kind), reason, false, t)
	u.set(s, stepQueued)
	s.NotBefore = 0
}

// again arranges for the step to be delivered once more: by the message at hand on a FIFO queue, by a new one
// where the queue can delay it, and wherever another receive of the old one would dead-letter it.
func (u *unit) again(s *stepRow, e Ending) Settle {
	if e.TraceParent != "" {
		s.Trace = e.TraceParent
	}
	wait := max(0, micro(s.NotBefore-u.now))
	reissue := e.ReceivesAtLimit || wait > maxHide || s.FIFO == 0 && wait > 0
	if reissue {
		u.emit(s)
		return Settle{Do: Delete, Reason: e.Action.Reason}
	}
	return Settle{Do: Hide, After: wait, Reason: e.Action.Reason}
}

package job

import (
	"github.com/stagefleet/stagefleet/pkg/internal/envelope"
	"github.com/stagefleet/stagefleet/pkg/outcome"
)

// Parts of the time from the moment a message is due to the end of the execution that it led to.
const (
	partQueue    = "queue"    // nobody had received the message: no worker, or none with a free slot
	partSlot     = "slot"     // received, and not started: the claim, and what came before it in the worker
	partWork     = "work"     // the handler's own
	partProvider = "provider" // in calls of providers
)

// count adds what a committed unit has decided.
func (m *metrics) count(u *unit) {
	for _, j := range u.ended {
		m.jobsEnded.WithLabelValues(j.State).Inc()
		if j.State == jobCompleted || j.State == jobWithGaps {
			m.jobSeconds.WithLabelValues(j.State).Observe(since(j.ID, u.now))
		}
	}
	for _, s := range u.over {
		if s.State == stepDiscarded { // was counted when it died
			continue
		}
		m.stepsEnded.WithLabelValues(s.Stage, s.State).Inc()
		if s.State == stepDone {
			m.stepSeconds.WithLabelValues(s.Stage).Observe(since(s.ID, u.now))
		}
	}
	for _, c := range u.closed {
		if !c.step.ended() && c.Outcome != string(outcome.KindAwait) {
			m.retries.WithLabelValues(c.step.Stage, m.reasons.label(c.Reason)).Inc()
		}
		m.split(c)
	}
}

// split divides the time of an execution whose owner has told of it. Both differences of the wait are of one clock each: from due
// to claimed is the record's, from received to started, which the claim is a part of, the worker's.
func (m *metrics) split(c closedRow) {
	if c.StartedAt == 0 {
		return
	}
	slot := max(0, c.StartedAt-c.ReceivedAt)
	for part, us := range map[string]int64{
		partQueue: c.claimedAt - c.dueAt - slot, partSlot: slot, partWork: c.EndedAt - c.StartedAt - c.ProviderWait, partProvider: c.ProviderWait,
	} {
		m.timeSpent.WithLabelValues(c.step.Stage, part).Observe(micro(max(0, us)).Seconds())
	}
}

// since is the seconds from the making of an identifier to a moment of the same clock.
func since(id string, now int64) float64 { return micro(max(0, now-born(id))).Seconds() }

// born is when an identifier of this package was made, to the millisecond, by the database's clock.
func born(id string) int64 { return envelope.TimeOf(id).UnixMicro() }

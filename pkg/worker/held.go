package worker

import (
	"sync"
	"time"

	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/pool"
)

// held is one claimed message: what the ledger gave for it and what its handler
// made of it. A handler that ignores its end may still be writing when the end is
// recorded, hence the lock.
type held struct {
	claim    job.Claim
	received time.Time
	atLimit  bool
	attempt  *attempt

	mu       sync.Mutex
	started  time.Time
	trace    string // W3C context of the execution's span, for what follows from it
	finished time.Time
	made     result
}

func newHeld(c job.Claim, m pool.Message, atLimit bool) *held {
	return &held{claim: c, received: m.ReceivedAt, atLimit: atLimit, attempt: &attempt{}}
}

func (h *held) start(now time.Time, traceparent string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.started, h.trace = now, traceparent
}

func (h *held) traceparent() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.trace
}

func (h *held) finish(r result, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.made, h.finished = r, now
}

func (h *held) result() result {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.made
}

// timings are those of the record; an execution that did not start or has not
// returned took no time, or ends now.
func (h *held) timings() job.Timings {
	h.mu.Lock()
	t := job.Timings{ReceivedAt: h.received, StartedAt: h.started, EndedAt: h.finished}
	h.mu.Unlock()
	if t.StartedAt.IsZero() {
		t.StartedAt = t.ReceivedAt
	}
	if t.EndedAt.IsZero() {
		t.EndedAt = time.Now()
	}
	return h.attempt.spent(t)
}

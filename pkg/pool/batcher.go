package pool

import (
	"sync"
	"time"
)

const (
	// gatherSettle is how long a settlement waits for others to share its call.
	gatherSettle = 5 * time.Millisecond

	// maxSettleCalls is how many calls of one kind are under way at once.
	maxSettleCalls = 16
)

// batcher gathers messages for calls of ten. Whoever brings the tenth hands them to the callers, and a timer does so with fewer after
// a few milliseconds: no goroutine has to be woken for each message.
type batcher struct {
	callers crew[[]*held]

	mu      sync.Mutex
	waiting []*held
	timer   *time.Timer
	closed  bool
}

func newBatcher(tasks *sync.WaitGroup, call func([]*held)) *batcher {
	return &batcher{callers: crew[[]*held]{do: call, most: maxSettleCalls, keep: maxSettleCalls, tasks: tasks}}
}

// add takes one message in. It reports false once the batcher is closed.
func (b *batcher) add(h *held) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.waiting = append(b.waiting, h)
	switch {
	case len(b.waiting) == batch:
		b.hand()
	case len(b.waiting) > 1:
	case b.timer == nil:
		b.timer = time.AfterFunc(gatherSettle, b.flush)
	default:
		b.timer.Reset(gatherSettle)
	}
	return true
}

// flush hands on what has been gathered.
func (b *batcher) flush() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed && len(b.waiting) > 0 {
		b.hand()
	}
}

// hand gives what has been gathered to a caller. It runs under mu.
func (b *batcher) hand() {
	b.timer.Stop()
	b.callers.put(b.waiting)
	b.waiting = make([]*held, 0, batch)
}

// close ends the batcher, and returns what it still had.
func (b *batcher) close() []*held {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	if b.timer != nil {
		b.timer.Stop()
	}
	b.callers.close()
	return b.waiting
}

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

// batcher gathers messages for calls of ten. Whoever brings the tenth makes the call, and a timer makes it for fewer after a few
// milliseconds: no goroutine has to be woken for each message.
type batcher struct {
	call  func([]*held)
	tasks *sync.WaitGroup // has the calls under way
	calls chan struct{}   // bounds them

	mu      sync.Mutex
	waiting []*held
	timer   *time.Timer
	closed  bool
}

func newBatcher(tasks *sync.WaitGroup, call func([]*held)) *batcher {
	return &batcher{call: call, tasks: tasks, calls: make(chan struct{}, maxSettleCalls)}
}

// add takes one message in, and may make a call for it and others. It reports false once the batcher is closed.
func (b *batcher) add(h *held) bool {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return false
	}
	b.waiting = append(b.waiting, h)
	if len(b.waiting) == batch {
		b.send()
		return true
	}
	if len(b.waiting) == 1 {
		b.timer = time.AfterFunc(gatherSettle, b.flush)
	}
	b.mu.Unlock()
	return true
}

// flush makes a call for what has been gathered.
func (b *batcher) flush() {
	b.mu.Lock()
	if b.closed || len(b.waiting) == 0 {
		b.mu.Unlock()
		return
	}
	b.send()
}

// send makes the call. It is entered with mu held, and frees it.
func (b *batcher) send() {
	hs := b.waiting
	b.waiting = make([]*held, 0, batch)
	b.timer.Stop()
	b.tasks.Add(1)
	defer b.tasks.Done()
	b.mu.Unlock()
	b.calls <- struct{}{}
	defer func() { <-b.calls }()
	b.call(hs)
}

// close ends the batcher, and returns what it still had.
func (b *batcher) close() []*held {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	if b.timer != nil {
		b.timer.Stop()
	}
	return b.waiting
}

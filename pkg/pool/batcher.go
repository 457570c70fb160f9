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

// batcher gathers messages for calls of ten. Whoever brings the tenth hands them to a caller, and a timer does so with fewer after a
// few milliseconds: no goroutine has to be woken for each message. The callers stay, because a call needs a deep stack.
type batcher struct {
	call  func([]*held)
	tasks *sync.WaitGroup // has the callers, and those who hand to them
	full  chan []*held    // to an idle caller
	done  chan struct{}   // closed by close

	mu      sync.Mutex
	waiting []*held
	timer   *time.Timer
	callers int
	closed  bool
}

func newBatcher(tasks *sync.WaitGroup, call func([]*held)) *batcher {
	return &batcher{call: call, tasks: tasks, full: make(chan []*held), done: make(chan struct{})}
}

// add takes one message in. It reports false once the batcher is closed.
func (b *batcher) add(h *held) bool {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return false
	}
	b.waiting = append(b.waiting, h)
	if len(b.waiting) == batch {
		b.hand()
		return true
	}
	if len(b.waiting) == 1 {
		b.timer = time.AfterFunc(gatherSettle, b.flush)
	}
	b.mu.Unlock()
	return true
}

// flush hands on what has been gathered.
func (b *batcher) flush() {
	b.mu.Lock()
	if b.closed || len(b.waiting) == 0 {
		b.mu.Unlock()
		return
	}
	b.hand()
}

// hand gives what has been gathered to a caller. It is entered with mu held, and frees it.
func (b *batcher) hand() {
	hs := b.waiting
	b.waiting = make([]*held, 0, batch)
	b.timer.Stop()
	b.tasks.Add(1)
	defer b.tasks.Done()
	select {
	case b.full <- hs:
		b.mu.Unlock()
		return
	default:
	}
	if b.callers < maxSettleCalls {
		b.callers++
		b.mu.Unlock()
		b.tasks.Go(func() { b.caller(hs) })
		return
	}
	b.mu.Unlock()
	select {
	case b.full <- hs:
	case <-b.done:
		b.call(hs) // it can only fail now, and gives them up
	}
}

// caller makes one call after the other.
func (b *batcher) caller(hs []*held) {
	for {
		b.call(hs)
		select {
		case hs = <-b.full:
		case <-b.done:
			return
		}
	}
}

// close ends the batcher, and returns what it still had.
func (b *batcher) close() []*held {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	close(b.done)
	if b.timer != nil {
		b.timer.Stop()
	}
	return b.waiting
}

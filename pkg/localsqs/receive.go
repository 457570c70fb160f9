package localsqs

import (
	"context"
	"slices"
	"time"
)

// want is one receive's wish.
type want struct {
	max       int
	hide      time.Duration
	attemptID string
	duplicate bool // a fault: leave what is delivered visible
}

// take hands out up to w.max messages. Messages that were received too often move to the dead-letter queue on the way.
func (q *queue) take(now int64, w want) []delivery {
	if got, ok := q.repeat(now, w); ok {
		return got
	}
	var got []delivery
	for len(got) < w.max && q.counts[stateInFlight] < q.server.opts.InFlightLimit {
		g := q.nextGroup()
		if g == nil {
			break
		}
		got = q.takeFrom(g, now, w, got)
	}
	if w.attemptID != "" && len(got) > 0 {
		a := attempt{at: now, got: got}
		q.attempts.remember(w.attemptID, a)
		q.server.journal.attempted(q, w.attemptID, a)
	}
	return got
}

// takeFrom takes one message on a standard queue, so that fairness is decided anew for each; on a FIFO queue it takes all
// it can, because the group is locked afterwards.
func (q *queue) takeFrom(g *group, now int64, w want, got []delivery) []delivery {
	room := 1
	if q.fifo {
		room = min(w.max-len(got), q.server.opts.InFlightLimit-q.counts[stateInFlight])
	}
	for ; room > 0; room-- {
		m := q.firstLive(g, now)
		if m == nil {
			break
		}
		hide := w.hide
		if w.duplicate && !q.fifo {
			hide = 0
		}
		q.deliver(m, now, hide)
		got = append(got, delivery{message: m, receives: m.receives, here: m.here, first: m.first})
	}
	return got
}

// firstLive returns the group's first message that may still be received, moving exhausted ones away.
func (q *queue) firstLive(g *group, now int64) *message {
	for {
		m, _ := g.ready.min()
		if m == nil {
			return nil
		}
		dlq := q.deadLetterQueue()
		if dlq == nil || m.here < q.redrive.maxReceives {
			return m
		}
		q.bury(m, dlq, now)
	}
}

func (q *queue) deliver(m *message, now int64, hide time.Duration) {
	q.flow.received++
	m.receives++
	m.here++
	m.received, m.touched = now, false
	if m.first == 0 {
		m.first = now
	}
	q.hide(m, now+int64(hide))
	q.server.journal.received(q, m)
}

// undeliver takes a delivery back that never reached its client, as if it had not been received.
func (q *queue) undeliver(d delivery) {
	m := q.messages[d.seq]
	if m != d.message || m.here != d.here || m.state != stateInFlight || m.touched || d.repeated {
		return
	}
	q.leave(m)
	m.receives--
	m.here--
	if m.receives == 0 {
		m.first = 0
	}
	m.state = stateReady
	q.enter(m)
	q.server.journal.received(q, m)
}

// Fair queues: a tenant is noisy with more than a tenth of the messages in flight and at least noisyInFlight of them.
// Source: SQS developer guide, "How Amazon SQS fair queues work".
const (
	noisyInFlight = 30
	noisyShare    = 10
)

func (q *queue) noisy(g *group) bool {
	return !q.fifo && g.name != "" && g.inFlight >= noisyInFlight && g.inFlight*noisyShare > q.counts[stateInFlight]
}

// nextGroup returns the group to take from: the quiet one with the oldest message, else the noisy one. At most nine
// tenants can hold more than a tenth each, so few are passed over.
func (q *queue) nextGroup() *group {
	var noisy []*group
	chosen, _ := q.runnable.min()
	for chosen != nil && q.noisy(chosen) {
		noisy = append(noisy, chosen)
		q.runnable.remove(chosen)
		chosen, _ = q.runnable.min()
	}
	for _, g := range noisy {
		q.refresh(g)
	}
	if chosen == nil && len(noisy) > 0 {
		return noisy[0]
	}
	return chosen
}

// waiter is one long poll. Guarded by Server.mu; served is closed once got or err is set.
type waiter struct {
	want
	until  int64 // when the poll ends on its own
	ghost  bool  // its client has gone: what it gets stays hidden, see Options.KeepCancelledPolls
	served chan struct{}
	got    []delivery
	err    error
}

// waitList holds a queue's long polls, first come first served, and the timer that wakes the queue for them.
type waitList struct {
	all   []*waiter
	timer *time.Timer
}

func (l *waitList) remove(w *waiter) {
	if i := slices.Index(l.all, w); i >= 0 {
		l.all = slices.Delete(l.all, i, i+1)
	}
}

func (w *waiter) finish(got []delivery, err error) {
	w.got, w.err = got, err
	close(w.served)
}

// serve gives what is available to those who wait. The server calls it after every change that can make a message
// available.
func (q *queue) serve(now int64) {
	for len(q.waiters.all) > 0 {
		w := q.waiters.all[0]
		if w.ghost && w.until <= now {
			q.waiters.remove(w)
			continue
		}
		q.advance(now)
		got := q.take(now, w.want)
		if len(got) == 0 {
			break
		}
		q.waiters.remove(w)
		w.finish(got, nil)
	}
	q.arm(now)
}

// arm sets the queue's one timer; a queue nobody waits for needs none, because every call advances it first.
func (q *queue) arm(now int64) {
	if q.waiters.timer != nil {
		q.waiters.timer.Stop()
	}
	wait, ok := q.untilDue(now)
	if !ok || len(q.waiters.all) == 0 {
		return
	}
	if q.waiters.timer == nil {
		q.waiters.timer = time.AfterFunc(wait, q.wake)
		return
	}
	q.waiters.timer.Reset(wait)
}

func (q *queue) wake() {
	q.server.mu.Lock()
	defer q.server.mu.Unlock()
	if q.server.closed {
		return
	}
	now := q.server.now()
	q.advance(now)
	q.server.serve(now, q)
}

// poll waits until the waiter is served, its time is over, its client goes away or the server closes. It is called and
// returns without the lock; the deliveries it returns belong to the caller.
func (q *queue) poll(ctx context.Context, w *waiter, wait time.Duration) ([]delivery, error) {
	over := time.NewTimer(wait)
	defer over.Stop()
	select {
	case <-w.served:
	case <-over.C:
	case <-ctx.Done():
	}
	q.server.mu.Lock()
	defer q.server.mu.Unlock()
	if ctx.Err() != nil && q.server.opts.KeepCancelledPolls {
		w.ghost = true
		return nil, errClientGone()
	}
	q.waiters.remove(w)
	return w.got, w.err
}

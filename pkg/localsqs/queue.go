package localsqs

import (
	"time"
)

// queue is one queue. All of it is guarded by Server.mu, and none of its methods blocks.
type queue struct {
	settings
	server   *Server
	id       uint64 // this incarnation; receipt handles carry it
	name     string
	arn      string
	fifo     bool
	tags     map[string]string
	created  int64 // unix nanoseconds
	modified int64
	purged   int64

	lastSeq  int64
	messages map[int64]*message
	groups   map[string]*group
	timers   keyHeap[message] // every message, by the next thing that time does to it
	runnable keyHeap[group]   // groups that a receive may take from, by their first message
	counts   [3]int           // by state
	flow     flow
	dedup    dedupWindow
	attempts attemptWindow
	waiters  waitList
	tasks    []*moveTask // oldest first
}

// group is a message group: a lock on a FIFO queue, a tenant on a standard one. Messages without a group share one.
type group struct {
	name     string
	ready    keyHeap[message]
	inFlight int
	total    int
	slot     int32
}

func newQueue(s *Server, name string, fifo bool, set settings) *queue {
	q := &queue{
		settings: set, server: s, name: name, fifo: fifo, arn: s.arn(name),
		tags: map[string]string{},
	}
	q.clear()
	return q
}

// clear forgets all messages, but neither deduplication nor sequence numbers.
func (q *queue) clear() {
	q.messages, q.groups = map[int64]*message{}, map[string]*group{}
	q.timers = keyHeap[message]{slot: func(m *message) *int32 { return &m.timerSlot }}
	q.runnable = keyHeap[group]{slot: func(g *group) *int32 { return &g.slot }}
	q.counts = [3]int{}
	q.attempts = attemptWindow{}
}

func (q *queue) nextSeq() int64 {
	q.lastSeq++
	return q.lastSeq
}

// add puts a message in, in the state that its fields say.
func (q *queue) add(m *message) {
	g := q.groups[m.group]
	if g == nil {
		g = &group{name: m.group}
		g.ready.slot = func(m *message) *int32 { return &m.readySlot }
		q.groups[m.group] = g
	}
	g.total++
	m.tenant = g
	q.messages[m.seq] = m
	q.enter(m)
}

// enter books a message into its state; leave undoes it. Every change of state is leave, change, enter; only enter and
// drop refresh the group, once.
func (q *queue) enter(m *message) {
	q.counts[m.state]++
	switch m.state {
	case stateDelayed: // waits in timers only
	case stateReady:
		m.tenant.ready.set(m, m.order)
	case stateInFlight:
		m.tenant.inFlight++
	}
	q.refresh(m.tenant)
	q.schedule(m)
}

func (q *queue) leave(m *message) {
	q.counts[m.state]--
	switch m.state {
	case stateDelayed:
	case stateReady:
		m.tenant.ready.remove(m)
	case stateInFlight:
		m.tenant.inFlight--
	}
}

// refresh puts the group where its first ready message and its lock say.
func (q *queue) refresh(g *group) {
	if g.ready.len() == 0 || q.fifo && g.inFlight > 0 {
		q.runnable.remove(g)
		return
	}
	_, key := g.ready.min()
	q.runnable.set(g, key)
}

func (q *queue) schedule(m *message) {
	key := m.enqueued + int64(q.retention)
	if m.state != stateReady {
		key = min(key, m.deadline)
	}
	q.timers.set(m, key)
}

// drop removes a message for good.
func (q *queue) drop(m *message) {
	q.leave(m)
	q.refresh(m.tenant)
	q.timers.remove(m)
	delete(q.messages, m.seq)
	if m.tenant.total--; m.tenant.total == 0 {
		delete(q.groups, m.group)
	}
}

// backOfQueue is the number of receives after which a standard queue puts a returning message behind the others.
// Source: SQS developer guide, "Available CloudWatch metrics for Amazon SQS", ApproximateAgeOfOldestMessage.
const backOfQueue = 3

// release makes a delayed or hidden message ready.
func (q *queue) release(m *message) {
	q.leave(m)
	if !q.fifo && m.state == stateInFlight && m.here >= backOfQueue {
		m.order = q.nextSeq()
	}
	m.state = stateReady
	q.enter(m)
}

// advance lets time do what is due at now: end delays and visibility timeouts, expire messages.
func (q *queue) advance(now int64) {
	for {
		m, due := q.timers.min()
		if m == nil || due > now {
			break
		}
		if m.enqueued+int64(q.retention) <= now {
			q.drop(m)
			q.flow.expired++
			q.server.journal.dropped(q, m)
		} else {
			q.release(m)
		}
	}
	q.dedup.expire(now)
	q.attempts.expire(now)
}

// hide begins or changes an in-flight period that ends at deadline.
func (q *queue) hide(m *message, deadline int64) {
	q.leave(m)
	m.state, m.deadline = stateInFlight, deadline
	q.enter(m)
}

// retime recomputes what depends on settings after they changed. A change of delay reaches waiting messages on FIFO
// queues only. Source: SQS developer guide, "Amazon SQS delay queues".
func (q *queue) retime() {
	for _, m := range q.messages {
		if q.fifo && m.state == stateDelayed {
			m.deadline = m.enqueued + int64(q.delay)
		}
		q.schedule(m)
	}
}

// untilDue returns how long from now until time changes this queue, and false if nothing is due.
func (q *queue) untilDue(now int64) (time.Duration, bool) {
	m, due := q.timers.min()
	if m == nil {
		return 0, false
	}
	return time.Duration(max(0, due-now)), true
}

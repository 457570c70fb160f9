package localsqs

import (
	"slices"
	"time"
)

// Facts about message move tasks. Source: SQS API reference, StartMessageMoveTask and ListMessageMoveTasks.
const (
	maxMoveRate   = 500 // messages per second, also what we use when the caller leaves the rate to us
	keptMoveTasks = 10
	moveInterval  = 20 * time.Millisecond // between two steps of a fast task
)

const (
	taskRunning   = "RUNNING"
	taskCompleted = "COMPLETED"
	taskCancelled = "CANCELLED"
	taskFailed    = "FAILED"
)

// moveTask moves the messages of a dead-letter queue back, or to another queue, as new messages. Guarded by Server.mu.
type moveTask struct {
	Handle      string
	Destination string // ARN, or empty for where each message came from
	Rate        int    // messages per second, 0 for the system's choice
	Started     int64  // unix nanoseconds
	ToMove      int
	Moved       int
	Status      string
	Failure     string
	timer       *time.Timer
}

func (t *moveTask) rate() int {
	if t.Rate == 0 {
		return maxMoveRate
	}
	return t.Rate
}

// due is how many messages the task may have moved by now.
func (t *moveTask) due(now int64) int {
	return 1 + int(float64(now-t.Started)/float64(time.Second)*float64(t.rate()))
}

func (t *moveTask) interval() time.Duration {
	return max(moveInterval, time.Second/time.Duration(t.rate()))
}

// launch lets the task's timer run until it has ended.
func (q *queue) launch(t *moveTask) {
	t.timer = time.AfterFunc(0, func() { q.step(t) })
}

// step moves what is due and ends the task when nothing is left to receive.
func (q *queue) step(t *moveTask) {
	s := q.server
	defer func() { _ = s.persist() }() // a failure reaches the next caller
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || t.Status != taskRunning {
		return
	}
	now := s.now()
	q.advance(now)
	for t.Status == taskRunning && t.Moved < t.due(now) {
		q.moveOne(t, now)
	}
	s.journal.taskChanged(q, t)
	s.serve(now, q)
	if t.Status == taskRunning {
		t.timer.Reset(t.interval())
	}
}

// moveOne moves the first message. What arrives is a new message: new id, new times, no receives.
// Source: SQS developer guide, "Learn how to configure a dead-letter queue redrive".
func (q *queue) moveOne(t *moveTask, now int64) {
	g, _ := q.runnable.min()
	if g == nil {
		t.Status = taskCompleted
		return
	}
	m, _ := g.ready.min()
	arn := t.Destination
	if arn == "" {
		arn = m.dlqFrom
	}
	dest := q.server.byARN(arn)
	switch {
	case arn == "":
		t.Status, t.Failure = taskFailed, "CouldNotDetermineMessageSource"
	case dest == nil:
		t.Status, t.Failure = taskFailed, legacyPrefix+"NonExistentQueue"
	}
	if t.Status != taskRunning {
		return
	}
	moved := &message{
		id: newUUID(), bodyMD5: m.bodyMD5, body: m.body, attrs: m.attrs, trace: m.trace, group: m.group, dedupID: m.dedupID,
		sent: now, enqueued: now, state: stateReady,
	}
	q.drop(m)
	q.server.journal.dropped(q, m)
	dest.enqueue(moved)
	q.server.touch(dest)
	t.Moved++
}

func (q *queue) keepTask(t *moveTask) {
	q.tasks = append(q.tasks, t)
	if len(q.tasks) > keptMoveTasks {
		q.tasks = q.tasks[1:]
	}
}

// stopTasks ends the timers of running tasks.
func (q *queue) stopTasks() {
	for _, t := range q.tasks {
		if t.timer != nil {
			t.timer.Stop()
		}
	}
}

func (q *queue) runningTask() *moveTask {
	i := slices.IndexFunc(q.tasks, func(t *moveTask) bool { return t.Status == taskRunning })
	if i < 0 {
		return nil
	}
	return q.tasks[i]
}

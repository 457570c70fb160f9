// Package protect keeps Amazon ECS from scaling in a task, or replacing it in a deployment, while it works.
//
// One Task serves all pools of a process. It turns protection on as the first message is about to start and off once nothing has run
// for a while; a message never waits longer than a few seconds for it, and starts all the same when the agent does not answer. It
// does not protect from spot interruptions, health checks or a stop by hand. A stopping process makes no calls.
package protect

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/stagefleet/stagefleet/pkg/internal/change"
)

// State is where the protection of the task stands.
type State string

// The states.
const (
	Off       State = "off"       // not protected, and nothing runs
	Protected State = "protected" // confirmed by ECS
	Refused   State = "refused"   // ECS said no: finish what runs, receive nothing, ask again
	Failing   State = "failing"   // no usable answer: work goes on unprotected, asked again with growing pauses
	Absent    State = "absent"    // no agent, or a task that nothing scales in
)

// Reasons for which nothing should be received.
const (
	ReasonRefused = "protection_refused"
	ReasonLong    = "protection_too_long"
)

// Pauses after an answer that was no answer.
const (
	firstPause   = 5 * time.Second
	slowestPause = time.Minute
)

// Task is the one state machine of a task's protection. Make it with New and start Run. Its methods may be called concurrently.
type Task struct {
	cfg     Config
	wake    chan struct{}
	changed change.Signal // to pools: Admit may answer differently
	asked   change.Signal // to messages about to start: a call has ended
	calls   *prometheus.CounterVec

	mu        sync.Mutex
	state     State
	busy      int       // messages between Enter and Leave
	idle      time.Time // since when busy is 0
	since     time.Time // of protection without a break; zero: none
	confirmed time.Time // the last time that it was granted, before the call; zero: never
	askAt     time.Time // while refused: when to ask again
	retryAt   time.Time // no call before this, because the last got no usable answer
	pause     time.Duration
	releasing bool // a call that gives protection up is under way
	answers   int  // calls for protection that have ended, one way or the other
}

// New makes a Task that is not protected.
func New(cfg Config) (*Task, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configure protection: %w", err)
	}
	t := &Task{cfg: cfg.withDefaults(), wake: make(chan struct{}, 1), state: Off}
	if cfg.Endpoint == "" {
		t.state = Absent
	}
	return t, t.register()
}

// Run makes the calls, one at a time, until ctx ends. Protection is then left to expire or to end with the task.
func (t *Task) Run(ctx context.Context) error {
	for {
		now := time.Now()
		on, at, owed := t.begin(now)
		if owed && !at.After(now) {
			err := t.put(ctx, on)
			if ctx.Err() != nil {
				return nil //nolint:nilerr // the end of ctx is how Run is asked to end; what it cut off is no failure
			}
			t.took(on, err, now)
			continue
		}
		if !t.sleep(ctx, owed, at.Sub(now)) {
			return nil
		}
	}
}

// sleep waits until something changed, or for d if there is a call to make then; false: ctx has ended.
func (t *Task) sleep(ctx context.Context, bounded bool, d time.Duration) bool {
	var due <-chan time.Time
	if bounded {
		timer := time.NewTimer(d)
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-due:
	case <-t.wake:
	case <-ctx.Done():
		return false
	}
	return true
}

// begin returns the next call and when it is due, and notes a release that is about to be made.
func (t *Task) begin(now time.Time) (on bool, at time.Time, owed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	on, at, owed = t.plan()
	if at.Before(t.retryAt) {
		at = t.retryAt
	}
	t.releasing = owed && !on && !at.After(now)
	return on, at, owed
}

// plan is the whole decision: which call is next, and when; none may be. It runs under mu.
func (t *Task) plan() (on bool, at time.Time, owed bool) {
	switch t.state {
	case Absent:
		return false, time.Time{}, false
	case Refused:
		if t.busy == 0 && !t.since.IsZero() { // what an earlier grant left may go: nothing runs, and nothing is received
			return false, t.idle, true
		}
		return true, t.askAt, true
	case Protected:
		renew := t.confirmed.Add(t.cfg.Expiry / 2)
		if release := t.release(); t.busy == 0 && !renew.Before(release) {
			return false, release, true
		}
		return true, renew, true
	default:
		return true, t.retryAt, t.busy > 0
	}
}

// release is when protection is given up if nothing runs until then. It runs under mu.
func (t *Task) release() time.Time {
	if t.tooLong(t.idle) {
		return t.idle
	}
	if t.since.After(t.idle) { // granted at last, to a task that has nothing to do any more
		return t.since.Add(t.cfg.Hold)
	}
	return t.idle.Add(t.cfg.Hold)
}

func (t *Task) tooLong(now time.Time) bool {
	return t.cfg.Longest > 0 && !t.since.IsZero() && now.Sub(t.since) >= t.cfg.Longest
}

// took takes in the answer to a call that was begun at the given time.
func (t *Task) took(on bool, err error, began time.Time) {
	t.mu.Lock()
	before := t.state
	t.releasing = false
	no, refused := errors.AsType[*refusal](err)
	switch {
	case refused && no.reason == notAService:
		t.state = Absent
	case refused && on:
		t.state, t.askAt = Refused, time.Now().Add(t.cfg.Ask)
	case err != nil:
		t.failed(began)
	case on:
		t.granted(began)
	default:
		t.released()
	}
	if on {
		t.answers++
	}
	after := t.state
	t.mu.Unlock()
	t.calls.WithLabelValues(callResult(err)).Inc()
	t.asked.Fire()
	if before != after || err != nil {
		t.changed.Fire()
		t.cfg.Log.Info("task protection", zap.String("was", string(before)), zap.String("is", string(after)), zap.Error(err))
	}
}

// granted runs under mu.
func (t *Task) granted(began time.Time) {
	if t.since.IsZero() {
		t.since = began
	}
	t.state, t.confirmed, t.pause, t.retryAt = Protected, began, 0, time.Time{}
}

// released runs under mu. A task that was refused stays so, and asks again later.
func (t *Task) released() {
	t.since, t.confirmed, t.pause, t.retryAt = time.Time{}, time.Time{}, 0, time.Time{}
	if t.state == Refused {
		t.askAt = time.Now().Add(t.cfg.Ask)
		return
	}
	t.state = Off
}

// failed runs under mu. What was granted before lasts until it expires.
func (t *Task) failed(began time.Time) {
	t.pause = min(max(2*t.pause, firstPause), slowestPause)
	t.retryAt = time.Now().Add(t.pause)
	over := t.confirmed.IsZero() || began.Sub(t.confirmed) >= t.cfg.Expiry
	if over {
		t.since = time.Time{}
	}
	switch {
	case t.state == Refused:
		t.askAt = time.Now().Add(t.cfg.Ask)
	case over:
		t.state = Failing
	}
}

package protect

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Enter says that a message is about to start. The first one waits for protection, as do those that come while it is asked for; none
// waits longer than Config.Budget, and none needs to know the answer.
func (t *Task) Enter(ctx context.Context) {
	t.mu.Lock()
	t.busy++
	before := t.answers
	t.mu.Unlock()
	t.poke()
	if !t.worthWaiting(before) {
		return
	}
	budget := time.NewTimer(t.cfg.Budget)
	defer budget.Stop()
	for {
		asked := t.asked.Next()
		if !t.worthWaiting(before) {
			return
		}
		select {
		case <-asked:
		case <-budget.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// worthWaiting: the task is not protected, and since then no call for that has ended although one is due or under way.
func (t *Task) worthWaiting(before int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch t.state {
	case Absent, Refused:
		return false
	case Protected:
		return t.releasing
	default:
		return t.answers == before && !time.Now().Before(t.retryAt)
	}
}

// Leave says that the message of one Enter has been settled, whatever became of it.
func (t *Task) Leave() {
	t.mu.Lock()
	t.busy--
	if t.busy == 0 {
		t.idle = time.Now()
	}
	t.mu.Unlock()
	t.poke()
}

func (t *Task) poke() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// Changed returns a channel that is closed when Admit may answer differently. With Admit it makes the task a gate of a pool.
func (t *Task) Changed() <-chan struct{} { return t.changed.Next() }

// Admit lets nothing through once ECS refused protection, until it grants it, nor after protection without a break for
// Config.Longest, until it was given up once: a task that is always protected cannot be deployed over.
func (t *Task) Admit(want int) (n int, done func(), reason string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.state == Refused:
		return 0, nil, ReasonRefused
	case t.tooLong(time.Now()):
		return 0, nil, ReasonLong
	}
	return want, nil, ""
}

// State returns where the protection stands.
func (t *Task) State() State {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state
}

func (t *Task) register() error {
	var labels prometheus.Labels
	if t.cfg.Name != "" {
		labels = prometheus.Labels{"task": t.cfg.Name}
	}
	t.calls = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "stagefleet_protection_calls_total", Help: "Calls to the task protection endpoint, by result.", ConstLabels: labels,
	}, []string{"result"})
	for _, result := range []string{resultOK, resultRefused, resultFailed} { // growth is seen only from a value that was there before
		t.calls.WithLabelValues(result)
	}
	if t.cfg.Metrics == nil {
		return nil
	}
	state := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "stagefleet_protection_protected", Help: "1 while ECS has confirmed the protection of this task.", ConstLabels: labels,
	}, func() float64 {
		if t.State() == Protected {
			return 1
		}
		return 0
	})
	since := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "stagefleet_protection_age_seconds", Help: "How long this task has been protected without a break.", ConstLabels: labels,
	}, t.age)
	for _, c := range []prometheus.Collector{t.calls, state, since} {
		if err := t.cfg.Metrics.Register(c); err != nil {
			return err
		}
	}
	return nil
}

func (t *Task) age() float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.since.IsZero() {
		return 0
	}
	return time.Since(t.since).Seconds()
}

// The results of a call, as its metric has them.
const (
	resultOK      = "ok"
	resultRefused = "refused"
	resultFailed  = "failed"
)

func callResult(err error) string {
	_, refused := errors.AsType[*refusal](err)
	switch {
	case err == nil:
		return resultOK
	case refused:
		return resultRefused
	default:
		return resultFailed
	}
}

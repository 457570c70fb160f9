package admin

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/stage"
)

// server is the name under which the server's own alarms are kept beside the stages'.
const server = "server"

// watch is what was seen of the fleet lately, and which alarms ring.
type watch struct {
	mu      sync.Mutex
	samples map[string][]stage.Sample
	firing  map[string][]string
	counted map[string]counted // by worker
	last    sighting
}

// sighting is all that one look has found.
type sighting struct {
	at      time.Time
	stages  []Stage
	workers []job.WorkerStatus
	dead    map[string]time.Duration // since the first death that waits for a person
	lag     time.Duration            // of the outbox
}

// counted is what a worker had counted when it was last seen.
type counted struct {
	signals map[string]float64
	at      time.Time
}

// forget is how long a worker that says nothing may come back, and what it counts is still its growth.
const forget = time.Hour

// Watch looks at the fleet every so often until ctx ends, so that Stages can tell which alarms ring. What rings for a stage,
// or for "server", is told to changed whenever it differs from before. A look that fails is given to failed, and so is a queue
// that cannot be counted; the alarms stay as they were.
func (a *Admin) Watch(ctx context.Context, every time.Duration, changed func(of string, ring []string), failed func(error)) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if seen, err := a.sight(ctx); err == nil {
			for of, ring := range a.observe(seen) {
				changed(of, ring)
			}
			for _, s := range seen.stages {
				if s.Uncounted != "" {
					failed(fmt.Errorf("look at stage %s: %s", s.Name, s.Uncounted))
				}
			}
		} else if ctx.Err() == nil {
			failed(err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (a *Admin) sight(ctx context.Context) (seen sighting, err error) {
	seen.at = time.Now()
	if seen.stages, seen.workers, err = a.look(ctx); err != nil {
		return seen, err
	}
	if seen.dead, err = a.record.OldestDead(ctx); err != nil {
		return seen, err
	}
	seen.lag, err = a.record.OutboxLag(ctx)
	return seen, err
}

// observe adds one sample of each stage and of the server, forgets those that no rule looks back to, decides anew what
// rings, and returns what has changed.
func (a *Admin) observe(seen sighting) (changed map[string][]string) {
	a.watch.mu.Lock()
	defer a.watch.mu.Unlock()
	grown := a.watch.grown(seen)
	changed = map[string][]string{}
	note := func(of string, horizon time.Duration, values map[stage.Signal]float64, firing func([]stage.Sample) []string) {
		samples := slices.DeleteFunc(a.watch.samples[of], func(x stage.Sample) bool { return seen.at.Sub(x.At) >= horizon })
		samples = append(samples, stage.Sample{At: seen.at, Values: values})
		before, now := a.watch.firing[of], firing(samples)
		if !slices.Equal(before, now) {
			changed[of] = now
		}
		a.watch.samples[of], a.watch.firing[of] = samples, now
	}
	for i, s := range seen.stages {
		of := a.stages[i] // the same stages in the same order
		values := s.signals(of)
		values[stage.SignalDLQAge] = seen.dead[s.Name].Seconds()
		for signal, value := range grown[s.Name] {
			values[signal] = max(values[signal], value)
		}
		if values[stage.SignalFinished] == 0 && values[stage.SignalPaused] == 0 {
			values[stage.SignalStalled] = float64(s.Visible)
		}
		if s.Uncounted != "" {
			a.watch.asBefore(s.Name, values)
		}
		note(s.Name, of.Horizon(), values, of.Firing)
	}
	note(server, stage.ServerHorizon(), map[stage.Signal]float64{stage.SignalOutbox: seen.lag.Seconds()}, stage.ServerFiring)
	a.watch.last = seen
	return changed
}

// asBefore takes what queues tell from the last sample of a stage: one that cannot be counted is not empty.
func (w *watch) asBefore(name string, values map[stage.Signal]float64) {
	var last map[stage.Signal]float64
	if samples := w.samples[name]; len(samples) > 0 {
		last = samples[len(samples)-1].Values
	}
	for _, signal := range []stage.Signal{stage.SignalDLQ, stage.SignalWaiting, stage.SignalStalled} {
		delete(values, signal)
		if value, known := last[signal]; known {
			values[signal] = value
		}
	}
}

// signals are what queues and record say of a stage.
func (s Stage) signals(of stage.Stage) map[stage.Signal]float64 {
	values := map[stage.Signal]float64{
		stage.SignalDLQ: float64(s.DLQ), stage.SignalWaiting: float64(s.Visible), stage.SignalAge: s.OldestAgeSeconds,
		stage.SignalMissing: float64(max(0, of.Profile.MinTasks-s.Workers)), stage.SignalPaused: 0, stage.SignalStalled: 0,
	}
	if s.Paused {
		values[stage.SignalPaused] = 1
	}
	return values
}

// grown is what the workers of each stage say: of states the worst, of counts what was added since the look before.
func (w *watch) grown(seen sighting) map[string]map[stage.Signal]float64 {
	all := map[string]map[stage.Signal]float64{}
	for _, worker := range seen.workers {
		of := all[worker.Stage]
		if of == nil {
			of = map[stage.Signal]float64{}
			all[worker.Stage] = of
		}
		before, known := w.counted[worker.ID]
		// What a worker counted before anybody looked is old; what one counted that began since is not.
		known = known || !w.last.at.IsZero() && worker.StartedAt.After(w.last.at)
		for signal, own := range stage.OwnMetrics {
			value, said := worker.Signals[string(signal)]
			switch {
			case said && !own.Counter:
				of[signal] = max(of[signal], value)
			case said && known:
				of[signal] += value - before.signals[string(signal)]
			}
		}
		w.counted[worker.ID] = counted{worker.Signals, seen.at}
	}
	for id, c := range w.counted {
		if seen.at.Sub(c.at) > forget {
			delete(w.counted, id)
		}
	}
	return all
}

// alarms returns those of a stage that ring.
func (a *Admin) alarms(name string) []string {
	a.watch.mu.Lock()
	defer a.watch.mu.Unlock()
	return append([]string{}, a.watch.firing[name]...)
}

var (
	messagesDesc = prometheus.NewDesc("stagefleet_stage_messages", "Messages of a stage, by state: visible, in_flight, delayed, dead.", []string{"stage", "state"}, nil)
	ageDesc      = prometheus.NewDesc("stagefleet_stage_oldest_age_seconds", "Age of the oldest step that could run and does not.", []string{"stage"}, nil)
	deadDesc     = prometheus.NewDesc("stagefleet_stage_dead_age_seconds", "How long the first of the dead steps has waited for a person; 0 without any.", []string{"stage"}, nil)
	workersDesc  = prometheus.NewDesc("stagefleet_stage_workers", "Workers that have reported lately.", []string{"stage"}, nil)
	firingDesc   = prometheus.NewDesc("stagefleet_stage_alarms_firing", "Alarms of the stage, or of the server, that ring by the server's own evaluation.", []string{"stage"}, nil)
)

// Describe implements prometheus.Collector.
func (a *Admin) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{messagesDesc, ageDesc, deadDesc, workersDesc, firingDesc} {
		to <- d
	}
}

// Collect implements prometheus.Collector with what Watch saw last: a scrape asks no queue.
func (a *Admin) Collect(to chan<- prometheus.Metric) {
	a.watch.mu.Lock()
	defer a.watch.mu.Unlock()
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	for _, s := range a.watch.last.stages {
		if s.Uncounted == "" {
			gauge(messagesDesc, float64(s.Visible), s.Name, "visible")
			gauge(messagesDesc, float64(s.InFlight), s.Name, "in_flight")
			gauge(messagesDesc, float64(s.Delayed), s.Name, "delayed")
			gauge(messagesDesc, float64(s.DLQ), s.Name, "dead")
		}
		gauge(ageDesc, s.OldestAgeSeconds, s.Name)
		gauge(deadDesc, a.watch.last.dead[s.Name].Seconds(), s.Name)
		gauge(workersDesc, float64(s.Workers), s.Name)
	}
	for of, ring := range a.watch.firing {
		gauge(firingDesc, float64(len(ring)), of)
	}
}

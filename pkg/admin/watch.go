package admin

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/stage"
)

// watch is what was seen of the stages lately, and which of their alarms ring. Queues and record say depth, age, breakers,
// refused protection, missing workers and pauses; of lost leases, stuck handlers and quarantines only CloudWatch and
// Prometheus learn, from the workers' own metrics.
type watch struct {
	mu      sync.Mutex
	samples map[string][]stage.Sample
	firing  map[string][]string
	last    []Stage
}

// Watch looks at the stages every so often until ctx ends, so that Stages can tell which alarms ring. A look that fails is
// given to failed; the alarms stay as they were.
func (a *Admin) Watch(ctx context.Context, every time.Duration, failed func(error)) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if list, err := a.look(ctx); err == nil {
			a.observe(time.Now(), list)
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

// observe adds one sample of each stage, forgets those that no rule looks back to, and decides anew what rings.
func (a *Admin) observe(now time.Time, list []Stage) {
	a.watch.mu.Lock()
	defer a.watch.mu.Unlock()
	for i, seen := range list {
		s := a.stages[i] // the same stages in the same order
		horizon := now.Add(-s.Horizon())
		samples := slices.DeleteFunc(a.watch.samples[s.Name], func(x stage.Sample) bool { return x.At.Before(horizon) })
		samples = append(samples, seen.sample(now, s))
		a.watch.samples[s.Name], a.watch.firing[s.Name] = samples, s.Firing(samples)
	}
	a.watch.last = list
}

func (s Stage) sample(now time.Time, of stage.Stage) stage.Sample {
	values := map[stage.Signal]float64{
		stage.SignalDLQ: float64(s.DLQ), stage.SignalWaiting: float64(s.Visible), stage.SignalAge: s.OldestAgeSeconds,
		stage.SignalBreaker: float64(severity[s.Breaker]), stage.SignalRefused: refusals * float64(s.refused),
		stage.SignalMissing: float64(max(0, of.Profile.MinTasks-s.Workers)), stage.SignalPaused: 0, stage.SignalStalled: 0,
	}
	if s.Paused {
		values[stage.SignalPaused] = 1
	}
	if s.Busy == 0 { // nobody works on what waits
		values[stage.SignalStalled] = float64(s.Visible)
	}
	return stage.Sample{At: now, Values: values}
}

// alarms returns those of a stage that ring.
func (a *Admin) alarms(name string) []string {
	a.watch.mu.Lock()
	defer a.watch.mu.Unlock()
	return append([]string{}, a.watch.firing[name]...)
}

// refusals is how often a worker that is refused protection asks within the alarm's period: once a minute.
const refusals = 5

func (s *Stage) addRefusal(w job.WorkerStatus) {
	if w.Protection == "refused" {
		s.refused++
	}
}

var (
	messagesDesc = prometheus.NewDesc("stagefleet_stage_messages", "Messages of a stage, by state: visible, in_flight, delayed, dead.", []string{"stage", "state"}, nil)
	ageDesc      = prometheus.NewDesc("stagefleet_stage_oldest_age_seconds", "Age of the oldest step that could run and does not.", []string{"stage"}, nil)
	workersDesc  = prometheus.NewDesc("stagefleet_stage_workers", "Workers that have reported lately.", []string{"stage"}, nil)
	firingDesc   = prometheus.NewDesc("stagefleet_stage_alarms_firing", "Alarms of the stage that ring, by those that this server evaluates.", []string{"stage"}, nil)
)

// Describe implements prometheus.Collector.
func (a *Admin) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{messagesDesc, ageDesc, workersDesc, firingDesc} {
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
	for _, s := range a.watch.last {
		gauge(messagesDesc, float64(s.Visible), s.Name, "visible")
		gauge(messagesDesc, float64(s.InFlight), s.Name, "in_flight")
		gauge(messagesDesc, float64(s.Delayed), s.Name, "delayed")
		gauge(messagesDesc, float64(s.DLQ), s.Name, "dead")
		gauge(ageDesc, s.OldestAgeSeconds, s.Name)
		gauge(workersDesc, float64(s.Workers), s.Name)
		gauge(firingDesc, float64(len(a.watch.firing[s.Name])), s.Name)
	}
}

package pool

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagefleet/stagefleet/pkg/outcome"
)

// metrics counts what a pool does. Every label value comes from a fixed vocabulary of this package, of package outcome or of a gate.
type metrics struct {
	receives   *prometheus.CounterVec // by result: full, partial, empty, error
	messages   prometheus.Counter
	ends       *prometheus.CounterVec // by kind of package outcome
	notStarted *prometheus.CounterVec // by reason
	seconds    prometheus.Histogram
	calls      *prometheus.CounterVec // to SQS and the record, receives apart
	settled    *prometheus.CounterVec // by action
	beats      *prometheus.CounterVec // by what was renewed, and result
	beatLate   prometheus.Histogram
	failures   *prometheus.CounterVec // settlements that failed, by action and reason
	duplicates prometheus.Counter
	stuck      prometheus.Counter

	full, partial, empty, failed prometheus.Counter
	done                         prometheus.Counter
	deletes, hides, deadLetters  prometheus.Counter
	deleted, hidden              prometheus.Counter
}

func newMetrics(p *Pool) (*metrics, error) {
	labels := prometheus.Labels{"pool": p.cfg.Name}
	var all []prometheus.Collector
	vec := func(name, help string, by ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "stagefleet", Subsystem: "pool", Name: name, Help: help, ConstLabels: labels}, by)
		all = append(all, v)
		return v
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "stagefleet", Subsystem: "pool", Name: name, Help: help, ConstLabels: labels, Buckets: buckets})
		all = append(all, h)
		return h
	}
	m := &metrics{
		receives:   vec("receives_total", "Receive calls, by result.", "result"),
		messages:   vec("messages_total", "Messages received.").WithLabelValues(),
		ends:       vec("ends_total", "Handlers that returned, by kind of end.", "end"),
		notStarted: vec("not_started_total", "Messages received and given back without a start, by reason.", "reason"),
		seconds:    histogram("handler_seconds", "Time that handlers took.", prometheus.ExponentialBuckets(0.001, 4, 12)),
		calls:      vec("settle_calls_total", "Calls that settle messages, by action.", "action"),
		settled:    vec("settled_total", "Messages settled, as the queue confirmed, by action.", "action"),
		beats:      vec("beats_total", "Calls that renew messages, by what they renew and result.", "of", "result"),
		beatLate:   histogram("beat_late_seconds", "How late renewals began.", prometheus.ExponentialBuckets(0.01, 4, 8)),
		failures:   vec("settle_failures_total", "Messages whose settlement failed, by action and reason.", "action", "reason"),
		duplicates: vec("duplicate_receives_total", "Messages received while already held.").WithLabelValues(),
		stuck:      vec("stuck_total", "Handlers that did not return after the end of their context.").WithLabelValues(),
	}
	m.full, m.partial = m.receives.WithLabelValues("full"), m.receives.WithLabelValues("partial")
	m.empty, m.failed = m.receives.WithLabelValues("empty"), m.receives.WithLabelValues("error")
	m.deletes, m.hides = m.calls.WithLabelValues(string(Delete)), m.calls.WithLabelValues(string(Hide))
	m.deadLetters = m.calls.WithLabelValues(string(DeadLetter))
	m.deleted, m.hidden = m.settled.WithLabelValues(string(Delete)), m.settled.WithLabelValues(string(Hide))
	m.done = m.ends.WithLabelValues(string(outcome.KindDone))
	for _, kind := range outcome.Kinds() { // growth is seen only from a value that was there before, so the first loss counts too
		m.ends.WithLabelValues(string(kind))
	}
	return m, register(p.cfg.Metrics, append(all, gauges(p, labels)...))
}

// gauges read the status when they are asked.
func gauges(p *Pool, labels prometheus.Labels) (all []prometheus.Collector) {
	gauge := func(name, help string, value func(Status) float64) {
		all = append(all, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "stagefleet", Subsystem: "pool", Name: name, Help: help, ConstLabels: labels},
			func() float64 { return value(p.Status()) }))
	}
	gauge("slots", "Handlers that may run at once.", func(s Status) float64 { return float64(s.Slots) })
	gauge("running", "Handlers that run.", func(s Status) float64 { return float64(s.Running) })
	gauge("held", "Messages that are kept hidden.", func(s Status) float64 { return float64(s.Held) })
	gauge("stuck", "Handlers that are stuck now.", func(s Status) float64 { return float64(s.Stuck) })
	gauge("receiving", "1 while a receive is under way or allowed.", func(s Status) float64 {
		if s.Reason != "" || s.LastReceive.IsZero() {
			return 0
		}
		return 1
	})
	gauge("last_receive_timestamp_seconds", "When a receive last succeeded; 0 before the start.", func(s Status) float64 {
		if s.LastReceive.IsZero() {
			return 0
		}
		return float64(s.LastReceive.UnixMilli()) / 1000
	})
	return all
}

func register(r prometheus.Registerer, all []prometheus.Collector) error {
	if r == nil {
		return nil
	}
	var errs []error
	for _, c := range all {
		errs = append(errs, r.Register(c))
	}
	return errors.Join(errs...)
}

func (m *metrics) received(asked, got int, err error) {
	m.messages.Add(float64(got))
	switch {
	case err != nil:
		m.failed.Inc()
	case got == 0:
		m.empty.Inc()
	case got < asked:
		m.partial.Inc()
	default:
		m.full.Inc()
	}
}

func (m *metrics) ended(kind outcome.Kind, took time.Duration) {
	m.seconds.Observe(took.Seconds())
	if kind == outcome.KindDone {
		m.done.Inc()
		return
	}
	m.ends.WithLabelValues(string(kind)).Inc()
}

func (m *metrics) beat(of string, err error) {
	result := "ok"
	if err != nil {
		result = "error"
	}
	m.beats.WithLabelValues(of, result).Inc()
}

func (m *metrics) settleFailed(action Action, gone bool, err error) {
	reason := "service"
	switch {
	case gone:
		reason = "receipt_gone"
	case err != nil:
		reason = "call"
	}
	m.failures.WithLabelValues(string(action), reason).Inc()
}

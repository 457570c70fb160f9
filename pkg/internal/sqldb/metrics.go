package sqldb

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics tell whether the database holds the fleet up. Labels are names in the program's text.
type metrics struct {
	beginWait prometheus.Histogram
	duration  *prometheus.HistogramVec
	retries   *prometheus.CounterVec
}

type poolStats struct{ max, busy int }

var buckets = []float64{.0005, .001, .002, .005, .01, .025, .05, .1, .25, .5, 1, 5}

func newMetrics() *metrics {
	return &metrics{
		beginWait: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "fleet_db_begin_wait_seconds", Buckets: buckets,
			Help: "Wait for a connection and, on SQLite, for the write lock.",
		}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "fleet_db_transaction_seconds", Buckets: buckets,
			Help: "Time between begin and end of a transaction, waits for row locks included.",
		}, []string{"name", "end"}),
		retries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fleet_db_retries_total",
			Help: "Transactions run again after a transient fault.",
		}, []string{"name"}),
	}
}

func (m *metrics) observe(name string, d time.Duration, err error) {
	end := "commit"
	if err != nil {
		end = "rollback"
	}
	m.duration.WithLabelValues(name, end).Observe(d.Seconds())
}

func (m *metrics) register(r prometheus.Registerer, stats func() poolStats) error {
	return errors.Join(
		r.Register(m.beginWait), r.Register(m.duration), r.Register(m.retries),
		r.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "fleet_db_connections_busy", Help: "Connections in use by this process.",
		}, func() float64 { return float64(stats().busy) })),
		r.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "fleet_db_connections_max", Help: "Connections that this process may use.",
		}, func() float64 { return float64(stats().max) })),
	)
}

// lockTime bounds one look at the locks.
const lockTime = 2 * time.Second

// locks tells who waits for locks of a Postgres database, of all processes, at the moment of the scrape. Each process tells the same.
// Shorter waits than between two scrapes are in fleet_db_transaction_seconds. On SQLite only writers wait, for each other:
// fleet_db_begin_wait_seconds.
type locks struct {
	look             func(context.Context) (waiting int64, longest float64, err error)
	waiting, longest *prometheus.Desc
}

func newLocks(look func(context.Context) (int64, float64, error)) *locks {
	return &locks{
		look: look,
		waiting: prometheus.NewDesc("fleet_db_lock_waiting",
			"Sessions of this database that wait for a lock now, of any process. Absent when the database does not say.", nil, nil),
		longest: prometheus.NewDesc("fleet_db_lock_wait_longest_seconds",
			"How long the longest of these waits has lasted; 0 when nobody waits.", nil, nil),
	}
}

func (l *locks) Describe(to chan<- *prometheus.Desc) { to <- l.waiting; to <- l.longest }

func (l *locks) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), lockTime)
	defer cancel()
	waiting, longest, err := l.look(ctx)
	if err != nil {
		return // a zero would say that all is well
	}
	to <- prometheus.MustNewConstMetric(l.waiting, prometheus.GaugeValue, float64(waiting))
	to <- prometheus.MustNewConstMetric(l.longest, prometheus.GaugeValue, longest)
}

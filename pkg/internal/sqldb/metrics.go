package sqldb

import (
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

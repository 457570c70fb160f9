package fleet

import (
	"context"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagefleet/stagefleet/pkg/job"
)

// localWatch finds a dead letter soon and costs an idle fleet little.
const localWatch = 15 * time.Second

// lagBudget bounds the question that a scrape asks the record.
const lagBudget = 2 * time.Second

// LagGauge measures the outbox when it is asked. What cannot be measured is not a number, rather than zero.
func LagGauge(ctx context.Context, record *job.Store) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "fleet_job_outbox_lag_seconds", Help: "By how much the oldest message that the record owes a queue is late.",
	}, func() float64 {
		ctx, cancel := context.WithTimeout(ctx, lagBudget)
		defer cancel()
		lag, err := record.OutboxLag(ctx)
		if err != nil {
			return math.NaN()
		}
		return lag.Seconds()
	})
}

// SilentGauge asks the record whether it answers. An outbox that cannot be measured has no lag that anybody could be told of.
func SilentGauge(ctx context.Context, record *job.Store) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "fleet_record_silent", Help: "1 while the record does not answer.",
	}, func() float64 {
		ctx, cancel := context.WithTimeout(ctx, lagBudget)
		defer cancel()
		if record.Ping(ctx) != nil {
			return 1
		}
		return 0
	})
}

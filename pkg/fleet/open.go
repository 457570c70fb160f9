package fleet

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagefleet/stagefleet/pkg/job"
)

var openDesc = prometheus.NewDesc("fleet_jobs", "Jobs that have not ended, by state.", []string{"state"}, nil)

// openGauge counts the open jobs when it is asked, with one question. What cannot be counted is absent, rather than zero.
type openGauge struct {
	ctx    context.Context
	record *job.Store
}

func (g openGauge) Describe(to chan<- *prometheus.Desc) { to <- openDesc }

func (g openGauge) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(g.ctx, lagBudget)
	defer cancel()
	counts, err := g.record.OpenJobs(ctx)
	if err != nil {
		return
	}
	for state, n := range counts {
		to <- prometheus.MustNewConstMetric(openDesc, prometheus.GaugeValue, float64(n), string(state))
	}
}

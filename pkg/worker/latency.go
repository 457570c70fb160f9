package worker

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagefleet/stagefleet/pkg/provider"
)

// newLatency is the histogram of providers' answers: of a tenth of a second to an hour and a half.
func newLatency() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "fleet_provider_seconds", Help: "From a call of a provider to its answer or failure, by kind (speech, vision, language) and result (ok, failed).",
		Buckets: prometheus.ExponentialBuckets(0.1, 3, 11),
	}, []string{"provider", "result"})
}

// answered notes the end of a call. A provider that declines has answered.
func (s *service) answered(kind string, took time.Duration, err error) {
	result := "ok"
	if err != nil && !errors.Is(err, provider.ErrDeclined) {
		result = "failed"
	}
	s.latency.WithLabelValues(kind, result).Observe(took.Seconds())
}

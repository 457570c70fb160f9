package fleet

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagefleet/stagefleet/pkg/internal/telemetry"
	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/stage"
)

// TestARecordThatDoesNotAnswerIsSaidAlthoughItsLagCannotBe: silence about the lag is taken for health.
func TestARecordThatDoesNotAnswerIsSaidAlthoughItsLagCannotBe(t *testing.T) {
	record, err := job.Open(t.Context(), "sqlite:"+t.TempDir()+"/fleet.db", job.Options{Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	r := prometheus.NewRegistry()
	r.MustRegister(LagGauge(t.Context(), record), SilentGauge(t.Context(), record))
	signals := func() map[stage.Signal]float64 {
		t.Helper()
		values, err := telemetry.Signals(r, true)
		if err != nil {
			t.Fatal(err)
		}
		return values
	}
	if got := signals(); got[stage.SignalRecord] != 0 || len(got) != 2 {
		t.Errorf("while it answers: %v", got)
	}
	if err := record.Close(); err != nil {
		t.Fatal(err)
	}
	got := signals()
	if _, measured := got[stage.SignalOutbox]; measured || got[stage.SignalRecord] != 1 {
		t.Errorf("when it does not: %v", got)
	}
}

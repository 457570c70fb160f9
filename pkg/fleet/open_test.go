package fleet

import (
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagefleet/stagefleet/pkg/job"
)

func TestOpenJobsAreShownByStateAndNotAtAllWhenTheRecordDoesNotAnswer(t *testing.T) {
	record, err := job.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "record.db"), job.Options{Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := record.Submit(t.Context(), job.Submission{Tenant: "acme", Target: "talk", Digest: "d", Input: []byte("{}"), First: job.Route{Stage: "ingest", Queue: "q", DLQ: "d"}}); err != nil {
		t.Fatal(err)
	}
	r := prometheus.NewRegistry()
	r.MustRegister(openGauge{t.Context(), record})
	families, err := r.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "fleet_jobs" || len(families[0].GetMetric()) != 6 {
		t.Fatalf("%v, %v", families, err)
	}
	for _, m := range families[0].GetMetric() {
		want := map[string]float64{"queued": 1}[m.GetLabel()[0].GetValue()]
		if got := m.GetGauge().GetValue(); got != want {
			t.Errorf("%s = %v, want %v", m.GetLabel()[0].GetValue(), got, want)
		}
	}
	_ = record.Close()
	if families, err := r.Gather(); err != nil || len(families) != 0 {
		t.Errorf("without a record: %v, %v", families, err)
	}
}

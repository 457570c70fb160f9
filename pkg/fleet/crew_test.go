package fleet

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/internal/localecs"
	"github.com/stagefleet/stagefleet/pkg/job"
)

func TestAKilledWorkerDoesNotCountBesideItsReplacement(t *testing.T) {
	record, err := job.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "fleet.db"), job.Options{Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = record.Close() })
	for id, stage := range map[string]string{"clip-host-12": "clip", "clip-host-345": "clip", "clip-host-45": "clip", "ingest-host-7": "ingest"} {
		if err := record.ReportWorker(t.Context(), job.WorkerStatus{ID: id, Stage: stage}); err != nil {
			t.Fatal(err)
		}
	}
	running := func() []localecs.Task { return []localecs.Task{{Service: "clip", PID: 45}, {Service: "clip", PID: 7}} }
	got, err := crew{record, running}.Workers(t.Context(), time.Minute)
	if err != nil || len(got) != 1 || got[0].ID != "clip-host-45" {
		t.Errorf("workers = %+v, %v", got, err)
	}
}

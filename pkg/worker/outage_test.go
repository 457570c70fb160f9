package worker_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/blob"
	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/outcome"
	"github.com/stagefleet/stagefleet/pkg/provider"
	"github.com/stagefleet/stagefleet/pkg/worker"
)

func TestAnExpiredKeyCostsAFewJobsAndNotTheWholeQueue(t *testing.T) {
	s := newScene(t)
	settings, err := s.stages.Settings("test", "cut")
	if err != nil {
		t.Fatal(err)
	}
	settings.Stage.Profile.Slots, settings.Stage.Breaker.MinSamples = 1, 3
	objects, err := blob.Open(t.Context(), "file://"+filepath.Join(s.folder, "objects"))
	if err != nil {
		t.Fatal(err)
	}
	expired := worker.Func[string, string](func(ctx context.Context, t worker.Task[string]) (string, error) {
		return "", t.Provider(ctx, func(context.Context) error {
			return outcome.Quarantine(provider.ReasonCredentials, &provider.Failure{Provider: "speech", Status: http.StatusUnauthorized})
		})
	})
	program := worker.Define("cut", func(worker.Deps) (worker.Handler[string, string], error) { return expired, nil })
	first, err := s.stages.First("test")
	if err != nil {
		t.Fatal(err)
	}
	jobs := map[string]string{} // by tenant: each may have one under way
	for i := range 8 {
		tenant := fmt.Sprint("tenant", i)
		j, err := s.record.Submit(t.Context(), job.Submission{Tenant: tenant, Target: "talk", Digest: strings.Repeat("0", 64), Input: []byte(`"x"`), First: job.Route(first)})
		if err != nil {
			t.Fatal(err)
		}
		jobs[tenant] = j.ID
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := program.Serve(ctx, worker.Resources{Settings: settings, ID: "expired", Record: s.record, Objects: objects, Queue: s.queue})
		done <- err
	}()
	failed := func() (n int) {
		for tenant, id := range jobs {
			if j, err := s.record.Job(t.Context(), tenant, id); err == nil && j.State == job.Failed {
				n++
			}
		}
		return n
	}
	s.until("the circuit opens", func() bool {
		list, err := s.record.Workers(t.Context(), time.Minute)
		return failed() == len(jobs) || err == nil && len(list) == 1 && list[0].Breaker == "open"
	})
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n := failed(); n != 2 {
		t.Errorf("%d of %d jobs failed, want those before the circuit opened", n, len(jobs))
	}
}

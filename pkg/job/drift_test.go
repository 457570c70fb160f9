package job_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/stagefleet/stagefleet/pkg/job"
)

func TestCountsOfAnAccountThatHaveDriftedAreToldAndMended(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			metrics := prometheus.NewPedanticRegistry()
			f := newFixture(t, open(t, freshURL(t, kind), job.Options{Registerer: metrics}))
			for _, target := range []string{"a", "b", "c"} {
				sub := f.submission(target)
				sub.First.Window = 1
				f.submit(sub)
			}
			if err := f.s.MendAccounts(f.ctx); err != nil {
				t.Fatalf("nothing has drifted: %v", err)
			}
			if err := f.s.Change(f.ctx, "UPDATE account SET in_flight = 7, waiting = 0"); err != nil {
				t.Fatal(err)
			}
			err := f.s.MendAccounts(f.ctx)
			d, ok := errors.AsType[*job.Drift](err)
			if want := (job.Drift{Tenant: "acme", InFlight: 7, Waiting: 0, TrueInFlight: 3, TrueWaiting: 2}); !ok || *d != want {
				t.Fatalf("told %v, want %+v", err, want)
			}
			if err := f.s.MendAccounts(f.ctx); err != nil {
				t.Fatalf("mended twice: %v", err)
			}
			if n, err := testutil.GatherAndCount(metrics, "fleet_job_accounts_mended_total"); err != nil || n != 1 {
				t.Errorf("%d metrics, %v", n, err)
			}
			f.sound()
		})
	}
}

func TestMendingBesideLoadChangesNothingThatIsRight(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		stop := make(chan struct{})
		var all sync.WaitGroup
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := f.s.MendAccounts(f.ctx); err != nil {
					t.Error(err)
					return
				}
			}
		})
		for range 20 {
			j := f.submit(f.submission("talk"))
			if err := f.s.Cancel(f.ctx, "acme", j.ID, "test", ""); err != nil {
				t.Error(err)
			}
			f.queues.take("q-ingest") // garbage
			f.submit(f.submission("other"))
			f.run("ingest", "")
		}
		close(stop)
		all.Wait()
		f.sound()
	})
}

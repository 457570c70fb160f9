package job_test

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/stagefleet/stagefleet/pkg/job"
)

// fans submits jobs of one tenant and returns publications that fan each of them out through a window.
func (f *fixture) fans(jobs, parts int, window int64) []job.Publication {
	f.t.Helper()
	compile := route("compile")
	compile.Window = window
	all := make([]job.Publication, jobs)
	for i := range all {
		f.submit(f.submission(fmt.Sprint("talk-", i)))
		all[i] = job.Publication{Claim: f.claim("ingest"), FanOut: true, Next: &compile, Join: next("publish")}
		for range parts {
			all[i].Parts = append(all[i].Parts, json.RawMessage(`1`))
		}
	}
	return all
}

func (f *fixture) partsUnderWay() int64 {
	f.t.Helper()
	n, err := f.s.Int(f.ctx, "SELECT COUNT(*) FROM step WHERE phase = 1 AND part >= 0")
	if err != nil {
		f.t.Fatal(err)
	}
	return n
}

func TestFanOutsOfOneTenantAtTheSameMomentKeepToItsWindow(t *testing.T) {
	t.Parallel()
	const window = 4
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			url := freshURL(t, kind)
			f := newFixture(t, open(t, url, job.Options{}))
			servers := []*job.Store{f.s, open(t, url, job.Options{})} // as of two workers
			for round := range 20 {
				var all sync.WaitGroup
				for i, p := range f.fans(4, window, window) {
					all.Go(func() {
						if got, err := servers[i%2].Publish(f.ctx, p); err != nil || !got.Accepted {
							t.Errorf("publish: %+v, %v", got, err)
						}
					})
					if i == 2 { // the leader lets parts in meanwhile
						all.Go(func() {
							if err := f.s.Enter(f.ctx); err != nil {
								t.Error(err)
							}
						})
					}
				}
				all.Wait()
				if n := f.partsUnderWay(); n != window {
					t.Fatalf("round %d: %d parts have entered through a window of %d", round, n, window)
				}
				f.cancelAll()
			}
			f.sound()
		})
	}
}

// cancelAll ends every job of the fixture's tenant and forgets what was sent for it.
func (f *fixture) cancelAll() {
	f.t.Helper()
	page, _, err := f.s.Jobs(f.ctx, job.Filter{Tenant: "acme", Limit: 500})
	if err != nil {
		f.t.Fatal(err)
	}
	for _, j := range page {
		if !j.State.Ended() {
			if err := f.s.Cancel(f.ctx, "acme", j.ID, "test", ""); err != nil {
				f.t.Fatal(err)
			}
		}
	}
	f.pump(nil)
	f.queues.take("q-compile")
}

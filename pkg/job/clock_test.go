package job_test

import (
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/outcome"
)

// skewed returns the address of a database whose clock is off.
func skewed(t *testing.T, off string) string {
	t.Helper()
	url := freshURL(t, "postgres")
	s := open(t, url, job.Options{})
	if err := s.Change(t.Context(), `CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
		AS $$ SELECT pg_catalog.clock_timestamp() `+off+` $$`); err != nil {
		t.Fatal(err)
	}
	return url + "&search_path=public,pg_catalog"
}

var skews = []string{"+ interval '10 minutes'", "- interval '10 minutes'"}

// off fails a test whose clocks agree.
func (f *fixture) off(j job.Job) {
	f.t.Helper()
	if skew := time.Since(j.CreatedAt).Abs(); skew < 9*time.Minute {
		f.t.Fatalf("the database's clock is only %v off: this test proves nothing", skew)
	}
}

// The database's clock is moved instead of the worker's: only their difference counts.
func TestAWorkersClockMayBeTenMinutesOff(t *testing.T) {
	t.Parallel()
	for _, off := range skews {
		t.Run(off, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, open(t, skewed(t, off), job.Options{}))
			j := f.submit(f.submission("talk"))
			m := f.message("ingest")
			f.end(f.claimRow(m, "ingest"), errBoom)
			if no := f.refused(request(m, "ingest")); no.Reason != job.ReasonNotDue || no.After <= 0 || no.After > 30*time.Second {
				t.Fatalf("refusal %+v", no.Settle)
			}
			f.age(30 * time.Second)
			c := f.claimRow(m, "ingest")
			if no := f.refused(request(m, "ingest")); no.Reason != job.ReasonHeld || no.After > 61*time.Second || no.After < 50*time.Second {
				t.Fatalf("refusal %+v", no.Settle)
			}
			if errs, err := f.s.Renew(f.ctx, []job.Renewal{{Step: c.Step, Token: c.Token, Lease: time.Minute}}); err != nil || errs[0] != nil {
				t.Fatalf("renew: %v, %v", errs, err)
			}
			f.age(10 * time.Second)
			f.reconcile()
			f.accepted(job.Publication{Claim: c, Next: next("transcribe")})
			f.run("transcribe", "")
			end := f.state(j.ID, job.Completed)
			f.off(end)
			f.sound()
		})
	}
}

func TestWorkersWhoseClocksAreTenMinutesOffHealWhatOneOfThemLeaves(t *testing.T) {
	t.Parallel()
	for _, off := range skews {
		t.Run(off, func(t *testing.T) {
			t.Parallel()
			url := skewed(t, off)
			f, h := newFixture(t, open(t, url, job.Options{})), newHost(t, 1)
			j := f.give(h, f.submission("talk"))
			reached, release := h.stopOf("victim", pointWorked)
			victim := h.start("one", "victim", url)
			h.wait(reached)
			victim.kill()
			release()
			for _, role := range []string{"server", "worker", "worker"} { // the lease ends by itself, and what the victim held is visible again
				defer h.start(role, role, url).kill()
			}
			f.allEnd([]string{j.ID})
			end := f.job(j.ID)
			f.off(end)
			for i, s := range end.Steps {
				if want := map[bool]int{true: 1}[i == 0]; s.Crashes != want || s.Attempts != 1 {
					t.Errorf("step %+v", s)
				}
			}
			f.soundWith(h)
		})
	}
}

func TestTheDeadlineOfAnAwaitIsKeptByTheDatabasesClock(t *testing.T) {
	t.Parallel()
	for _, off := range skews {
		t.Run(off, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, open(t, skewed(t, off), job.Options{}))
			f.submit(f.submission("talk"))
			c := f.claim("ingest")
			f.end(c, outcome.Await(f.begin(c, "ask").ID, time.Now().Add(time.Hour)))
			f.age(59 * time.Minute)
			f.reconcile()
			f.pump(nil)
			if n := len(f.queues.all()); n != 0 {
				t.Fatal("the provider is asked too early")
			}
			f.age(2 * time.Minute)
			f.reconcile()
			f.pump(nil)
			f.claim("ingest")
		})
	}
}

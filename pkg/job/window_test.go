package job_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stagefleet/stagefleet/pkg/job"
)

// through submits jobs of a tenant through a window.
func (f *fixture) through(tenant string, window int64, n int) []job.Job {
	f.t.Helper()
	jobs := make([]job.Job, n)
	for i := range jobs {
		sub := f.submission(fmt.Sprintf("%s-%d", tenant, i))
		sub.Tenant, sub.First.Window = tenant, window
		jobs[i] = f.submit(sub)
	}
	return jobs
}

// states counts a tenant's jobs by state.
func (f *fixture) states(tenant string) map[job.State]int {
	f.t.Helper()
	page, _, err := f.s.Jobs(f.ctx, job.Filter{Tenant: tenant, Limit: 500})
	if err != nil {
		f.t.Fatal(err)
	}
	counts := map[job.State]int{}
	for _, j := range page {
		counts[j.State]++
	}
	return counts
}

func (f *fixture) enter() {
	f.t.Helper()
	if err := f.s.Enter(f.ctx); err != nil {
		f.t.Fatal(err)
	}
	f.pump(nil)
}

func TestTheListOfAccountsSaysOfEachWhatTheAccountSays(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.through("acme", 2, 5)
		f.through("other", 2, 2)
		all, err := f.s.Accounts(f.ctx)
		if err != nil || len(all) != 2 || all[0].Waiting != 3 {
			t.Fatalf("accounts %+v, %v", all, err)
		}
		for _, listed := range all {
			if a, err := f.s.Account(f.ctx, listed.Tenant); err != nil || a != listed {
				t.Errorf("listed %+v, is %+v, %v", listed, a, err)
			}
		}
	})
}

func TestJobsEnterThroughAWindowOfTheirOwnTenant(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		jobs := f.through("acme", 2, 5)
		f.through("other", 2, 2)
		if got := f.states("acme"); got[job.Queued] != 2 || got[job.Waiting] != 3 {
			t.Fatalf("acme's jobs: %v", got)
		}
		if got := f.states("other"); got[job.Queued] != 2 {
			t.Fatalf("the other's jobs: %v", got)
		}
		f.enter()
		if got := f.states("acme"); got[job.Queued] != 2 {
			t.Fatalf("entered without room: %v", got)
		}
		for _, i := range []int{0, 2} { // one under way, one that waits
			if err := f.s.Cancel(f.ctx, "acme", jobs[i].ID, "test", ""); err != nil {
				t.Fatal(err)
			}
		}
		f.enter()
		f.state(jobs[3].ID, job.Queued)
		f.state(jobs[4].ID, job.Waiting)
		f.sound()
	})
}

func TestANewJobDoesNotOvertakeOneThatWaits(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		jobs := f.through("acme", 1, 2)
		if err := f.s.Cancel(f.ctx, "acme", jobs[0].ID, "test", ""); err != nil {
			t.Fatal(err)
		}
		late := f.submission("late")
		late.First.Window = 1
		if j := f.submit(late); j.State != job.Waiting {
			t.Fatalf("the later job is %s", j.State)
		}
		f.enter()
		f.state(jobs[1].ID, job.Queued)
	})
}

func TestATenantOfWeightThreeHasThreeTimesTheWindow(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.limit(job.Account{Tenant: "acme", Unlimited: true, Weight: 3})
		f.through("acme", 2, 9)
		if got := f.states("acme"); got[job.Queued] != 6 || got[job.Waiting] != 3 {
			t.Fatalf("jobs: %v", got)
		}
	})
}

func TestPartsEnterThroughAWindowInTheirOrder(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		compile := route("compile")
		compile.Window = 2
		j := f.submit(f.submission("talk"))
		p := job.Publication{Claim: f.claim("ingest"), FanOut: true, Next: &compile, Join: next("publish")}
		for i := range 5 {
			p.Parts = append(p.Parts, json.RawMessage(fmt.Sprint(i)))
		}
		f.accepted(p)
		for want := 0; want < 5; {
			f.enter()
			rows := f.queues.take("q-compile")
			if len(rows) != min(2, 5-want) {
				t.Fatalf("%d messages after %d parts, want %d", len(rows), want, min(2, 5-want))
			}
			for _, row := range rows {
				c := f.claimRow(row, "compile")
				if c.Part != want {
					t.Fatalf("part %d entered, want %d", c.Part, want)
				}
				f.accepted(job.Publication{Claim: c, Next: next("publish")})
				want++
			}
		}
		f.run("publish", "")
		f.state(j.ID, job.Completed)
		f.sound()
	})
}

func TestPartsThatWaitEndWithTheirJob(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		compile := route("compile")
		compile.Window = 1
		j := f.submit(f.submission("talk"))
		f.accepted(job.Publication{
			Claim: f.claim("ingest"), FanOut: true, Next: &compile, Join: next("publish"), Parts: []json.RawMessage{[]byte(`0`), []byte(`1`)},
		})
		if err := f.s.Cancel(f.ctx, "acme", j.ID, "test", ""); err != nil {
			t.Fatal(err)
		}
		f.queues.take("q-compile")
		f.enter()
		if rows := f.queues.take("q-compile"); len(rows) != 0 {
			t.Fatalf("%d parts of a cancelled job have entered", len(rows))
		}
		f.sound()
	})
}

func TestAboveTheSoftLimitThePlacesThatComeUpAreShared(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			f := newFixture(t, open(t, freshURL(t, kind), job.Options{SoftLimit: 4}))
			flood := f.through("acme", 0, 10)
			f.through("b", 0, 1)
			f.through("c", 0, 1)
			for _, j := range flood[:2] {
				if err := f.s.Cancel(f.ctx, "acme", j.ID, "test", ""); err != nil {
					t.Fatal(err)
				}
			}
			f.enter()
			if b, c := f.states("b"), f.states("c"); b[job.Queued] != 1 || c[job.Queued] != 1 {
				t.Fatalf("b %v, c %v: the flood was served first", b, c)
			}
			if got := f.states("acme"); got[job.Queued] != 2 || got[job.Waiting] != 6 {
				t.Fatalf("the flood: %v", got)
			}
			f.sound()
		})
	}
}

func TestAFaultOfOneTenantHoldsUpNobodyElsesJobs(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		for _, tenant := range []string{"acme", "other"} {
			jobs := f.through(tenant, 1, 2)
			if err := f.s.Cancel(f.ctx, tenant, jobs[0].ID, "test", ""); err != nil {
				t.Fatal(err)
			}
		}
		f.breakSteps("acme")
		if err := f.s.Enter(f.ctx); err == nil {
			t.Fatal("the fault is not told")
		}
		if got := f.states("acme"); got[job.Waiting] != 1 {
			t.Fatalf("acme's jobs: %v", got)
		}
		if got := f.states("other"); got[job.Queued] != 1 {
			t.Fatalf("the other's jobs: %v", got)
		}
	})
}

func TestAFaultOfOneTenantHoldsUpNobodyElsesParts(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		compile := route("compile")
		compile.Window = 1
		for _, tenant := range []string{"acme", "other"} {
			f.through(tenant, 0, 1)
			f.accepted(job.Publication{
				Claim: f.claim("ingest"), FanOut: true, Next: &compile, Join: next("publish"), Parts: []json.RawMessage{[]byte(`0`), []byte(`1`)},
			})
		}
		f.pump(nil)
		for _, row := range f.queues.take("q-compile") {
			f.accepted(job.Publication{Claim: f.claimRow(row, "compile"), Next: next("publish")})
		}
		f.breakSteps("acme")
		if err := f.s.Enter(f.ctx); err == nil {
			t.Fatal("the fault is not told")
		}
		f.pump(nil)
		if rows := f.queues.take("q-compile"); len(rows) != 1 || rows[0].Tenant != "other" {
			t.Fatalf("entered: %+v", rows)
		}
	})
}

// breakSteps makes every change of a tenant's steps fail.
func (f *fixture) breakSteps(tenant string) {
	f.t.Helper()
	texts := []string{`CREATE TRIGGER broken BEFORE UPDATE ON step WHEN NEW.tenant = '` + tenant + `' BEGIN SELECT RAISE(ABORT, 'broken'); END`}
	if f.s.Postgres() {
		texts = []string{
			`CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''broken''; END'`,
			`CREATE TRIGGER broken BEFORE UPDATE ON step FOR EACH ROW WHEN (NEW.tenant = '` + tenant + `') EXECUTE FUNCTION broken()`,
		}
	}
	for _, text := range texts {
		if err := f.s.Change(f.ctx, text); err != nil {
			f.t.Fatal(err)
		}
	}
}

func TestOfTwoServersThatFindRoomTheSecondLooksAgain(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		jobs := f.through("acme", 2, 6)
		for _, j := range jobs[:2] {
			f.must(f.s.Cancel(f.ctx, "acme", j.ID, "test", ""))
		}
		for range 2 {
			f.must(f.s.EnterJobs(f.ctx, "acme", 2, 2))
		}
		if got := f.states("acme"); got[job.Queued] != 2 || got[job.Waiting] != 2 {
			t.Errorf("beyond the window: %v", got)
		}
		f.sound()
	})
}

func TestNeitherOfTwoServersPassesTheSoftLimit(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, open(t, freshURL(t, kind), job.Options{SoftLimit: 2}))
			jobs := f.through("acme", 0, 6)
			f.must(f.s.Cancel(f.ctx, "acme", jobs[0].ID, "test", ""))
			for range 2 {
				f.must(f.s.EnterJobs(f.ctx, "acme", 0, 1))
			}
			if got := f.states("acme"); got[job.Queued] != 2 || got[job.Waiting] != 3 {
				t.Errorf("beyond the limit: %v", got)
			}
			f.sound()
		})
	}
}

package job_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/internal/sqldb/sqldbtest"
	"github.com/stagefleet/stagefleet/pkg/job"
)

// ownCluster is a Postgres that this test may break.
func ownCluster(t *testing.T) (*sqldbtest.Cluster, string) {
	t.Helper()
	databases.Cluster(t) // skips where there is none
	c, err := sqldbtest.New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Errorf("stop postgres: %v", err)
		}
	})
	url, err := c.Create(t.Context(), "outage", "")
	if err != nil {
		t.Fatal(err)
	}
	return c, url
}

func TestADatabaseRestartedUnderLoadLosesNothingThatWasSaid(t *testing.T) {
	t.Parallel()
	c, url := ownCluster(t)
	s := open(t, url, job.Options{})
	f := newFixture(t, s)
	const jobs = 60
	var mu sync.Mutex
	said := map[string]bool{}
	var load sync.WaitGroup
	for w := range 6 {
		load.Go(func() {
			for i := range jobs / 6 {
				sub := f.submission(fmt.Sprint("talk", w, i))
				sub.IdempotencyKey, sub.BodyHash = sub.Target, "h"
				j, err := s.Submit(t.Context(), sub)
				for ; err != nil; j, err = s.Submit(t.Context(), sub) {
					<-time.After(20 * time.Millisecond)
				}
				mu.Lock()
				said[j.ID] = true
				mu.Unlock()
				f.pumpQuietly()
			}
		})
	}
	for range 2 {
		<-time.After(200 * time.Millisecond)
		if err := c.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := c.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	load.Wait()
	if n, err := s.Int(t.Context(), "SELECT COUNT(*) FROM job"); err != nil || int(n) != jobs || len(said) != jobs {
		t.Fatalf("%d jobs, %d said, %v; want %d", n, len(said), err, jobs)
	}
	f.age(time.Hour)
	f.relay()
	f.sound()
}

// pumpQuietly sends what it can; the relay finds the rest.
func (f *fixture) pumpQuietly() { _ = f.s.Dispatch(f.ctx, f.queues, f.s.Handed()) }

func TestAStoreThatIsDownForTenMinutesCostsNoAttempts(t *testing.T) {
	t.Parallel()
	c, url := ownCluster(t)
	s := open(t, url, job.Options{})
	f := newFixture(t, s)
	j := f.submit(f.submission("talk"))
	m := f.message("ingest")
	held := f.claimRow(m, "ingest")
	other := f.submit(f.submission("other"))
	if err := c.Kill(); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, err := s.Claim(short, request(f.queues.all()[0], "ingest"))
	if _, refused := errors.AsType[*job.ClaimRefused](err); err == nil || refused {
		t.Fatalf("claim without a database: %v, want a fault that is no refusal", err)
	}
	if s.Ping(short) == nil {
		t.Fatal("the store is said to be well")
	}
	if _, err := s.Renew(short, []job.Renewal{{Step: held.Step, Token: held.Token, Lease: time.Minute}}); err == nil {
		t.Fatal("renewed without a database")
	}
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.age(10 * time.Minute)
	if err := s.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := f.job(other.ID).Steps[0]; got.Attempts != 0 || got.Crashes != 0 || len(got.History) != 0 {
		t.Fatalf("the outage has cost the waiting step %+v", got)
	}
	f.accepted(job.Publication{Claim: f.claimRow(m, "ingest")})
	f.run("ingest", "")
	f.state(j.ID, job.Completed)
	f.state(other.ID, job.Completed)
	f.sound()
}

// The database's clock is moved instead of the worker's: only their difference counts.
func TestAWorkersClockMayBeTenMinutesOff(t *testing.T) {
	t.Parallel()
	for _, off := range []string{"+ interval '10 minutes'", "- interval '10 minutes'"} {
		t.Run(off, func(t *testing.T) {
			t.Parallel()
			url := freshURL(t, "postgres")
			s := open(t, url, job.Options{})
			if err := s.Change(t.Context(), `CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
				AS $$ SELECT pg_catalog.clock_timestamp() `+off+` $$`); err != nil {
				t.Fatal(err)
			}
			f := newFixture(t, open(t, url+"&search_path=public,pg_catalog", job.Options{}))
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
			if skew := time.Since(end.CreatedAt).Abs(); skew < 9*time.Minute {
				t.Fatalf("the database's clock is only %v off: this test proves nothing", skew)
			}
			f.sound()
		})
	}
}

func TestRelayAndReconcilerTellOfADatabaseThatIsGone(t *testing.T) {
	t.Parallel()
	c, url := ownCluster(t)
	told := make(chan error, 100)
	s := open(t, url, job.Options{ReconcileEvery: 10 * time.Millisecond, Failed: func(err error) {
		select {
		case told <- err:
		default:
		}
	}})
	if !s.Leads(t.Context()) {
		t.Fatal("nobody else leads")
	}
	if err := c.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, run := range []func(context.Context) error{
		func(ctx context.Context) error { return s.Relay(ctx, &queues{}) },
		func(ctx context.Context) error { return s.Reconcile(ctx, &queues{}) },
	} {
		ended := make(chan error, 1)
		ctx, stop := context.WithCancel(t.Context())
		go func() { ended <- run(ctx) }()
		if err := <-told; err == nil {
			t.Error("told of nothing")
		}
		stop()
		<-ended //nolint:errcheck // giving up the lead fails too
		for len(told) > 0 {
			<-told //nolint:errcheck // one fault is enough
		}
	}
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestAFullQueueThatWasPurgedIsFilledAgain(t *testing.T) {
	onBothWithHost(t, func(t *testing.T, f *fixture, h *host, url string) {
		var jobs []string
		for i := range 20 {
			jobs = append(jobs, f.give(h, f.submission(fmt.Sprint("talk", i))).ID)
		}
		reached, release := h.stop(pointReceived)
		worker := h.start("worker", "worker", url)
		h.wait(reached) // with a message in its hands, which the purge takes as well
		h.mu.Lock()
		h.messages = nil
		h.mu.Unlock()
		release()
		f.age(time.Hour)
		server := h.start("server", "server", url)
		defer server.kill()
		defer worker.kill()
		f.allEnd(jobs)
		f.soundWith(h)
	})
}

// allEnd waits until the children have completed the jobs.
func (f *fixture) allEnd(jobs []string) {
	f.t.Helper()
	for deadline := time.Now().Add(60 * time.Second); len(jobs) > 0; {
		if f.job(jobs[0]).State == job.Completed {
			jobs = jobs[1:]
			continue
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("%d jobs do not end: %+v", len(jobs), f.job(jobs[0]))
		}
		<-time.After(20 * time.Millisecond)
	}
}

func TestTheQueuesOwnMoveOfALiveAndOfADoneStepIsGarbage(t *testing.T) {
	onBothWithHost(t, func(t *testing.T, f *fixture, h *host, url string) {
		j := f.give(h, f.submission("talk"))
		moved := h.rows()[0]
		letter := job.DeadLetter{Step: request(moved, "ingest").Step, Tenant: "acme", Emission: 1}
		sweep := func(reason string) {
			got, err := f.s.Sweep(f.ctx, letter)
			if err != nil || got.Do != job.Delete || got.Reason != reason {
				t.Fatalf("swept %+v, %v; want %s deleted", got, err, reason)
			}
		}
		reached, release := h.stop(pointWorked)
		p := h.start("one", "owner", url)
		h.wait(reached)
		sweep(job.ReasonHeld) // the queue has moved the message while its owner works
		release()
		h.ended(p)
		sweep("done")
		if end := f.finish(h, j.ID); end.State != job.Completed || end.Steps[0].Attempts != 1 || len(end.Steps[0].History) != 1 {
			t.Fatalf("job %+v", end)
		}
		// An owner that dies while its message is in the dead-letter queue: the reconciler's new message finds the step.
		k := f.give(h, f.submission("orphan"))
		h.mu.Lock()
		letter.Step = request(h.messages[len(h.messages)-1].row, "ingest").Step
		h.mu.Unlock()
		reached, release = h.stop(pointWorked)
		p = h.start("one", "owner", url)
		h.wait(reached)
		sweep(job.ReasonHeld)
		p.kill()
		release()
		h.mu.Lock()
		h.messages = nil
		h.mu.Unlock()
		f.age(time.Hour)
		server := h.start("server", "server", url)
		defer server.kill()
		worker := h.start("worker", "worker", url)
		defer worker.kill()
		f.allEnd([]string{k.ID})
		if s := f.job(k.ID).Steps[0]; s.Crashes != 1 {
			t.Fatalf("step %+v", s)
		}
		f.soundWith(h)
	})
}

package job_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"syscall"
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

// crew is a server and some workers, each a process.
type crew struct {
	h     *host
	url   string
	roles []string
	all   []*process
}

// crewLease is long enough for a busy machine, where only those who were struck may lose one.
const crewLease = 4 * time.Second

func (h *host) crew(url string) *crew {
	h.t.Helper()
	h.leases(crewLease)
	c := &crew{h: h, url: url, roles: []string{"server", "worker", "worker", "worker"}}
	c.start()
	h.t.Cleanup(c.kill)
	return c
}

func (c *crew) start() {
	c.h.t.Helper()
	for i, role := range c.roles {
		c.all = append(c.all, c.h.start(role, fmt.Sprint(role, i), c.url))
	}
}

func (c *crew) kill() {
	for _, p := range c.all {
		p.signal(syscall.SIGKILL)
	}
	for _, p := range c.all {
		<-p.done //nolint:errcheck // it was killed, which its exit status says
	}
	c.all = nil
}

// done waits until so many steps are done.
func (f *fixture) done(steps int64) {
	f.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		n, err := f.s.Int(f.ctx, "SELECT COUNT(*) FROM step WHERE state = 'done'")
		if err != nil {
			f.t.Fatal(err)
		}
		if n >= steps {
			return
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("%d steps are done, want %d", n, steps)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// honest asks that no execution was counted but those that succeeded, and at most so many owners as lost.
func (f *fixture) honest(jobs []string, crashes int) {
	f.t.Helper()
	for _, id := range jobs {
		for _, s := range f.job(id).Steps {
			if s.Attempts != 1 {
				f.t.Errorf("step %+v", s)
			}
			crashes -= s.Crashes
		}
	}
	if crashes < 0 {
		f.t.Errorf("%d owners too many were counted as lost", -crashes)
	}
}

func TestADatabaseRestartedUnderLoadLosesNothingThatWasSaid(t *testing.T) {
	t.Parallel()
	c, url := ownCluster(t)
	f, h := newFixture(t, open(t, url, job.Options{})), newHost(t, 1)
	const jobs = 30
	var mu sync.Mutex
	var said []string
	var load sync.WaitGroup
	for w := range 3 {
		load.Go(func() {
			for i := range jobs / 3 {
				sub := f.submission(fmt.Sprint("talk", w, i))
				sub.IdempotencyKey, sub.BodyHash = sub.Target, "h"
				j, err := f.s.Submit(t.Context(), sub)
				for ; err != nil; j, err = f.s.Submit(t.Context(), sub) {
					<-time.After(20 * time.Millisecond)
				}
				mu.Lock()
				said = append(said, j.ID)
				mu.Unlock()
			}
		})
	}
	h.crew(url) // its relay sends what was submitted, once the rows' lease has ended
	for n := range 2 {
		f.sent(h, int64(5*n))
		if err := c.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := c.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	load.Wait()
	if n, err := f.s.Int(t.Context(), "SELECT COUNT(*) FROM job"); err != nil || int(n) != jobs || len(said) != jobs {
		t.Fatalf("%d jobs, %d said, %v; want %d", n, len(said), err, jobs)
	}
	f.sent(h, 0)
	f.lapse()
	f.allEnd(said)
	f.honest(said, 2*3)
	f.soundWith(h)
}

// sent hands over what this process has committed, and waits until so many steps are done.
func (f *fixture) sent(h *host, steps int64) {
	f.t.Helper()
	if err := f.s.Dispatch(f.ctx, f.queues, f.s.Handed()); err == nil {
		f.hand(h)
	}
	f.done(steps)
}

func TestAllProcessesKilledAtOnceUnderLoadGoOnWhereTheyWere(t *testing.T) {
	onBothWithHost(t, func(t *testing.T, f *fixture, h *host, url string) {
		var jobs []string
		for i := range 12 {
			jobs = append(jobs, f.give(h, f.submission(fmt.Sprint("talk", i))).ID)
		}
		crew := h.crew(url)
		for n := range 2 {
			f.done(int64(10 + 15*n))
			crew.kill()
			crew.start()
		}
		f.allEnd(jobs)
		f.honest(jobs, 2*3)
		f.soundWith(h)
	})
}

// away makes a store of the kind that can be away: Postgres is killed; the file of SQLite is locked by somebody else.
func away(t *testing.T, kind string) (url string, goAway, comeBack func() error) {
	t.Helper()
	if kind == "postgres" {
		c, url := ownCluster(t)
		return url, c.Kill, func() error { return c.Start(t.Context()) }
	}
	url = freshURL(t, kind)
	db, err := sql.Open("sqlite", "file:"+strings.NewReplacer(" ", "%20", "?", "%3f").Replace(strings.TrimPrefix(url, "sqlite:"))+"?_pragma=busy_timeout(20000)")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = db.Close() })
	run := func(text string) func() error {
		return func() error {
			_, err := db.ExecContext(context.WithoutCancel(t.Context()), text)
			return err
		}
	}
	return url, run("BEGIN IMMEDIATE"), run("ROLLBACK")
}

// With a lease of four seconds for one of seven minutes, ten minutes are 5.7 seconds. A claim waits for a locked file for up to five.
func TestAStoreThatIsAwayForTenMinutesWithAFullQueueCostsNoAttempts(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			url, goAway, comeBack := away(t, kind)
			f, h := newFixture(t, open(t, url, job.Options{})), newHost(t, 1)
			var jobs []string
			for i := range 25 {
				jobs = append(jobs, f.give(h, f.submission(fmt.Sprint("talk", i))).ID)
			}
			h.crew(url)
			f.done(5)
			if err := goAway(); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			if f.s.Ping(ctx) == nil {
				t.Error("the store is said to be well")
			}
			<-time.After(6 * time.Second)
			if err := comeBack(); err != nil {
				t.Fatal(err)
			}
			f.allEnd(jobs)
			f.honest(jobs, 3) // each worker held one when the store went
			f.soundWith(h)
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
	for deadline := time.Now().Add(patience); len(jobs) > 0; {
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

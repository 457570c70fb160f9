package workertest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/outcome"
	"github.com/stagefleet/stagefleet/pkg/worker"
	"github.com/stagefleet/stagefleet/pkg/workertest"
)

// chance draws under a lock, since handlers run at the same time.
type chance struct {
	mu  sync.Mutex
	rng *rand.Rand
}

func (c *chance) n(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rng.IntN(n)
}

// end works for a while and ends in one of the ways in which a handler can.
func (c *chance) end(ctx context.Context) error {
	select {
	case <-time.After(time.Duration(c.n(40_000)) * time.Millisecond):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	switch c.n(20) {
	case 0, 1:
		return errors.New("failed")
	case 2:
		panic("failed")
	case 3:
		return outcome.Defer(time.Duration(c.n(60))*time.Second, "later")
	case 4:
		return outcome.RetryAfter(time.Duration(1+c.n(90))*time.Second, errors.New("busy"))
	}
	return nil
}

// TestWhateverHappensEveryJobEndsAndTheBooksAreRight runs jobs of two targets while
// handlers end at random and stages, or everything, are stopped and started.
func TestWhateverHappensEveryJobEndsAndTheBooksAreRight(t *testing.T) {
	seeds := 3
	if testing.Short() {
		seeds = 1
	}
	first := rand.Uint64()
	for i := range seeds {
		seed := first + uint64(i)
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { chaos(t, &chance{rng: rand.New(rand.NewPCG(seed, 0))}) })
		})
	}
}

func chaos(t *testing.T, c *chance) {
	s := &script{
		read: func(ctx context.Context, _ worker.Task[order]) error { return c.end(ctx) },
		cut:  func(ctx context.Context, _ worker.Task[int]) error { return c.end(ctx) },
	}
	fleet := workertest.Pipeline(t, workertest.Options{Stages: stages(), Programs: s.programs(), Patience: 2 * time.Hour})
	var ids []string
	for range 5 {
		ids = append(ids, fleet.Submit(fmt.Sprint("talk", c.n(2)), 0, order{c.n(4)}).ID)
		settle(time.Duration(c.n(60)) * time.Second)
		switch c.n(5) {
		case 0:
			fleet.RestartAll()
		case 1, 2:
			name := stages()[c.n(4)].Name
			fleet.Stop(name)
			settle(time.Duration(c.n(30)) * time.Second)
			fleet.Start(name)
		case 3:
			fleet.Start("cut")
		}
	}
	var jobs []job.Job
	for _, id := range ids {
		jobs = append(jobs, fleet.Wait(id))
	}
	settle(time.Minute)
	for _, j := range jobs {
		if now := fleet.Job(j.ID); now.State != j.State || now.Current && j.State != job.Completed {
			t.Errorf("%s version %d was %s and is %s, current %v", j.Target, j.Version, j.State, now.State, now.Current)
		}
		honest(t, j)
	}
	currentIsNewest(t, fleet, ids)
	inOrder(t, fleet, jobs)
}

// honest checks that the attempts of a job's steps explain its state.
func honest(t *testing.T, j job.Job) {
	t.Helper()
	exhausted := false
	for _, s := range j.Steps {
		if s.Attempts > 3 || s.Crashes > 0 {
			t.Errorf("%s: %d attempts and %d crashes, want at most 3 and none", s.Stage, s.Attempts, s.Crashes)
		}
		exhausted = exhausted || s.Attempts == 3 && s.State == job.Failed
	}
	switch j.State {
	case job.Completed, job.Superseded:
	case job.Failed:
		if !exhausted {
			t.Errorf("%s failed with no step exhausted: %+v", j.ID, j.Steps)
		}
	default:
		t.Errorf("%s ended %s", j.ID, j.State)
	}
}

// currentIsNewest checks that of each target the newest completed version is current.
func currentIsNewest(t *testing.T, fleet *workertest.Fleet, ids []string) {
	t.Helper()
	newest, current := map[string]int64{}, map[string]int64{}
	for _, id := range ids {
		j := fleet.Job(id)
		if j.State == job.Completed {
			newest[j.Target] = max(newest[j.Target], j.Version)
		}
		if j.Current {
			current[j.Target] = j.Version
		}
	}
	if fmt.Sprint(newest) != fmt.Sprint(current) {
		t.Errorf("newest completed versions %v, current ones %v", newest, current)
	}
}

// inOrder checks dead letters and money against what became of the jobs.
func inOrder(t *testing.T, fleet *workertest.Fleet, jobs []job.Job) {
	t.Helper()
	ended := map[job.State]int64{}
	for _, j := range jobs {
		ended[j.State]++
	}
	var dead int64
	for _, s := range fleet.Stages() {
		dead += s.DLQ
		if s.Visible+s.InFlight+s.Delayed > 0 {
			t.Errorf("%s still has messages: %+v", s.Name, s)
		}
	}
	if dead > ended[job.Failed] {
		t.Errorf("%d dead letters of %d failed jobs", dead, ended[job.Failed])
	}
	spent := (workertest.Funds - fleet.Balance()) / workertest.Price
	if spent < ended[job.Completed] || spent > ended[job.Completed]+ended[job.Superseded] {
		t.Errorf("%d jobs are paid for, %d completed, %d superseded, %d failed", spent, ended[job.Completed], ended[job.Superseded], ended[job.Failed])
	}
}

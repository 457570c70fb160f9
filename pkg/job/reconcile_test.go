package job_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/outcome"
)

// Count answers from what the fixture's queues hold.
func (q *queues) Count(_ context.Context, queue string) (visible, inFlight, delayed int64, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range q.sent {
		if r.Queue == queue {
			visible++
		}
	}
	return visible, 0, 0, q.failing[queue]
}

func (f *fixture) reconcile() { f.reconcileWith(map[string]int{}) }

func (f *fixture) reconcileWith(empty map[string]int) {
	f.t.Helper()
	if err := f.s.ReconcileOnce(f.ctx, f.queues, empty); err != nil {
		f.t.Fatal(err)
	}
	f.pump(nil)
}

func TestALostMessageIsReplacedOnlyWhenItsQueueStaysEmpty(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.submit(f.submission("lost"))
		lost := f.message("ingest")
		f.age(time.Hour)
		empty := map[string]int{}
		f.reconcileWith(empty)
		f.reconcileWith(empty)
		if n := len(f.queues.all()); n != 0 {
			t.Fatal("replaced after two samples")
		}
		f.reconcileWith(empty)
		again := f.message("ingest")
		if no := f.refused(request(lost, "ingest")); no.Do != job.Delete {
			t.Fatalf("the lost message came back: %+v", no.Settle)
		}
		f.claimRow(again, "ingest")
	})
}

func TestAQueueThatHoldsSomethingIsLeftAloneUntilRetentionNears(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.submit(f.submission("lost"))
		f.message("ingest")
		f.submit(f.submission("there"))
		empty := map[string]int{}
		f.age(time.Hour)
		for range 5 {
			f.reconcileWith(empty)
		}
		if n := len(f.queues.all()); n != 1 {
			t.Fatalf("%d messages, want 1", n)
		}
		f.age(4 * 24 * time.Hour)
		f.reconcileWith(empty)
		if n := len(f.queues.all()); n != 3 { // and the other's, because its message nears retention too
			t.Fatalf("%d messages, want 3", n)
		}
	})
}

func TestOnlyStepsThatNeedAMessageGetOne(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.submit(f.submission("dead"))
		f.end(f.claim("ingest"), outcome.Quarantine("bug", nil))
		f.submit(f.submission("awaiting"))
		c := f.claim("ingest")
		f.end(c, outcome.Await(f.begin(c, "x").ID, time.Now().Add(1000*time.Hour)))
		f.submit(f.submission("done"))
		f.run("ingest", "")
		if _, err := f.s.Submit(f.ctx, f.submission("unsent")); err != nil {
			t.Fatal(err)
		}
		f.s.Handed()
		f.submit(f.submission("waiting"))
		f.end(f.claim("ingest"), outcome.Defer(14*time.Minute, "breaker_open"))
		f.submit(f.submission("running"))
		running := f.claim("ingest")
		f.age(50 * time.Second)
		if _, err := f.s.Renew(f.ctx, []job.Renewal{{Step: running.Step, Token: running.Token, Lease: time.Hour}}); err != nil {
			t.Fatal(err)
		}
		f.age(10 * time.Minute)
		f.queues.take("dlq-ingest")
		empty := map[string]int{}
		for range 4 {
			f.reconcileWith(empty)
		}
		if rows := f.queues.all(); len(rows) != 0 {
			t.Fatalf("new messages %+v", rows)
		}
	})
}

func TestAQueueThatCannotBeCountedIsNotEmpty(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.submit(f.submission("talk"))
		f.message("ingest")
		f.age(time.Hour)
		f.queues.failing = map[string]error{"q-ingest": errBoom}
		empty := map[string]int{}
		for range 5 {
			if err := f.s.ReconcileOnce(f.ctx, f.queues, empty); err == nil {
				t.Fatal("the fault was not reported")
			}
		}
		if n := len(f.s.Handed()); n != 0 {
			t.Fatal("repaired without a count")
		}
	})
}

func TestReissueAllGivesEveryUnownedStepAMessage(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.submit(f.submission("queued"))
		f.message("ingest")
		f.submit(f.submission("expired"))
		f.claim("ingest")
		f.age(2 * time.Minute)
		f.submit(f.submission("live"))
		f.claim("ingest")
		f.submit(f.submission("retrying"))
		f.end(f.claim("ingest"), errBoom)
		n, err := f.s.ReissueAll(f.ctx)
		if err != nil || n != 3 {
			t.Fatalf("%d steps, %v; want queued, expired and retrying", n, err)
		}
		f.pump(nil)
		if n := len(f.queues.take("q-ingest")); n != 2 {
			t.Fatalf("%d messages now, want 2: the third is not due", n)
		}
		f.age(time.Minute)
		f.relay()
		if c := f.claim("ingest"); c.Target != "retrying" || c.Attempt != 2 {
			t.Fatalf("claim %+v", c)
		}
	})
}

func TestOneProcessLeadsAndAnotherFollowsWhenItStops(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			url := freshURL(t, kind)
			opt := job.Options{ReconcileEvery: 10 * time.Millisecond}
			a, b := open(t, url, opt), open(t, url, opt)
			ctx, stop := context.WithCancel(t.Context())
			led := make(chan string, 100)
			done := make(chan error, 1)
			f := newFixture(t, a)
			f.submit(f.submission("talk"))
			go func() { done <- a.Reconcile(ctx, counter(func() { led <- "a" })) }()
			if who := <-led; who != "a" {
				t.Fatal(who)
			}
			if b.Leads(t.Context()) {
				t.Fatal("two leaders")
			}
			stop()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if n, err := b.Int(t.Context(), "SELECT COUNT(*) FROM lease"); err != nil || n != 0 {
				t.Fatalf("the lease was not given up: %d, %v", n, err)
			}
		})
	}
}

type counter func()

func (c counter) Count(context.Context, string) (int64, int64, int64, error) {
	c()
	return 1, 0, 0, nil
}

func TestWhatOnlyServedForAWhileIsForgotten(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		sub := f.submission("talk")
		sub.IdempotencyKey, sub.BodyHash = "k", "h"
		f.submit(sub)
		f.receive(job.Event{Provider: "p", ID: "e", Effect: "x", Body: []byte(`{}`)})
		if err := f.s.ReportWorker(f.ctx, job.WorkerStatus{ID: "w"}); err != nil {
			t.Fatal(err)
		}
		kept := func() (n int64) {
			n, err := f.s.Int(f.ctx, "SELECT (SELECT COUNT(*) FROM idempotency) + (SELECT COUNT(*) FROM inbox) + (SELECT COUNT(*) FROM worker)")
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		forget := func() {
			if err := f.s.Forget(f.ctx); err != nil {
				t.Fatal(err)
			}
		}
		if forget(); kept() != 3 {
			t.Fatal("forgotten while it serves")
		}
		for _, text := range []string{"UPDATE idempotency SET at = 1", "UPDATE inbox SET at = 1", "UPDATE worker SET seen_at = 1"} {
			if err := f.s.Change(f.ctx, text); err != nil {
				t.Fatal(err)
			}
		}
		if forget(); kept() != 0 {
			t.Fatal("kept for ever")
		}
	})
}

func TestAQueueThatWasNotLookedAtMeanwhileIsSeenAnew(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.submit(f.submission("first"))
		m := f.message("ingest")
		empty := map[string]int{}
		f.reconcileWith(empty)
		f.reconcileWith(empty)
		f.accepted(job.Publication{Claim: f.claimRow(m, "ingest")})
		f.reconcileWith(empty) // no step is open
		f.submit(f.submission("second"))
		f.message("ingest")
		f.age(time.Hour)
		f.reconcileWith(empty)
		if n := len(f.queues.all()); n != 0 {
			t.Fatal("replaced after one sample")
		}
	})
}

func TestWhatAServerSawBeforeAnotherLedCountsNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, open(t, freshURL(t, "sqlite"), job.Options{ReconcileEvery: 4 * time.Second}))
		f.submit(f.submission("talk"))
		f.message("ingest")
		f.age(time.Hour)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- f.s.Reconcile(ctx, f.queues) }()
		settle := func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		}
		settle(9 * time.Second) // samples at 4 and 8
		f.must(f.s.Change(f.ctx, "UPDATE lease SET holder = 'other', until = until + 3600000000"))
		settle(5 * time.Second) // it asks at 11
		f.must(f.s.Change(f.ctx, "DELETE FROM lease"))
		settle(7 * time.Second) // and leads again from 16, with a sample at 20
		if n := len(f.s.Handed()); n != 0 {
			t.Error("replaced after one sample")
		}
		settle(12 * time.Second)
		if n := len(f.s.Handed()); n != 1 {
			t.Errorf("%d messages, want the lost one's", n)
		}
		stop()
		f.must(<-done)
	})
}

func TestAStepThatWasFoundWithoutAMessageAndHasOneSinceGetsNoOther(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		lost := f.submit(f.submission("lost")).Steps[0].ID
		f.message("ingest")
		waits := f.submit(f.submission("waits")).Steps[0].ID
		m := f.message("ingest")
		f.age(time.Hour)
		f.end(f.claimRow(m, "ingest"), errBoom) // its message is hidden
		for i, want := range []int{1, 0} {
			n, err := f.s.RepairFound(f.ctx, time.Minute, lost, waits)
			f.must(err)
			if n != want {
				t.Errorf("look %d: %d repaired, want %d", i, n, want)
			}
		}
		f.pump(nil)
		f.claim("ingest")
	})
}

package job_test

import (
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/outcome"
)

func TestSubmitStoresTheJobItsChargeAndItsFirstMessage(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		j := f.submit(f.submission("talk"))
		if j.State != job.Queued || j.Version != 1 || j.Target != "talk" || len(j.Steps) != 1 || j.Steps[0].Stage != "ingest" {
			t.Fatalf("job %+v", j)
		}
		m := f.message("ingest")
		if m.Dedup != j.Steps[0].ID+"/1" || m.Group == "" || !m.FIFO {
			t.Fatalf("message %+v", m)
		}
		if strings.Contains(m.Body+m.Group, "talk") {
			t.Fatalf("the message names its target: %+v", m)
		}
		if f.balance() != -5 {
			t.Fatalf("balance %d, want -5", f.balance())
		}
		f.queues.sent = append(f.queues.sent, m)
		f.sound()
	})
}

func TestTheSameIdempotencyKeyReturnsTheJobAndAnotherBodyIsAMismatch(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		sub := f.submission("talk")
		sub.IdempotencyKey, sub.BodyHash = "k1", "h1"
		first := f.submit(sub)
		if again := f.submit(sub); again.ID != first.ID {
			t.Fatalf("second submission made %s, first %s", again.ID, first.ID)
		}
		sub.BodyHash = "h2"
		if _, err := f.s.Submit(f.ctx, sub); !errors.Is(err, job.ErrIdempotencyMismatch) {
			t.Fatalf("error %v, want ErrIdempotencyMismatch", err)
		}
		if f.balance() != -5 {
			t.Fatalf("charged %d", -f.balance())
		}
		f.sound()
	})
}

func TestEqualSubmissionsAtOnceMakeOneJob(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		sub := f.submission("talk")
		sub.IdempotencyKey, sub.BodyHash = "k1", "h1"
		ids := make([]string, 20)
		var all sync.WaitGroup
		for i := range ids {
			all.Go(func() {
				j, err := f.s.Submit(f.ctx, sub)
				if err != nil {
					t.Error(err)
				}
				ids[i] = j.ID
			})
		}
		all.Wait()
		for _, id := range ids {
			if id != ids[0] {
				t.Fatalf("two jobs: %s and %s", id, ids[0])
			}
		}
		f.sound()
	})
}

func TestARefusedSubmissionFreesItsIdempotencyKey(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.limit(job.Account{Tenant: "acme", MaxInFlight: 1, Unlimited: true})
		running := f.submit(f.submission("a"))
		sub := f.submission("b")
		sub.IdempotencyKey, sub.BodyHash = "k", "h"
		_ = f.declined(sub, job.RefusedInFlight)
		if err := f.s.Cancel(f.ctx, "acme", running.ID, "test", ""); err != nil {
			t.Fatal(err)
		}
		f.submit(sub)
		f.sound()
	})
}

func TestAVersionHasOneContentForEver(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		sub := f.submission("talk")
		sub.Version = 3
		first := f.submit(sub)
		if again := f.submit(sub); again.ID != first.ID {
			t.Fatalf("same version, same bytes: job %s, want %s", again.ID, first.ID)
		}
		other := sub
		other.Digest = "other"
		if _, err := f.s.Submit(f.ctx, other); !errors.Is(err, job.ErrVersionConflict) {
			t.Fatalf("same version, other bytes: %v, want ErrVersionConflict", err)
		}
		other.Version = 0
		if j := f.submit(other); j.Version != 4 {
			t.Fatalf("next version is %d, want 4", j.Version)
		}
		f.sound()
	})
}

func TestAVersionOlderThanWhatWasTakenInIsRefused(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		sub := f.submission("talk")
		sub.Version = 2
		f.submit(sub)
		f.run("ingest", "transcribe")
		sub.Version, sub.Digest = 1, "older"
		if _, err := f.s.Submit(f.ctx, sub); !errors.Is(err, job.ErrVersionOlder) {
			t.Fatalf("error %v, want ErrVersionOlder", err)
		}
		f.sound()
	})
}

func TestAdmissionNamesWhatStandsInTheWay(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.limit(job.Account{Tenant: "acme", MaxInFlight: 2, DailyCap: 12})
		_ = f.declined(f.submission("a"), job.RefusedBalance)
		f.grant("g1", 100)
		f.submit(f.submission("a"))
		f.submit(f.submission("b"))
		if no := f.declined(f.submission("c"), job.RefusedInFlight); no.RetryAfter <= 0 {
			t.Fatal("a full house must say when to come back")
		}
		f.limit(job.Account{Tenant: "acme", DailyCap: 12})
		if no := f.declined(f.submission("c"), job.RefusedDailyCap); no.RetryAfter <= 0 || no.RetryAfter > 24*time.Hour {
			t.Fatalf("the cap ends in %v", no.RetryAfter)
		}
		if f.balance() != 90 {
			t.Fatalf("balance %d, want 90", f.balance())
		}
		f.sound()
	})
}

func TestConcurrentAdmissionsNeverPassTheLimitOrTheBalance(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.limit(job.Account{Tenant: "acme", MaxInFlight: 7})
		f.grant("g1", 5*6)
		var mu sync.Mutex
		admitted := 0
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				_, err := f.s.Submit(f.ctx, f.submission(string(rune('a'+i))))
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					admitted++
				}
			})
		}
		all.Wait()
		if admitted != 6 || f.balance() != 0 {
			t.Fatalf("%d admitted with balance %d left, want 6 and 0", admitted, f.balance())
		}
		f.sound()
	})
}

func TestAGrantCountsOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.grant("g1", 10)
		if fresh, err := f.s.Grant(f.ctx, "acme", "g1", 10, "test"); err != nil || fresh {
			t.Fatalf("second grant: fresh %v, %v", fresh, err)
		}
		if f.balance() != 10 {
			t.Fatalf("balance %d, want 10", f.balance())
		}
		f.sound()
	})
}

func TestAboveTheSoftLimitJobsWaitAndAboveTheHardOneTheyAreRefused(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			f := newFixture(t, open(t, freshURL(t, kind), job.Options{SoftLimit: 1, HardLimit: 2}))
			first := f.submit(f.submission("a"))
			second := f.submit(f.submission("b"))
			f.state(second.ID, job.Waiting)
			_ = f.declined(f.submission("c"), job.RefusedCapacity)
			if n := len(f.queues.all()); n != 1 {
				t.Fatalf("%d messages, want only the first job's", n)
			}
			f.reconcile()
			f.state(second.ID, job.Waiting)
			if err := f.s.Cancel(f.ctx, "acme", first.ID, "test", ""); err != nil {
				t.Fatal(err)
			}
			f.reconcile()
			f.pump(nil)
			f.state(second.ID, job.Queued)
			f.sound()
		})
	}
}

func TestSubmissionsThatCannotBeAreTurnedAway(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		for field, spoil := range map[string]func(*job.Submission){
			"tenant":          func(s *job.Submission) { s.Tenant = "a b" },
			"target":          func(s *job.Submission) { s.Target = "" },
			"version":         func(s *job.Submission) { s.Version = -1 },
			"Digest":          func(s *job.Submission) { s.Digest = "" },
			"Input":           func(s *job.Submission) { s.Input = json.RawMessage(`{`) },
			"Price":           func(s *job.Submission) { s.Price = -1 },
			"idempotency key": func(s *job.Submission) { s.IdempotencyKey = strings.Repeat("k", 300) },
			"First":           func(s *job.Submission) { s.First.DLQ = "" },
		} {
			sub := f.submission("talk")
			spoil(&sub)
			if _, err := f.s.Submit(f.ctx, sub); err == nil || !strings.Contains(err.Error(), field) {
				t.Errorf("%s: error %v does not name it", field, err)
			}
		}
	})
}

func (f *fixture) limit(a job.Account) {
	f.t.Helper()
	if err := f.s.SetLimits(f.ctx, a, "test"); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) grant(id string, amount int64) {
	f.t.Helper()
	if fresh, err := f.s.Grant(f.ctx, "acme", id, amount, "test"); err != nil || !fresh {
		f.t.Fatalf("grant: fresh %v, %v", fresh, err)
	}
}

func (f *fixture) declined(sub job.Submission, reason string) *job.Refused {
	f.t.Helper()
	_, err := f.s.Submit(f.ctx, sub)
	var no *job.Refused
	if !errors.As(err, &no) || no.Reason != reason {
		f.t.Fatalf("submit: %v, want a refusal for %s", err, reason)
	}
	return no
}

func TestANewJobIsReturnedAsItIsStored(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		got := f.submit(f.submission("talk"))
		a, errA := json.Marshal(got)
		b, errB := json.Marshal(f.job(got.ID))
		if err := errors.Join(errA, errB); err != nil || string(a) != string(b) {
			t.Fatalf("returned\n%s\nstored\n%s\n%v", a, b, err)
		}
	})
}

func TestSubmissionsAndPublicationsLockTargetsInOneOrder(t *testing.T) {
	t.Parallel()
	f := newFixture(t, open(t, freshURL(t, "postgres"), job.Options{}))
	f.submit(f.submission("one"))
	f.submit(f.submission("two"))
	targets, err := f.s.Strings(f.ctx, "SELECT name FROM target ORDER BY id")
	if err != nil {
		t.Fatal(err)
	}
	steps, err := f.s.Strings(f.ctx, "SELECT s.id FROM step s JOIN job j ON j.id = s.job ORDER BY j.target")
	if err != nil {
		t.Fatal(err)
	}
	locked, let := make(chan struct{}), make(chan struct{})
	held, submitted := make(chan error, 1), make(chan error, 1)
	go func() { held <- f.s.Hold(f.ctx, steps[0], locked, let) }()
	<-locked
	again := func(target string) job.Submission {
		sub := f.submission(target)
		sub.Digest = "another"
		return sub
	}
	go func() { submitted <- f.s.SubmitTogether(f.ctx, again(targets[1]), again(targets[0])) }()
	const waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
	for n := int64(0); n == 0; {
		if n, err = f.s.Int(f.ctx, waiting); err != nil {
			t.Fatal(err)
		}
	}
	// The submissions wait for the first target. A publication that has it may want the second.
	if err := f.s.Change(f.ctx, "SELECT id FROM target WHERE name = $1 FOR UPDATE NOWAIT", targets[1]); err != nil {
		t.Errorf("the second target is locked before the first: %v", err)
	}
	close(let)
	if err := errors.Join(<-held, <-submitted); err != nil {
		t.Fatal(err)
	}
	f.sound()
}

func TestWhatIsGivenBackOnTheDayOfItsChargeWasNotSpent(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.limit(job.Account{Tenant: "acme", Unlimited: true, DailyCap: 10})
		spent := func(want int64) {
			t.Helper()
			if a, err := f.s.Account(f.ctx, "acme"); err != nil || a.SpentToday != want {
				t.Fatalf("spent %d today, want %d; %v", a.SpentToday, want, err)
			}
		}
		f.submit(f.submission("a"))
		f.end(f.claim("ingest"), outcome.Reject("empty", "It is empty."))
		spent(0)
		f.submit(f.submission("b"))
		f.end(f.claim("ingest"), outcome.Quarantine("bug", nil))
		f.submit(f.submission("c"))
		f.run("ingest", "")
		d := f.submit(f.submission("d"))
		spent(10)
		_ = f.declined(f.submission("e"), job.RefusedDailyCap)
		f.must(f.s.Change(f.ctx, "UPDATE account SET day = day + 1")) // what was charged was charged on the day before
		f.must(f.s.Cancel(f.ctx, "acme", d.ID, "me", ""))
		if n, err := f.s.Int(f.ctx, "SELECT spent FROM account"); err != nil || n != 10 || f.balance() != -5 {
			t.Fatalf("spent %d, balance %d, %v", n, f.balance(), err)
		}
		f.sound()
	})
}

func TestARefusalWhoseKeyCannotBeFreedIsAFaultAndTakesNoKey(t *testing.T) {
	f := newFixture(t, open(t, freshURL(t, "sqlite"), job.Options{})) // on Postgres a statement that fails undoes all by itself
	f.limit(job.Account{Tenant: "acme"})
	f.must(f.s.Change(f.ctx, "CREATE TRIGGER full BEFORE DELETE ON idempotency BEGIN SELECT RAISE(FAIL, 'full'); END"))
	sub := f.submission("talk")
	sub.IdempotencyKey, sub.BodyHash = "k", "h"
	_, err := f.s.Submit(f.ctx, sub)
	if _, refused := errors.AsType[*job.Refused](err); err == nil || refused {
		t.Errorf("submit: %v, want a fault", err)
	}
	f.must(f.s.Change(f.ctx, "DROP TRIGGER full"))
	f.grant("g", 100)
	if j := f.submit(sub); j.Known {
		t.Errorf("the key is that of %+v", j)
	}
	f.sound()
}

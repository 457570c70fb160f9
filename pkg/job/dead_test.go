package job_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/outcome"
)

func (f *fixture) sweep(m job.Outgoing) job.Settle {
	f.t.Helper()
	r := request(m, "ingest")
	got, err := f.s.Sweep(f.ctx, job.DeadLetter{Step: r.Step, Tenant: r.Tenant, Emission: r.Emission})
	if err != nil {
		f.t.Fatal(err)
	}
	f.pump(nil)
	return got
}

func TestARedriveGivesADeadStepANewRoundWithoutACharge(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		j := f.submit(f.submission("talk"))
		f.end(f.claim("ingest"), outcome.Quarantine("bug", nil))
		dead, err := f.s.DeadSteps(f.ctx, job.DeadFilter{Limit: 10})
		if err != nil || len(dead) != 1 || dead[0].Job != j.ID || dead[0].Class != "bug" || dead[0].DLQ != "dlq-ingest" {
			t.Fatalf("dead steps %+v, %v", dead, err)
		}
		copied := f.queues.take("dlq-ingest")
		if err := f.s.Redrive(f.ctx, dead[0].Step, "ann"); err != nil {
			t.Fatal(err)
		}
		if err := f.s.Redrive(f.ctx, j.ID, "ann"); !errors.Is(err, job.ErrEnded) {
			t.Fatalf("second redrive: %v, want ErrEnded", err)
		}
		f.pump(nil)
		if got := f.sweep(copied[0]); got.Do != job.Delete || got.Reason != job.ReasonOlderEmission {
			t.Fatalf("the copy of a redriven step: %+v", got)
		}
		if got := f.state(j.ID, job.Queued); got.Recovered != 1 || got.Steps[0].Attempts != 0 {
			t.Fatalf("job %+v", got)
		}
		f.run("ingest", "")
		f.state(j.ID, job.Completed)
		if f.balance() != 0 {
			t.Fatalf("balance %d: a recovered job is not charged again", f.balance())
		}
		f.sound()
	})
}

func TestASecondDeathRefundsNothingMore(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		j := f.submit(f.submission("talk"))
		for range 3 {
			f.end(f.claim("ingest"), outcome.Quarantine("bug", nil))
			f.state(j.ID, job.Failed)
			if f.balance() != 0 {
				t.Fatalf("balance %d", f.balance())
			}
			if err := f.s.Redrive(f.ctx, j.ID, "ann"); err != nil {
				t.Fatal(err)
			}
			f.pump(nil)
		}
		f.sound()
	})
}

func TestASupersededJobIsNotRedriven(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		j := f.submit(f.submission("talk"))
		f.end(f.claim("ingest"), outcome.Quarantine("bug", nil))
		sub := f.submission("talk")
		sub.Digest = "two"
		f.submit(sub)
		f.run("ingest", "transcribe")
		if err := f.s.Redrive(f.ctx, j.ID, "ann"); !errors.Is(err, job.ErrEnded) {
			t.Fatalf("redrive: %v, want ErrEnded", err)
		}
		if err := f.s.Redrive(f.ctx, "nothing", "ann"); !errors.Is(err, job.ErrNotFound) {
			t.Fatalf("redrive of nothing: %v, want ErrNotFound", err)
		}
	})
}

func TestTheSweepReadsTheRecordAndNotTheReceiveCount(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		j := f.submit(f.submission("talk"))
		m := f.message("ingest")
		c := f.claimRow(m, "ingest")
		if got := f.sweep(m); got.Do != job.Delete || got.Reason != job.ReasonHeld {
			t.Fatalf("live owner: %+v", got)
		}
		f.age(2 * time.Minute)
		if got := f.sweep(m); got.Do != job.Delete {
			t.Fatalf("dead owner: %+v", got)
		}
		again := f.message("ingest")
		if got := f.sweep(m); got.Do != job.Delete || got.Reason != job.ReasonOlderEmission {
			t.Fatalf("older: %+v", got)
		}
		if got := f.publish(job.Publication{Claim: c}); got.Accepted {
			t.Fatal("the dead owner published")
		}
		if got := f.sweep(again); got.Do != job.Delete { // moved before anybody claimed it
			t.Fatalf("queued: %+v", got)
		}
		again = f.message("ingest")
		f.accepted(job.Publication{Claim: f.claimRow(again, "ingest")})
		if got := f.sweep(again); got.Do != job.Delete || got.Reason != "done" {
			t.Fatalf("done: %+v", got)
		}
		f.state(j.ID, job.Completed)
		f.sound()
	})
}

func TestTheSweepLeavesWhatAPersonMustSee(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.submit(f.submission("talk"))
		m := f.message("ingest")
		f.end(f.claimRow(m, "ingest"), outcome.Quarantine("bug", nil))
		if got := f.sweep(f.queues.take("dlq-ingest")[0]); got.Do != job.Leave || got.Reason != "dead" {
			t.Fatalf("copy of a dead step: %+v", got)
		}
		for reason, d := range map[string]job.DeadLetter{
			job.ReasonUnknownStep:   {Step: "nobody", Tenant: "acme", Emission: 1},
			job.ReasonWrongTenant:   {Step: request(m, "").Step, Tenant: "mallory", Emission: 1},
			job.ReasonFutureMessage: {Step: request(m, "").Step, Tenant: "acme", Emission: 99},
		} {
			if got, err := f.s.Sweep(f.ctx, d); err != nil || got.Do != job.Leave || got.Reason != reason {
				t.Errorf("%s: %+v, %v", reason, got, err)
			}
		}
	})
}

func TestTheSweepLetsAStepDieByTheRecordsOwnCount(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		j := f.submit(f.submission("talk"))
		for range 2 {
			m := f.message("ingest")
			f.claimRow(m, "ingest")
			f.age(2 * time.Minute)
			f.sweep(m)
		}
		m := f.message("ingest")
		f.claimRow(m, "ingest")
		f.age(2 * time.Minute)
		f.sweep(m)
		f.state(j.ID, job.Failed)
		if n := len(f.queues.take("dlq-ingest")); n != 1 {
			t.Fatalf("%d dead letters", n)
		}
		f.sound()
	})
}

func TestGarbageIsWhatEndedUnpublishedLongAgo(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.submit(f.submission("talk"))
		m := f.message("ingest")
		crashed := f.claimRow(m, "ingest")
		f.age(2 * time.Minute)
		f.accepted(job.Publication{Claim: f.claimRow(m, "ingest")})
		list := func(age time.Duration) []job.Garbage {
			g, err := f.s.Garbage(f.ctx, age, 0, 10)
			if err != nil {
				t.Fatal(err)
			}
			return g
		}
		if g := list(time.Hour); len(g) != 0 {
			t.Fatalf("too young: %+v", g)
		}
		f.age(time.Hour)
		g := list(time.Hour)
		if len(g) != 1 || g[0].Attempt != crashed.Key || g[0].Job != crashed.Job {
			t.Fatalf("garbage %+v, want only %s", g, crashed.Key)
		}
		if err := f.s.Collected(f.ctx, g); err != nil {
			t.Fatal(err)
		}
		if g := list(0); len(g) != 0 {
			t.Fatalf("collected twice: %+v", g)
		}
	})
}

func TestTheAttemptWhoseProviderIsAwaitedIsSparedUntilTheWaitIsOver(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		j := f.submit(f.submission("talk"))
		c := f.claim("ingest")
		effect := f.begin(c, "order")
		f.end(c, outcome.Await(effect.ID, time.Now().Add(100*time.Hour)))
		f.state(j.ID, job.Awaiting)
		f.age(time.Hour)
		list := func() []job.Garbage {
			g, err := f.s.Garbage(f.ctx, time.Minute, 0, 10)
			if err != nil {
				t.Fatal(err)
			}
			return g
		}
		if g := list(); len(g) != 0 {
			t.Fatalf("the provider may still write there: %+v", g)
		}
		f.receive(job.Event{Provider: "p", ID: "1", Effect: effect.ID, Body: []byte("{}")})
		f.accepted(job.Publication{Claim: f.claim("ingest")})
		f.age(time.Hour)
		if g := list(); len(g) != 1 || g[0].Attempt != c.Key {
			t.Fatalf("garbage %+v, want the attempt that awaited, %s", g, c.Key)
		}
	})
}

func TestWhatTheResultOfAnEffectMayNameIsNoGarbage(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.submit(f.submission("talk"))
		m := f.message("ingest")
		c := f.claimRow(m, "ingest")
		effect := f.begin(c, "order")
		f.must(f.s.EffectDone(f.ctx, c, effect.ID, []byte("an object under the first execution's key")))
		f.age(2 * time.Minute) // the owner is lost
		f.accepted(job.Publication{Claim: f.claimRow(m, "ingest")})
		f.age(time.Hour)
		if g, err := f.s.Garbage(f.ctx, time.Minute, 0, 10); err != nil || len(g) != 0 {
			t.Errorf("garbage %+v, %v", g, err)
		}
	})
}

func TestAStepThatWaitsForItsNextTryIsCountedApartUntilItIsDue(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.submit(f.submission("talk"))
		f.end(f.claim("ingest"), outcome.RetryAfter(time.Minute, nil))
		for _, want := range []int64{1, 0} {
			got, err := f.s.Retrying(f.ctx)
			if err != nil || got["ingest"] != want {
				t.Fatalf("%v wait for their next try, %v; want %d", got, err, want)
			}
			f.age(time.Hour)
		}
	})
}

func TestAJobWithARefusedPartIsNotRedriven(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		j := f.submit(f.submission("talk"))
		f.fanOut("ingest", 2)
		parts := f.queues.take("q-compile")
		refused := f.claimRow(parts[1], "compile")
		f.end(f.claimRow(parts[0], "compile"), outcome.Quarantine("bug", nil))
		f.end(refused, outcome.Reject("bad", "Bad."))
		if err := f.s.Redrive(f.ctx, j.ID, "ann"); !errors.Is(err, job.ErrEnded) {
			t.Fatalf("redrive: %v, want ErrEnded", err)
		}
		f.state(j.ID, job.Failed)
		f.sound()
	})
}

func TestASiblingOfADeadPartEndsWhenANewerVersionHasTakenOver(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.submit(f.submission("talk"))
		f.fanOut("ingest", 3)
		parts := f.queues.take("q-compile")
		running := f.claimRow(parts[1], "compile")
		f.end(f.claimRow(parts[0], "compile"), outcome.Quarantine("bug", nil))
		sub := f.submission("talk")
		sub.Digest = "two"
		f.submit(sub)
		f.run("ingest", "transcribe")
		if got := f.publish(job.Publication{Claim: running, Next: next("publish")}); got.Accepted || got.Do != job.Delete || got.Reason != "superseded" {
			t.Fatalf("published %+v", got)
		}
		if no := f.refused(request(parts[2], "compile")); no.Do != job.Delete || no.Reason != "superseded" {
			t.Fatalf("refusal %+v", no.Settle)
		}
		f.sound()
	})
}

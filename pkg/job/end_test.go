package job_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/outcome"
)

var errBoom = errors.New("boom")

func TestDrainsAndDeferralsAreNotAttempts(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		j := f.submit(f.submission("talk"))
		m := f.message("ingest")
		for i, end := range []error{outcome.ErrDraining, errBoom, outcome.ErrDraining, errBoom, outcome.Defer(time.Minute, "breaker_open")} {
			got := f.end(f.claimRow(m, "ingest"), end)
			if !got.Accepted || got.Do != job.Hide {
				t.Fatalf("end %d: %+v", i, got)
			}
			if no := f.job(j.ID); got.After > 0 && no.State != job.Retrying {
				t.Fatalf("end %d: job is %s", i, no.State)
			}
			f.age(got.After)
		}
		c := f.claimRow(m, "ingest")
		if c.Attempt != 3 {
			t.Fatalf("attempt %d, want 3", c.Attempt)
		}
		f.accepted(job.Publication{Claim: c})
		if s := f.state(j.ID, job.Completed).Steps[0]; s.Attempts != 3 || len(s.History) != 6 {
			t.Fatalf("step %+v", s)
		}
		if n := len(f.queues.take("dlq-ingest")); n != 0 {
			t.Fatalf("%d dead letters", n)
		}
		f.sound()
	})
}

func TestAFailedStepIsNotRunBeforeItsWaitIsOver(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.submit(f.submission("talk"))
		m := f.message("ingest")
		f.end(f.claimRow(m, "ingest"), errBoom)
		if no := f.refused(request(m, "ingest")); no.Do != job.Hide || no.Reason != job.ReasonNotDue || no.After <= 0 || no.After > 30*time.Second {
			t.Fatalf("refusal %+v", no.Settle)
		}
		f.age(30 * time.Second)
		f.claimRow(m, "ingest")
	})
}

func TestTheThirdFailureIsTheStepsDeath(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		j := f.submit(f.submission("talk"))
		m := f.message("ingest")
		for range 2 {
			f.end(f.claimRow(m, "ingest"), errBoom)
			f.age(time.Hour)
		}
		got := f.end(f.claimRow(m, "ingest"), errBoom)
		if !got.Accepted || got.Do != job.Delete {
			t.Fatalf("death %+v", got)
		}
		end := f.state(j.ID, job.Failed)
		if end.Reason.Code != outcome.ReasonExhausted || end.Steps[0].Attempts != 3 {
			t.Fatalf("job %+v", end)
		}
		copies := f.queues.take("dlq-ingest")
		if len(copies) != 1 || copies[0].Attributes["dead-reason"] != outcome.ReasonExhausted || copies[0].Attributes["dead-cause"] != outcome.ReasonFailed || copies[0].Attributes["dead-attempts"] != "3" || copies[0].Attributes["dead-job"] != j.ID {
			t.Fatalf("dead letter %+v", copies)
		}
		if f.balance() != 0 {
			t.Fatalf("balance %d", f.balance())
		}
		if no := f.refused(request(m, "ingest")); no.Do != job.Delete || no.Reason != "dead" {
			t.Fatalf("message of a dead step: %+v", no.Settle)
		}
		f.sound()
	})
}

func TestQuarantineIsDeathAtOnceAndRejectIsNot(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		bad := f.submit(f.submission("bad"))
		f.end(f.claim("ingest"), outcome.Quarantine("undecodable", nil))
		if got := f.state(bad.ID, job.Failed); got.Reason.Code != "undecodable" {
			t.Fatalf("job %+v", got)
		}
		refused := f.submit(f.submission("refused"))
		f.end(f.claim("ingest"), outcome.Reject("not_media", "This file is not a recording."))
		if got := f.state(refused.ID, job.Rejected); got.Reason.Sentence != "This file is not a recording." || got.Steps[0].Attempts != 0 {
			t.Fatalf("job %+v", got)
		}
		if n := len(f.queues.take("dlq-ingest")); n != 1 {
			t.Fatalf("%d dead letters, want only the quarantined one", n)
		}
		if f.balance() != 0 {
			t.Fatalf("balance %d", f.balance())
		}
		f.sound()
	})
}

func TestAtTheReceiveLimitANewMessageIsSentInstead(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.submit(f.submission("talk"))
		m := f.message("ingest")
		if got := f.endAt(f.claimRow(m, "ingest"), outcome.ErrDraining, true); got.Do != job.Delete {
			t.Fatalf("released at the limit: %+v", got)
		}
		again := f.message("ingest")
		if no := f.refused(request(m, "ingest")); no.Do != job.Delete || no.Reason != job.ReasonOlderEmission {
			t.Fatalf("old message: %+v", no.Settle)
		}
		if got := f.endAt(f.claimRow(again, "ingest"), errBoom, true); got.Do != job.Delete {
			t.Fatalf("backed off at the limit: %+v", got)
		}
		if n := len(f.queues.take("q-ingest")); n != 0 {
			t.Fatal("a FIFO queue cannot delay a message, so the outbox must")
		}
		f.age(30 * time.Second)
		f.relay()
		f.claim("ingest")
	})
}

func TestOnAStandardQueueAWaitIsANewMessageThatTheQueueDelays(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.submit(f.submission("talk"))
		f.fanOut("ingest", 1)
		if got := f.end(f.claim("compile"), errBoom); got.Do != job.Delete {
			t.Fatalf("end %+v", got)
		}
		m := f.message("compile")
		if m.Delay < 29*time.Second || m.Delay > 30*time.Second {
			t.Fatalf("delay %v", m.Delay)
		}
		f.age(time.Minute)
		c := f.claimRow(m, "compile")
		if got := f.end(c, outcome.Defer(time.Hour, "breaker_open")); got.Do != job.Delete {
			t.Fatalf("end %+v", got)
		}
		f.age(44 * time.Minute)
		f.relay()
		if n := len(f.queues.take("q-compile")); n != 0 {
			t.Fatal("sent before the queue could keep the rest of the wait")
		}
		f.age(time.Minute + time.Second)
		f.relay()
		if m := f.message("compile"); m.Delay > 15*time.Minute || m.Delay < 14*time.Minute {
			t.Fatalf("delay %v", m.Delay)
		}
	})
}

func TestASiblingOfADeadPartMayFinishAndIsKept(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		j := f.submit(f.submission("talk"))
		f.fanOut("ingest", 2)
		parts := f.queues.take("q-compile")
		f.end(f.claimRow(parts[0], "compile"), outcome.Quarantine("bug", nil))
		f.state(j.ID, job.Failed)
		f.accepted(job.Publication{Claim: f.claimRow(parts[1], "compile"), Next: next("publish")})
		if err := f.s.Redrive(f.ctx, j.ID, "test"); err != nil {
			t.Fatal(err)
		}
		f.pump(nil)
		f.run("compile", "publish")
		f.run("publish", "")
		f.state(j.ID, job.Completed)
		f.sound()
	})
}

func TestARefusedPartTakesTheOthersAway(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		j := f.submit(f.submission("talk"))
		f.fanOut("ingest", 2)
		parts := f.queues.take("q-compile")
		other := f.claimRow(parts[1], "compile")
		f.end(f.claimRow(parts[0], "compile"), outcome.Reject("bad", "Bad."))
		f.state(j.ID, job.Rejected)
		if got := f.publish(job.Publication{Claim: other, Next: next("publish")}); got.Accepted {
			t.Fatal("a part of a refused job was accepted")
		}
		f.sound()
	})
}

func TestWorkThatAnOwnerHasLostIsReleasedWhenItsHandlerReturns(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		j := f.submit(f.submission("talk"))
		m := f.message("ingest")
		if got := f.end(f.claimRow(m, "ingest"), outcome.ErrStuck); got.Accepted || got.Do != job.Leave {
			t.Fatalf("stuck: %+v", got)
		}
		f.state(j.ID, job.Running)
		f.age(2 * time.Minute)
		if got := f.end(f.claimRow(m, "ingest"), outcome.ErrLeaseLost); !got.Accepted || got.Do != job.Hide || got.After != 0 {
			t.Fatalf("lost: %+v", got)
		}
		f.state(j.ID, job.Queued)
	})
}

func TestACancelledJobTakesItsStepsAway(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		fresh := f.submit(f.submission("fresh"))
		if err := f.s.Cancel(f.ctx, "acme", fresh.ID, "test", ""); err != nil {
			t.Fatal(err)
		}
		if f.balance() != 0 {
			t.Fatalf("balance %d: nothing ran", f.balance())
		}
		if no := f.refused(request(f.message("ingest"), "ingest")); no.Do != job.Delete {
			t.Fatalf("message of a cancelled job: %+v", no.Settle)
		}
		j := f.submit(f.submission("talk"))
		c := f.claim("ingest")
		if err := f.s.Cancel(f.ctx, "other", j.ID, "test", ""); !errors.Is(err, job.ErrNotFound) {
			t.Fatalf("cancelled by a stranger: %v", err)
		}
		if err := f.s.Cancel(f.ctx, "acme", j.ID, "test", ""); err != nil {
			t.Fatal(err)
		}
		f.state(j.ID, job.Cancelled)
		if got := f.publish(job.Publication{Claim: c}); got.Accepted || got.Do != job.Delete {
			t.Fatalf("publication of a cancelled step: %+v", got)
		}
		if err := f.s.Cancel(f.ctx, "acme", j.ID, "test", ""); !errors.Is(err, job.ErrEnded) {
			t.Fatalf("second cancel: %v", err)
		}
		f.sound()
	})
}

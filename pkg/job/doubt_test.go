package job_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/internal/sqldb"
	"github.com/stagefleet/stagefleet/pkg/job"
)

var errCut = errors.New("connection cut")

// forgetful loses the answers to so many commits of writes from now on, and then refuses so many.
type forgetful struct{ lose, refuse atomic.Int64 }

func (w *forgetful) fault(write, committed bool) error {
	switch {
	case !write:
		return nil
	case committed && w.lose.Load() > 0:
		w.lose.Add(-1)
		return errCut
	case !committed && w.lose.Load() == 0 && w.refuse.Load() > 0:
		w.refuse.Add(-1)
		return errCut
	}
	return nil
}

// onForgetful runs a test on both stores with a store that can lose answers, beside one that cannot.
func onForgetful(t *testing.T, test func(t *testing.T, f *fixture, s *job.Store, w *forgetful)) {
	onBothWithHost(t, func(t *testing.T, f *fixture, _ *host, url string) {
		w, s := &forgetful{}, open(t, url, job.Options{})
		s.Inject(w.fault)
		test(t, f, s, w)
	})
}

func TestAClaimWhoseAnswerWasLostIsTheSameClaimWhenAskedForAgain(t *testing.T) {
	onForgetful(t, func(t *testing.T, f *fixture, s *job.Store, w *forgetful) {
		j := f.submit(f.submission("talk"))
		m := f.message("ingest")
		w.lose.Store(1)
		c, err := s.Claim(f.ctx, request(m, "ingest"))
		if err != nil {
			t.Fatal(err)
		}
		if got := f.job(j.ID).Steps[0]; got.State != job.Running || len(got.History) != 1 || got.Crashes != 0 {
			t.Fatalf("step %+v", got)
		}
		f.accepted(job.Publication{Claim: c})
		if end := f.state(j.ID, job.Completed); len(end.Steps[0].History) != 1 {
			t.Fatalf("executions %+v", end.Steps[0].History)
		}
		f.sound()
	})
}

func TestAClaimThatStaysInDoubtIsGivenBackByThePingThatFindsTheStoreWell(t *testing.T) {
	onForgetful(t, func(t *testing.T, f *fixture, s *job.Store, w *forgetful) {
		j := f.submit(f.submission("talk"))
		m := f.message("ingest")
		w.lose.Store(1)
		w.refuse.Store(2) // asking again, and the first ping
		_, err := s.Claim(f.ctx, request(m, "ingest"))
		if _, refused := errors.AsType[*job.ClaimRefused](err); err == nil || refused {
			t.Fatalf("claim: %v, want a fault that is no refusal", err)
		}
		if f.job(j.ID).State != job.Running {
			t.Fatal("nothing is in doubt: this test proves nothing")
		}
		if err := s.Ping(f.ctx); err == nil || s.InDoubt() != 1 {
			t.Fatalf("ping: %v with %d claims in doubt, want an error and 1", err, s.InDoubt())
		}
		if err := s.Ping(f.ctx); err != nil || s.InDoubt() != 0 {
			t.Fatalf("ping: %v, %d claims in doubt", err, s.InDoubt())
		}
		c := f.claimRow(m, "ingest") // at once, by the same message
		if c.Attempt != 1 {
			t.Errorf("attempt %d, want 1", c.Attempt)
		}
		f.accepted(job.Publication{Claim: c})
		end := f.state(j.ID, job.Completed).Steps[0]
		if end.Crashes != 0 || end.Attempts != 1 || len(end.History) != 2 || end.History[0].Outcome != "interrupted" {
			t.Fatalf("step %+v", end)
		}
		f.sound()
	})
}

func TestAClaimInDoubtThatWasNeverMadeTakesNothingFromAnother(t *testing.T) {
	onForgetful(t, func(t *testing.T, f *fixture, s *job.Store, w *forgetful) {
		f.submit(f.submission("talk"))
		m := f.message("ingest")
		w.refuse.Store(2)
		if _, err := s.Claim(f.ctx, request(m, "ingest")); !errors.Is(err, sqldb.ErrUnknown) || s.InDoubt() != 1 {
			t.Fatalf("claim: %v, %d in doubt", err, s.InDoubt())
		}
		c := f.claimRow(m, "ingest")
		if err := s.Ping(f.ctx); err != nil {
			t.Fatal(err)
		}
		f.accepted(job.Publication{Claim: c})
		f.sound()
	})
}

func TestAClaimInDoubtAtTheQueuesLimitGetsANewMessage(t *testing.T) {
	onForgetful(t, func(t *testing.T, f *fixture, s *job.Store, w *forgetful) {
		f.submit(f.submission("talk"))
		r := request(f.message("ingest"), "ingest")
		r.ReceivesAtLimit = true
		w.lose.Store(1)
		w.refuse.Store(1)
		if _, err := s.Claim(f.ctx, r); err == nil {
			t.Fatal("claimed")
		}
		if err := s.Ping(f.ctx); err != nil {
			t.Fatal(err)
		}
		f.pump(s.Handed())
		if c := f.claim("ingest"); c.Emission != r.Emission+1 {
			t.Fatalf("emission %d", c.Emission)
		}
		f.sound()
	})
}

func TestAStoreThatIsClosedGivesBackWhatIsInDoubt(t *testing.T) {
	onBothWithHost(t, func(t *testing.T, f *fixture, _ *host, url string) {
		f.submit(f.submission("talk"))
		m := f.message("ingest")
		w := &forgetful{}
		s, err := job.Open(f.ctx, url, job.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s.Inject(w.fault)
		w.lose.Store(1)
		w.refuse.Store(1)
		if _, err := s.Claim(f.ctx, request(m, "ingest")); err == nil {
			t.Fatal("claimed")
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		f.claimRow(m, "ingest")
		f.sound()
	})
}

// What else a worker asks the record is asked again as the pool does it, and then has happened once.
func TestEndsWhoseAnswersWereLostHaveHappenedOnceWhenToldAgain(t *testing.T) {
	onForgetful(t, func(t *testing.T, f *fixture, s *job.Store, w *forgetful) {
		j := f.submit(f.submission("talk"))
		c := f.claim("ingest")
		w.lose.Store(1)
		p := job.Publication{Claim: c, Output: []byte(`{}`), Next: next("transcribe")}
		if _, err := s.Publish(f.ctx, p); !errors.Is(err, sqldb.ErrUnknown) {
			t.Fatalf("publish: %v", err)
		}
		if got, err := s.Publish(f.ctx, p); err != nil || got.Do != job.Delete || got.Reason != "done" {
			t.Fatalf("published again: %+v, %v", got, err)
		}
		f.age(time.Minute)
		f.relay() // the committer had no rows to send
		c = f.claim("transcribe")
		w.lose.Store(1)
		if _, err := s.End(f.ctx, ending(c, errBoom)); !errors.Is(err, sqldb.ErrUnknown) {
			t.Fatalf("end: %v", err)
		}
		if got, err := s.End(f.ctx, ending(c, errBoom)); err != nil || got.Accepted || got.Do != job.Leave {
			t.Fatalf("ended again: %+v, %v", got, err)
		}
		got := f.job(j.ID)
		if len(got.Steps) != 2 || got.Steps[0].Attempts != 1 || got.Steps[1].Attempts != 1 || got.Steps[1].State != job.Retrying {
			t.Fatalf("steps %+v", got.Steps)
		}
		w.lose.Store(1)
		sub := f.submission("other")
		sub.IdempotencyKey, sub.BodyHash = "k", "h"
		if _, err := s.Submit(f.ctx, sub); !errors.Is(err, sqldb.ErrUnknown) {
			t.Fatalf("submit: %v", err)
		}
		again, err := s.Submit(f.ctx, sub)
		if err != nil {
			t.Fatal(err)
		}
		page, _, err := f.s.Jobs(f.ctx, job.Filter{Tenant: "acme"})
		if err != nil || len(page) != 2 || !slices.ContainsFunc(page, func(j job.Job) bool { return j.ID == again.ID }) {
			t.Fatalf("jobs %+v, %v", page, err)
		}
		if err := s.Ping(context.WithoutCancel(f.ctx)); err != nil {
			t.Fatal(err)
		}
	})
}

func TestNobodyPaysForAJobOfWhichOnlyAClaimWasMadeThatNobodyKnewOf(t *testing.T) {
	onForgetful(t, func(t *testing.T, f *fixture, s *job.Store, w *forgetful) {
		j := f.submit(f.submission("talk"))
		m := f.message("ingest")
		w.lose.Store(1)
		w.refuse.Store(1)
		if _, err := s.Claim(f.ctx, request(m, "ingest")); err == nil {
			t.Fatal("claimed")
		}
		f.must(s.Ping(f.ctx))
		if h := f.job(j.ID).Steps[0].History; len(h) != 1 || h[0].Reason != "never_run" {
			t.Fatalf("executions %+v", h)
		}
		f.must(f.s.Cancel(f.ctx, "acme", j.ID, "me", ""))
		if f.balance() != 0 {
			t.Errorf("balance %d", f.balance())
		}
		f.sound()
	})
}

package job_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/outcome"
)

func TestAClaimGivesTheInputAndAnExecutionOfItsOwn(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		j := f.submit(f.submission("talk"))
		c := f.claim("ingest")
		if c.Job != j.ID || c.Target != "talk" || c.Version != 1 || c.Attempt != 1 || c.Part != -1 || string(c.Input) != `{"v":1}` || c.Event != nil {
			t.Fatalf("claim %+v", c)
		}
		if c.Key == "" || c.Token == "" || c.Key == c.Token {
			t.Fatalf("key %q and token %q", c.Key, c.Token)
		}
		f.state(j.ID, job.Running)
		f.sound()
	})
}

func TestRefusedMessagesAreSettledByTheirReason(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.submit(f.submission("talk"))
		good := request(f.message("ingest"), "ingest")
		for reason, spoil := range map[string]func(*job.ClaimRequest){
			job.ReasonUnknownStep:   func(r *job.ClaimRequest) { r.Step = "nobody" },
			job.ReasonWrongTenant:   func(r *job.ClaimRequest) { r.Tenant = "mallory" },
			job.ReasonWrongStage:    func(r *job.ClaimRequest) { r.Stage = "publish" },
			job.ReasonFutureMessage: func(r *job.ClaimRequest) { r.Emission++ },
		} {
			r := good
			spoil(&r)
			if no := f.refused(r); no.Do != job.Quarantine || no.Reason != reason {
				t.Errorf("%s: %+v, want quarantine", reason, no.Settle)
			}
		}
		old := good
		old.Emission = 0
		if no := f.refused(old); no.Do != job.Delete || no.Reason != job.ReasonOlderEmission {
			t.Errorf("older emission: %+v", no.Settle)
		}
		if _, err := f.s.Claim(f.ctx, good); err != nil {
			t.Errorf("refusals have changed the step: %v", err)
		}
		f.sound()
	})
}

func TestAStepHeldByALiveOwnerIsHiddenUntilItsLeaseEnds(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.submit(f.submission("talk"))
		m := f.message("ingest")
		f.claimRow(m, "ingest")
		no := f.refused(request(m, "ingest"))
		if no.Do != job.Hide || no.Reason != job.ReasonHeld || no.After < 50*time.Second || no.After > 61*time.Second {
			t.Fatalf("refusal %+v", no.Settle)
		}
		f.sound()
	})
}

func TestOneOfManyClaimsWins(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.submit(f.submission("talk"))
		m := f.message("ingest")
		var mu sync.Mutex
		won := 0
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				_, err := f.s.Claim(f.ctx, request(m, "ingest"))
				mu.Lock()
				defer mu.Unlock()
				if _, refused := errors.AsType[*job.ClaimRefused](err); err != nil && !refused {
					t.Error(err)
				} else if err == nil {
					won++
				}
			})
		}
		all.Wait()
		if won != 1 {
			t.Fatalf("%d owners", won)
		}
		f.sound()
	})
}

func TestAnExpiredLeaseIsTakenOverAndItsExecutionHasCrashed(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		j := f.submit(f.submission("talk"))
		m := f.message("ingest")
		dead := f.claimRow(m, "ingest")
		f.age(2 * time.Minute)
		heir := f.claimRow(m, "ingest")
		if heir.Attempt != 1 || heir.Key == dead.Key || heir.Token == dead.Token {
			t.Fatalf("heir %+v of %+v", heir, dead)
		}
		s := f.job(j.ID).Steps[0]
		if s.Attempts != 0 || s.Crashes != 1 || len(s.History) != 2 || s.History[0].Outcome != "crashed" || s.History[0].Counted {
			t.Fatalf("step %+v", s)
		}
		f.sound()
	})
}

func TestARunningStepWithoutALeaseCountsAsExpired(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.submit(f.submission("talk"))
		m := f.message("ingest")
		c := f.claimRow(m, "ingest")
		if err := f.s.Change(f.ctx, "UPDATE step SET lease_until = 0 WHERE id = $1", c.Step); err != nil {
			t.Fatal(err)
		}
		f.claimRow(m, "ingest")
		f.sound()
	})
}

func TestTheThirdCrashEndsTheStepInsteadOfRunningIt(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		j := f.submit(f.submission("talk"))
		m := f.message("ingest")
		for range 3 {
			f.claimRow(m, "ingest")
			f.age(2 * time.Minute)
		}
		no := f.refused(request(m, "ingest"))
		if no.Do != job.Delete {
			t.Fatalf("refusal %+v", no.Settle)
		}
		got := f.state(j.ID, job.Failed)
		if got.Reason.Code != "crashed_out" || got.Steps[0].Crashes != 3 || got.Steps[0].Attempts != 0 {
			t.Fatalf("job %+v", got)
		}
		if copies := f.queues.take("dlq-ingest"); len(copies) != 1 || copies[0].Attributes["dead-reason"] != "crashed_out" {
			t.Fatalf("dead-letter copies %+v", copies)
		}
		if f.balance() != 0 {
			t.Fatalf("balance %d after a failure", f.balance())
		}
		f.sound()
	})
}

func TestRenewTellsWhatHasBecomeOfEveryClaim(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		claims := map[string]job.Claim{}
		jobs := map[string]job.Job{}
		for _, name := range []string{"kept", "lapsed", "cancelled", "superseded", "stolen"} {
			jobs[name] = f.submit(f.submission(name))
			claims[name] = f.claim("ingest")
		}
		change := func(text string, args ...any) {
			if err := f.s.Change(f.ctx, text, args...); err != nil {
				t.Fatal(err)
			}
		}
		change("UPDATE step SET lease_until = 1 WHERE id = $1", claims["lapsed"].Step)
		change("UPDATE step SET token = 'other' WHERE id = $1", claims["stolen"].Step)
		if err := f.s.Cancel(f.ctx, "acme", jobs["cancelled"].ID, "test", ""); err != nil {
			t.Fatal(err)
		}
		newer := f.submission("superseded")
		newer.Digest = "new"
		f.submit(newer)
		f.run("ingest", "transcribe")
		names := []string{"kept", "lapsed", "cancelled", "superseded", "stolen"}
		var rs []job.Renewal
		for _, n := range names {
			rs = append(rs, job.Renewal{Step: claims[n].Step, Token: claims[n].Token, Lease: time.Hour})
		}
		errs, err := f.s.Renew(f.ctx, rs)
		if err != nil {
			t.Fatal(err)
		}
		want := []error{nil, outcome.ErrLeaseLost, outcome.ErrCancelled, outcome.ErrSuperseded, outcome.ErrLeaseLost}
		for i := range want {
			if !errors.Is(errs[i], want[i]) || (want[i] == nil) != (errs[i] == nil) {
				t.Errorf("%s: %v, want %v", names[i], errs[i], want[i])
			}
		}
		f.age(30 * time.Minute)
		f.accepted(job.Publication{Claim: claims["kept"], Next: next("transcribe")})
	})
}

func TestOfTwoOwnersOfAStepThatRenewTogetherOneIsToldThatItHasLostIt(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.submit(f.submission("talk"))
		m := f.message("ingest")
		late := f.claimRow(m, "ingest")
		f.age(2 * time.Minute)
		owner := f.claimRow(m, "ingest")
		for _, claims := range [][]job.Claim{{late, owner}, {owner, late}} {
			var rs []job.Renewal
			for _, c := range claims {
				rs = append(rs, job.Renewal{Step: c.Step, Token: c.Token, Lease: time.Minute})
			}
			errs, err := f.s.Renew(f.ctx, rs)
			if err != nil {
				t.Fatal(err)
			}
			for i, c := range claims {
				if lost := c.Token == late.Token; errors.Is(errs[i], outcome.ErrLeaseLost) != lost || (errs[i] != nil) != lost {
					t.Errorf("claim %d: %v; is it lost? %v", i, errs[i], lost)
				}
			}
		}
	})
}

func TestAClaimThatSharesItsTransactionWithADeathHasItsInput(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		dying := f.submit(f.submission("dying"))
		m := f.message("ingest")
		for range job.DefaultMaxCrashes {
			f.claimRow(m, "ingest")
			f.age(2 * time.Minute)
		}
		f.submit(f.submission("alive"))
		got, err := f.s.ClaimTogether(f.ctx, request(m, "ingest"), request(f.message("ingest"), "ingest"))
		if err != nil || got[0] != nil || got[1] == nil {
			t.Fatalf("claims %+v, %v", got, err)
		}
		f.state(dying.ID, job.Failed)
		if string(got[1].Input) != `{"v":1}` {
			t.Errorf("input %q", got[1].Input)
		}
		f.sound()
	})
}

func TestProgressIsShownWhileTheStepRunsAndOnlyFromItsOwner(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		j := f.submit(f.submission("talk"))
		c := f.claim("ingest")
		before := f.job(j.ID).Seq
		if err := f.s.Progress(f.ctx, c, job.Progress{Unit: "s", Done: 3, Total: 60}); err != nil {
			t.Fatal(err)
		}
		stranger := c
		stranger.Token = "other"
		if err := f.s.Progress(f.ctx, stranger, job.Progress{Unit: "s", Done: 59, Total: 60}); err != nil {
			t.Fatal(err)
		}
		got := f.job(j.ID)
		if p := got.Steps[0].Progress; p == nil || p.Done != 3 {
			t.Fatalf("progress %+v", p)
		}
		if got.Seq <= before {
			t.Fatal("progress has not moved the change number")
		}
		if seq, err := f.s.Seq(f.ctx, "acme", j.ID); err != nil || seq != got.Seq {
			t.Fatalf("Seq %d, %v; the job says %d", seq, err, got.Seq)
		}
	})
}

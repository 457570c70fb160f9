package job_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/outcome"
)

const hookURL = "https://example.org/hook"

func (f *fixture) hooked(target string) job.Job {
	f.t.Helper()
	sub := f.submission(target)
	sub.Webhook = hookURL
	return f.submit(sub)
}

func (f *fixture) due() []job.DueHook {
	f.t.Helper()
	hooks, err := f.s.DueHooks(f.ctx, 100, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	return hooks
}

func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) hooks(j job.Job) []job.Hook {
	f.t.Helper()
	hooks, err := f.s.Hooks(f.ctx, "acme", j.ID)
	if err != nil {
		f.t.Fatal(err)
	}
	return hooks
}

func (f *fixture) settleHook(h job.DueHook, r job.HookResult) {
	f.t.Helper()
	if err := f.s.HookDone(f.ctx, h, r); err != nil {
		f.t.Fatal(err)
	}
}

func TestTheEndOfAJobIsReportedToWhoeverAskedForIt(t *testing.T) {
	ends := map[string]func(f *fixture, j job.Job){
		"completed": func(f *fixture, _ job.Job) { f.run("ingest", "") },
		"refused":   func(f *fixture, _ job.Job) { f.end(f.claim("ingest"), outcome.Reject("too_long", "It is too long.")) },
		"failed":    func(f *fixture, _ job.Job) { f.end(f.claim("ingest"), outcome.Quarantine("bug", nil)) },
		"cancelled": func(f *fixture, j job.Job) { f.must(f.s.Cancel(f.ctx, "acme", j.ID, "me", "")) },
		"superseded": func(f *fixture, _ job.Job) {
			sub := f.submission("talk")
			sub.Digest = "other"
			f.submit(sub)
			rows := f.queues.take("q-ingest")
			f.accepted(job.Publication{Claim: f.claimRow(rows[1], "ingest"), Next: next("caption")})
		},
	}
	for state, end := range ends {
		t.Run(state, func(t *testing.T) {
			onBoth(t, func(t *testing.T, f *fixture) {
				j := f.hooked("talk")
				if hooks := f.due(); len(hooks) != 0 {
					t.Fatalf("reported before the end: %+v", hooks)
				}
				end(f, j)
				hooks := f.due()
				if len(hooks) != 1 || hooks[0].URL != hookURL || hooks[0].Tenant != "acme" {
					t.Fatalf("reports %+v", hooks)
				}
				var body struct {
					Type string
					Data struct {
						Job, Target, State string
						Version            int64
						Reason             *job.Reason
					}
				}
				if err := json.Unmarshal(hooks[0].Body, &body); err != nil {
					t.Fatal(err)
				}
				if body.Type != "job."+state || body.Data.State != state || body.Data.Job != j.ID || body.Data.Target != "talk" || body.Data.Version != 1 {
					t.Errorf("body %s", hooks[0].Body)
				}
				if f.job(j.ID).Reason != nil && body.Data.Reason == nil {
					t.Errorf("the reason is missing: %s", hooks[0].Body)
				}
			})
		})
	}
}

func TestNobodyIsToldWhoDidNotAsk(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		j := f.submit(f.submission("talk"))
		f.run("ingest", "")
		if len(f.due()) != 0 || len(f.hooks(j)) != 0 {
			t.Error("a report was made")
		}
	})
}

func TestAReportGoesOnUntilItIsAcknowledgedOrGivenUp(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		j := f.hooked("talk")
		f.run("ingest", "")
		is := func(state job.HookState, failures int, again bool) {
			t.Helper()
			got := f.hooks(j)
			if len(got) != 1 || got[0].State != state || got[0].Failures != failures || (got[0].NextAt != nil) != again {
				t.Fatalf("got %+v, want %s", got, state)
			}
		}
		is(job.HookPending, 0, true)
		first := f.due()[0]
		if len(f.due()) != 0 {
			t.Fatal("two senders have it")
		}
		f.settleHook(first, job.HookResult{State: job.HookSent, Failures: 1, Again: time.Minute})
		is(job.HookSent, 1, true)
		if len(f.due()) != 0 {
			t.Fatal("it is due too early")
		}
		f.age(time.Minute)
		second := f.due()[0]
		if second.ID != first.ID {
			t.Fatal("the identifier has changed: the receiver would take it for another event")
		}
		f.age(time.Minute) // the sender dies; another takes the report, and the first comes back too late
		third := f.due()[0]
		f.settleHook(second, job.HookResult{State: job.HookGivenUp, Failures: 9})
		is(job.HookSent, 1, true)
		f.settleHook(third, job.HookResult{State: job.HookAcknowledged, Failures: 1})
		is(job.HookAcknowledged, 1, false)
		f.age(time.Hour)
		if len(f.due()) != 0 {
			t.Fatal("an acknowledged report is sent again")
		}
		f.must(f.s.Forget(f.ctx))
		is(job.HookAcknowledged, 1, false)
		f.age(31 * 24 * time.Hour)
		f.must(f.s.Forget(f.ctx))
		if len(f.hooks(j)) != 0 {
			t.Error("it is kept for ever")
		}
	})
}

func TestASecondEndIsASecondEvent(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		j := f.hooked("talk")
		f.end(f.claim("ingest"), outcome.Quarantine("bug", nil))
		f.must(f.s.Redrive(f.ctx, f.job(j.ID).Steps[0].ID, "me"))
		f.pump(nil)
		f.run("ingest", "")
		hooks := f.due()
		if len(hooks) != 2 || hooks[0].ID == hooks[1].ID {
			t.Fatalf("reports %+v", hooks)
		}
	})
}

func TestOneTenantsReportsDoNotHoldUpAnothers(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		for _, target := range []string{"a", "b", "c", "d", "e", "f", "g"} {
			f.hooked(target)
			f.run("ingest", "")
		}
		sub := f.submission("quiet")
		sub.Tenant, sub.Webhook = "zeta", hookURL
		f.submit(sub)
		f.run("ingest", "")
		tenants := map[string]int{}
		for _, h := range f.due() {
			tenants[h.Tenant]++
		}
		if tenants["acme"] != 4 || tenants["zeta"] != 1 {
			t.Errorf("under way: %v", tenants)
		}
		if more, err := f.s.DueHooks(f.ctx, 100, []string{"acme"}); err != nil || len(more) != 0 {
			t.Errorf("a busy tenant got more: %+v, %v", more, err)
		}
	})
}

func TestASecretIsMadeOnceAndReplacedWithOverlap(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		secrets := func(fresh string) []string {
			t.Helper()
			got, err := f.s.HookSecrets(f.ctx, "acme", fresh)
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		if got := secrets("one"); !slices.Equal(got, []string{"one"}) {
			t.Fatalf("made %v", got)
		}
		if got := secrets("two"); !slices.Equal(got, []string{"one"}) {
			t.Fatalf("made again: %v", got)
		}
		f.must(f.s.RotateHookSecret(f.ctx, "acme", "three", "me", time.Hour))
		if got := secrets("x"); !slices.Equal(got, []string{"three", "one"}) {
			t.Fatalf("while it is replaced: %v", got)
		}
		f.must(f.s.Change(f.ctx, `UPDATE webhook_secret SET expires_at = 1 WHERE expires_at > 0`))
		if got := secrets("x"); !slices.Equal(got, []string{"three"}) {
			t.Fatalf("afterwards: %v", got)
		}
	})
}

func TestOfTwoServersThatTakeReportsAtOnceOneGetsEach(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.hooked("talk")
		f.run("ingest", "")
		if !f.s.Leads(f.ctx) {
			t.Fatal("nobody leads")
		}
		took, let, held := make(chan int, 1), make(chan struct{}), make(chan error, 1)
		go func() { held <- f.s.HoldHooks(f.ctx, took, let) }()
		if n := <-took; n != 1 {
			t.Fatalf("%d taken", n)
		}
		second := make(chan []job.DueHook, 1)
		go func() {
			hooks, err := f.s.DueHooks(f.ctx, 100, nil)
			if err != nil {
				t.Error(err)
			}
			second <- hooks
		}()
		f.untilWaiting()
		close(let)
		if hooks := <-second; len(hooks) != 0 {
			t.Errorf("the second server has it too: %+v", hooks)
		}
		f.must(<-held)
	})
}

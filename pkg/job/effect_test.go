package job_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/outcome"
)

func (f *fixture) begin(c job.Claim, name string) job.Effect {
	f.t.Helper()
	e, err := f.s.EffectBegin(f.ctx, c, name)
	if err != nil {
		f.t.Fatal(err)
	}
	return e
}

func (f *fixture) receive(e job.Event) bool {
	f.t.Helper()
	fresh, err := f.s.Receive(f.ctx, e)
	if err != nil {
		f.t.Fatal(err)
	}
	f.pump(nil)
	return fresh
}

func TestAnEffectKeepsItsIdentifierAndItsResultOverExecutions(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.submit(f.submission("talk"))
		m := f.message("ingest")
		c := f.claimRow(m, "ingest")
		first := f.begin(c, "buy")
		if first.Done || first.Again || first.ID == "" {
			t.Fatalf("effect %+v", first)
		}
		f.age(2 * time.Minute)
		c = f.claimRow(m, "ingest")
		again := f.begin(c, "buy")
		if again.ID != first.ID || !again.Again || again.Done {
			t.Fatalf("after a crash: %+v, first %+v", again, first)
		}
		if err := f.s.EffectDone(f.ctx, c, again.ID, []byte{0, 1, 255}); err != nil {
			t.Fatal(err)
		}
		done := f.begin(c, "buy")
		if !done.Done || string(done.Result) != "\x00\x01\xff" {
			t.Fatalf("done: %+v", done)
		}
		if other := f.begin(c, "sell"); other.ID == first.ID {
			t.Fatal("two effects share an identifier")
		}
	})
}

func TestOnlyTheOwnerBeginsAnEffect(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.submit(f.submission("talk"))
		m := f.message("ingest")
		late := f.claimRow(m, "ingest")
		f.age(2 * time.Minute)
		f.claimRow(m, "ingest")
		if _, err := f.s.EffectBegin(f.ctx, late, "buy"); !errors.Is(err, job.ErrNotOwner) {
			t.Fatalf("error %v, want ErrNotOwner", err)
		}
	})
}

func TestAnEventFoundInTheInboxOrComingLaterResumesTheStepOnce(t *testing.T) {
	for _, early := range []bool{true, false} {
		name := map[bool]string{true: "before the await commits", false: "after it"}[early]
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, f *fixture) {
				j := f.submit(f.submission("talk"))
				c := f.claim("ingest")
				effect := f.begin(c, "transcribe")
				event := job.Event{Provider: "p", ID: "e1", Effect: effect.ID, Body: []byte(`{"words":7}`)}
				if early && !f.receive(event) {
					t.Fatal("a new event was known")
				}
				f.end(c, outcome.Await(effect.ID, time.Now().Add(time.Hour)))
				if !early {
					f.state(j.ID, job.Awaiting)
					f.receive(event)
				}
				for range 3 {
					if f.receive(event) {
						t.Fatal("a known event was new")
					}
				}
				c = f.claim("ingest")
				if string(c.Event) != `{"words":7}` || c.Attempt != 1 {
					t.Fatalf("claim %+v", c)
				}
				f.accepted(job.Publication{Claim: c})
				f.sound()
			})
		})
	}
}

func TestASilentProviderIsAskedAfterTheDeadline(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		j := f.submit(f.submission("talk"))
		c := f.claim("ingest")
		effect := f.begin(c, "transcribe")
		f.end(c, outcome.Await(effect.ID, time.Now().Add(time.Hour)))
		f.reconcile()
		f.state(j.ID, job.Awaiting)
		f.age(time.Hour)
		f.reconcile()
		c = f.claim("ingest")
		if c.Event != nil {
			t.Fatalf("event %s from nowhere", c.Event)
		}
		f.receive(job.Event{Provider: "p", ID: "late", Effect: effect.ID, Body: []byte(`{}`)})
		f.accepted(job.Publication{Claim: c})
		f.sound()
	})
}

func TestAnEventWakesItsStepOnceHoweverOftenThatParks(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		j := f.submit(f.submission("talk"))
		c := f.claim("ingest")
		first := f.begin(c, "first")
		f.receive(job.Event{Provider: "p", ID: "e1", Effect: first.ID, Body: []byte(`{"n":1}`)})
		f.end(c, outcome.Await(first.ID, time.Now().Add(time.Hour)))
		c = f.claim("ingest")
		f.end(c, outcome.Await(first.ID, time.Now().Add(time.Hour)))
		f.state(j.ID, job.Awaiting)
		f.receive(job.Event{Provider: "p", ID: "e2", Effect: first.ID, Body: []byte(`{"n":2}`)})
		if c = f.claim("ingest"); string(c.Event) != `{"n":2}` {
			t.Fatalf("event %s", c.Event)
		}
		second := f.begin(c, "second")
		f.end(c, outcome.Await(second.ID, time.Time{}))
		f.reconcile()
		if c = f.claim("ingest"); c.Event != nil {
			t.Fatalf("the deadline of one effect brought the event of another: %s", c.Event)
		}
	})
}

func TestAnEventThatIsKnownDoesNotWakeAStepThatAwaitsAnother(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		j := f.submit(f.submission("talk"))
		c := f.claim("ingest")
		effect := f.begin(c, "transcribe")
		half := job.Event{Provider: "p", ID: "half", Effect: effect.ID, Body: []byte(`{"done":50}`)}
		f.receive(half)
		f.end(c, outcome.Await(effect.ID, time.Now().Add(time.Hour)))
		f.end(f.claim("ingest"), outcome.Await(effect.ID, time.Now().Add(time.Hour)))
		if f.receive(half) {
			t.Fatal("a known event was new")
		}
		f.state(j.ID, job.Awaiting)
		f.receive(job.Event{Provider: "p", ID: "whole", Effect: effect.ID, Body: []byte(`{"done":100}`)})
		if c := f.claim("ingest"); string(c.Event) != `{"done":100}` {
			t.Fatalf("event %s", c.Event)
		}
		f.sound()
	})
}

// An event waits for another that is being taken in. Stamped before its wait, it would count as seen with the other one.
func TestOfTwoEventsAtOnceTheOneThatIsTakenInLaterCountsAsLater(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.submit(f.submission("talk"))
		c := f.claim("ingest")
		effect := f.begin(c, "transcribe")
		locked, let, done := make(chan struct{}), make(chan struct{}), make(chan error, 2)
		go func() { done <- f.s.HoldAwait(f.ctx, effect.ID, "first", locked, let) }()
		<-locked
		go func() {
			_, err := f.s.Receive(f.ctx, job.Event{Provider: "p", ID: "second", Effect: effect.ID, Body: []byte(`{}`)})
			done <- err
		}()
		f.untilWaiting()
		close(let)
		for range 2 {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		if order, err := f.s.Strings(f.ctx, "SELECT event FROM inbox ORDER BY at"); err != nil || fmt.Sprint(order) != "[first second]" {
			t.Fatalf("events %v, %v", order, err)
		}
	})
}

// untilWaiting returns when somebody waits for a lock. On SQLite one waits before its transaction begins, so there is nothing to see.
func (f *fixture) untilWaiting() {
	f.t.Helper()
	for f.s.Postgres() {
		n, err := f.s.Int(f.ctx, "SELECT COUNT(*) FROM pg_locks l JOIN pg_database d ON d.datname = current_database() WHERE NOT l.granted AND l.pid IN (SELECT a.pid FROM pg_stat_activity a WHERE a.datid = d.oid)")
		if err != nil {
			f.t.Fatal(err)
		}
		if n > 0 {
			return
		}
	}
}

func TestAnAwaitThatCannotBeWokenDoesNotHoldUpTheOthers(t *testing.T) {
	onForgetful(t, func(t *testing.T, f *fixture, s *job.Store, w *forgetful) {
		for _, target := range []string{"a", "b"} {
			f.submit(f.submission(target))
			c := f.claim("ingest")
			f.end(c, outcome.Await(f.begin(c, "transcribe").ID, time.Now().Add(time.Minute)))
		}
		f.age(time.Hour)
		w.refuse.Store(1)
		if err := s.ReconcileOnce(f.ctx, f.queues, map[string]int{}); err == nil {
			t.Fatal("no fault: this test proves nothing")
		}
		f.pump(s.Handed())
		f.claim("ingest")
		f.sound()
	})
}

func TestAwaitingAnEffectThatWasNeverBegunIsTheStepsDeath(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		j := f.submit(f.submission("talk"))
		c := f.claim("ingest")
		v := outcome.Of(outcome.Await("nothing", time.Now()))
		got, err := f.s.End(f.ctx, job.Ending{Claim: c, Verdict: v, Action: outcome.Policy{}.Decide(v, 1, 0)})
		if err != nil || !got.Accepted || got.Do != job.Delete {
			t.Fatalf("end %+v, %v", got, err)
		}
		f.pump(got.Outgoing)
		if end := f.state(j.ID, job.Failed); end.Reason.Code != job.ReasonAwaitUnknown {
			t.Fatalf("job %+v", end)
		}
		f.sound()
	})
}

func TestAResultThatComesLateTakesThePlaceOfNoOther(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.submit(f.submission("talk"))
		m := f.message("ingest")
		late := f.claimRow(m, "ingest")
		f.begin(late, "buy")
		f.begin(late, "sell")
		f.age(2 * time.Minute)
		owner := f.claimRow(m, "ingest")
		for name, order := range map[string][]job.Claim{"buy": {owner, late}, "sell": {late, owner}} {
			for _, c := range order {
				f.must(f.s.EffectDone(f.ctx, c, f.begin(owner, name).ID, []byte(c.Token)))
			}
			if got := f.begin(owner, name); string(got.Result) != owner.Token {
				t.Errorf("%s: the result is the late owner's", name)
			}
		}
	})
}

func TestAnAwaitThatWasParkedAnewSinceSomebodyLookedIsNotOverdue(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		j := f.submit(f.submission("talk"))
		c := f.claim("ingest")
		e := f.begin(c, "x")
		f.end(c, outcome.Await(e.ID, time.Now().Add(time.Hour)))
		f.must(f.s.ExpireAwait(f.ctx, e.ID))
		f.state(j.ID, job.Awaiting)
		f.age(2 * time.Hour)
		f.must(f.s.ExpireAwait(f.ctx, e.ID))
		f.pump(nil)
		f.state(j.ID, job.Queued)
		f.sound()
	})
}

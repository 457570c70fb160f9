package job_test

import (
	"errors"
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

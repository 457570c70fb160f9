package job_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/outcome"
)

func TestAPublicationMovesTheJobOnAndTheLastOneEndsIt(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		j := f.submit(f.submission("talk"))
		f.run("ingest", "transcribe")
		c := f.claim("transcribe")
		if string(c.Input) != `{"done":"ingest"}` {
			t.Fatalf("input %s", c.Input)
		}
		got := f.accepted(job.Publication{Claim: c, Result: &job.Result{Dir: "jobs/x", Manifest: "m", Index: "i"}})
		if got.Do != job.Delete {
			t.Fatalf("published %+v", got)
		}
		end := f.state(j.ID, job.Completed)
		if end.Result == nil || end.Result.Manifest != "m" || !end.Current || end.EndedAt == nil {
			t.Fatalf("job %+v", end)
		}
		if f.balance() != -5 {
			t.Fatalf("balance %d", f.balance())
		}
		f.sound()
	})
}

func TestTimingsAreKeptPerExecution(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		j := f.submit(f.submission("talk"))
		c := f.claim("ingest")
		now := time.Now().Truncate(time.Microsecond)
		f.accepted(job.Publication{Claim: c, Next: next("transcribe"), Timings: job.Timings{
			ReceivedAt: now.Add(-4 * time.Second), StartedAt: now.Add(-3 * time.Second), EndedAt: now.Add(-time.Second),
			ProviderWait: 500 * time.Millisecond, Usage: job.Usage{Requests: 2, InputTokens: 1200, OutputTokens: 90},
			Tools: []job.ToolRun{{Tool: "ffmpeg", Start: now.Add(-2 * time.Second), End: now.Add(-time.Second), CPU: time.Second}},
		}})
		h := f.job(j.ID).Steps[0].History
		if len(h) != 1 || h[0].ExecutionMs != 2000 || h[0].ProviderWaitMs != 500 || h[0].Usage != (job.Usage{Requests: 2, InputTokens: 1200, OutputTokens: 90}) || h[0].PublicationMs < 900 || len(h[0].Tools) != 1 || h[0].Tools[0].CPU != time.Second {
			t.Fatalf("history %+v", h)
		}
		got, err := f.s.Executions(f.ctx, "ingest", 10)
		if err != nil || len(got) != 1 || got[0] != (job.Execution{Duration: 2 * time.Second, Usage: h[0].Usage}) {
			t.Errorf("executions %+v, %v", got, err)
		}
		if none, err := f.s.Executions(f.ctx, "transcribe", 10); err != nil || len(none) != 0 {
			t.Errorf("executions of a stage that ran nothing: %+v, %v", none, err)
		}
	})
}

func TestGapsEndTheJobCompletedWithGapsAndReachLaterSteps(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		j := f.submit(f.submission("talk"))
		f.accepted(job.Publication{Claim: f.claim("ingest"), Next: next("transcribe"), Gaps: []outcome.Gap{{Code: "no_audio", Sentence: "There is no sound."}}})
		c := f.claim("transcribe")
		if len(c.Gaps) != 1 || c.Gaps[0].Code != "no_audio" {
			t.Fatalf("gaps %+v", c.Gaps)
		}
		f.accepted(job.Publication{Claim: c})
		if got := f.state(j.ID, job.CompletedWithGaps); len(got.Gaps) != 1 {
			t.Fatalf("job %+v", got)
		}
		f.sound()
	})
}

func TestALateOwnerChangesNothingOnceSomebodyElseRuns(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.submit(f.submission("talk"))
		m := f.message("ingest")
		late := f.claimRow(m, "ingest")
		f.age(2 * time.Minute)
		heir := f.claimRow(m, "ingest")
		if got := f.publish(job.Publication{Claim: late, Next: next("transcribe")}); got.Accepted || got.Do != job.Leave || got.Reason != job.ReasonStaleOwner {
			t.Fatalf("late publication: %+v", got)
		}
		if got := f.end(late, outcome.Retry(nil)); got.Accepted || got.Do != job.Leave {
			t.Fatalf("late end: %+v", got)
		}
		f.accepted(job.Publication{Claim: heir, Next: next("transcribe")})
		if got := f.publish(job.Publication{Claim: late, Next: next("transcribe")}); got.Accepted || got.Do != job.Delete {
			t.Fatalf("publication of a done step: %+v", got)
		}
		f.message("transcribe")
	})
}

func TestALapsedOwnerWithoutAnHeirReleasesTheStep(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		j := f.submit(f.submission("talk"))
		c := f.claim("ingest")
		f.age(2 * time.Minute)
		if got := f.publish(job.Publication{Claim: c, Next: next("transcribe")}); got.Accepted || got.Reason != job.ReasonLapsed || got.Do != job.Delete {
			t.Fatalf("lapsed publication: %+v", got)
		}
		s := f.state(j.ID, job.Queued).Steps[0]
		if s.Attempts != 0 || s.Crashes != 0 {
			t.Fatalf("step %+v", s)
		}
		f.run("ingest", "transcribe")
		f.message("transcribe")
	})
}

func TestAFanOutJoinsWhenItsLastPartIsDone(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		j := f.submit(f.submission("talk"))
		f.fanOut("ingest", 3)
		parts := f.queues.take("q-compile")
		if len(parts) != 3 || parts[0].Group != "acme" || parts[0].FIFO {
			t.Fatalf("parts %+v", parts)
		}
		for _, i := range []int{2, 0, 1} {
			c := f.claimRow(parts[i], "compile")
			f.accepted(job.Publication{Claim: c, Next: next("publish"), Output: json.RawMessage(fmt.Sprintf(`{"clip":%d}`, c.Part))})
		}
		c := f.claim("publish")
		if want := `{"v":1,"head":{"done":"ingest"},"parts":[{"clip":0},{"clip":1},{"clip":2}]}`; string(c.Input) != want {
			t.Fatalf("input %s, want %s", c.Input, want)
		}
		f.accepted(job.Publication{Claim: c})
		if got := f.state(j.ID, job.Completed); len(got.Steps) != 5 || *got.Steps[1].Part != 0 {
			t.Fatalf("steps %+v", got.Steps)
		}
		f.sound()
	})
}

func TestAFanOutOfNothingGoesStraightToItsJoin(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		j := f.submit(f.submission("talk"))
		f.fanOut("ingest", 0)
		c := f.claim("publish")
		if want := `{"v":1,"head":{"done":"ingest"},"parts":[]}`; string(c.Input) != want {
			t.Fatalf("input %s, want %s", c.Input, want)
		}
		f.accepted(job.Publication{Claim: c})
		f.state(j.ID, job.Completed)
		f.sound()
	})
}

func TestPartsFinishingAtOnceJoinOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		for round := range 5 {
			f.submit(f.submission(fmt.Sprint("talk", round)))
			f.fanOut("ingest", 8)
			var all sync.WaitGroup
			for _, m := range f.queues.take("q-compile") {
				c := f.claimRow(m, "compile")
				all.Go(func() {
					got, err := f.s.Publish(f.ctx, job.Publication{Claim: c, Next: next("publish"), Output: json.RawMessage(`{}`)})
					if err != nil || !got.Accepted {
						t.Errorf("part %d: %+v, %v", c.Part, got, err)
					}
					if err := f.s.Dispatch(f.ctx, f.queues, got.Outgoing); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			c := f.claim("publish")
			if n := strings.Count(string(c.Input), "{}"); n != 8 {
				t.Fatalf("the join has %d parts: %s", n, c.Input)
			}
			f.accepted(job.Publication{Claim: c})
		}
		f.sound()
	})
}

func TestANewerVersionTakesOverWhenItsFirstStepHasSucceeded(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		one := f.submit(f.submission("talk"))
		f.run("ingest", "transcribe")
		old := f.claim("transcribe")
		sub := f.submission("talk")
		sub.Digest = "two"
		two := f.submit(sub)
		f.state(one.ID, job.Running)
		f.run("ingest", "transcribe")
		f.state(one.ID, job.Superseded)
		if got := f.publish(job.Publication{Claim: old}); got.Accepted || got.Do != job.Delete || got.Reason != "superseded" {
			t.Fatalf("publication of the old version: %+v", got)
		}
		f.run("transcribe", "")
		if got := f.state(two.ID, job.Completed); !got.Current {
			t.Fatalf("job %+v", got)
		}
		if f.balance() != -10 {
			t.Fatalf("balance %d: a version that ran is paid for", f.balance())
		}
		f.sound()
	})
}

func TestTheCurrentResultOnlyMovesForward(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		// Version 2 fails before it is taken in, so version 1 goes on; version 3 completes first.
		one := f.submit(f.submission("talk"))
		c1 := f.claim("ingest")
		sub := f.submission("talk")
		sub.Digest = "two"
		two := f.submit(sub)
		f.end(f.claim("ingest"), outcome.Reject("broken", "The file is broken."))
		f.state(two.ID, job.Rejected)
		f.accepted(job.Publication{Claim: c1, Result: &job.Result{Dir: "one"}})
		if !f.state(one.ID, job.Completed).Current {
			t.Fatal("version 1 is not current")
		}
		sub.Digest = "three"
		three := f.submit(sub)
		f.run("ingest", "")
		if !f.state(three.ID, job.Completed).Current || f.job(one.ID).Current {
			t.Fatal("version 3 is not the only current one")
		}
		f.sound()
	})
}

func TestPublicationsThatCannotBeMeantAreTurnedAway(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.submit(f.submission("talk"))
		c := f.claim("ingest")
		for name, p := range map[string]job.Publication{
			"output":  {Claim: c, Output: json.RawMessage(`{`)},
			"parts":   {Claim: c, Parts: []json.RawMessage{[]byte(`1`)}},
			"no next": {Claim: c, FanOut: true, Parts: []json.RawMessage{[]byte(`1`)}},
			"no join": {Claim: c, FanOut: true},
			"part":    {Claim: c, FanOut: true, Next: next("compile"), Parts: []json.RawMessage{[]byte(`{`)}},
		} {
			if _, err := f.s.Publish(f.ctx, p); !errors.Is(err, job.ErrInvalidPublication) {
				t.Errorf("%s: %v, want ErrInvalidPublication", name, err)
			}
		}
		f.accepted(job.Publication{Claim: c})
	})
}

// fanOut claims a stage and publishes n parts for compile.
func (f *fixture) fanOut(stage string, n int) {
	f.t.Helper()
	p := job.Publication{Claim: f.claim(stage), FanOut: true, Next: next("compile"), Join: next("publish")}
	for i := range n {
		p.Parts = append(p.Parts, json.RawMessage(fmt.Sprintf(`{"part":%d}`, i)))
	}
	f.accepted(p)
}

func TestAStepAddedAndSupersededInOneTransactionIsNotRun(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		one := f.submit(f.submission("talk"))
		f.run("ingest", "transcribe")
		old := f.claim("transcribe")
		sub := f.submission("talk")
		sub.Digest = "two"
		f.submit(sub)
		got, err := f.s.PublishTogether(f.ctx,
			job.Publication{Claim: old, Next: next("identify")}, job.Publication{Claim: f.claim("ingest"), Next: next("transcribe")})
		if err != nil || !got[0].Accepted || !got[1].Accepted {
			t.Fatalf("published %+v, %v", got, err)
		}
		f.pump(got[1].Outgoing)
		f.pump(got[0].Outgoing)
		j := f.state(one.ID, job.Superseded)
		if s := j.Steps[len(j.Steps)-1]; s.Stage != "identify" || s.State != job.Superseded {
			t.Fatalf("step %+v", s)
		}
		if no := f.refused(request(f.message("identify"), "identify")); no.Do != job.Delete {
			t.Fatalf("refusal %+v", no.Settle)
		}
		f.sound()
	})
}

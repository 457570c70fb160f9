package job_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/outcome"
)

func TestDeadStepsAreListedByStageAndPage(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		var want []string
		for _, target := range []string{"a", "b", "c"} {
			j := f.submit(f.submission(target))
			want = append(want, j.Steps[0].ID)
			f.end(f.claim("ingest"), outcome.Quarantine("bug", nil))
		}
		first, err := f.s.DeadSteps(f.ctx, job.DeadFilter{Stage: "ingest", Limit: 2})
		if err != nil || len(first) != 2 || first[0].Step != want[0] || first[0].Target != "a" || first[0].Version != 1 || first[0].DiedAt.IsZero() || first[0].Part != nil {
			t.Fatalf("first page %+v, %v", first, err)
		}
		rest, err := f.s.DeadSteps(f.ctx, job.DeadFilter{Stage: "ingest", After: first[1].Step, Limit: 2})
		if err != nil || len(rest) != 1 || rest[0].Step != want[2] {
			t.Fatalf("second page %+v, %v", rest, err)
		}
		if none, err := f.s.DeadSteps(f.ctx, job.DeadFilter{Stage: "compile", Limit: 2}); err != nil || len(none) != 0 {
			t.Fatalf("of another stage %+v, %v", none, err)
		}
	})
}

func TestADeadStepIsToldFromALivingAndFromNone(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		sub := f.submission("talk")
		sub.TraceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		j := f.submit(sub)
		step := j.Steps[0].ID
		if _, err := f.s.DeadStep(f.ctx, step); !errors.Is(err, job.ErrEnded) {
			t.Errorf("a living step: %v, want ErrEnded", err)
		}
		f.end(f.claim("ingest"), outcome.Quarantine("bug", nil))
		d, err := f.s.DeadStep(f.ctx, step)
		if err != nil || d.Job != j.ID || d.Class != "bug" || d.Trace != "0af7651916cd43dd8448eb211c80319c" {
			t.Errorf("dead step %+v, %v", d, err)
		}
		if _, err := f.s.DeadStep(f.ctx, "nothing"); !errors.Is(err, job.ErrNotFound) {
			t.Errorf("no step: %v, want ErrNotFound", err)
		}
		if got, tenant, err := f.s.JobOf(f.ctx, step); err != nil || got != j.ID || tenant != "acme" {
			t.Errorf("job of the step: %s of %s, %v", got, tenant, err)
		}
	})
}

func TestADiscardedStepWaitsForNobodyAndIsNotRedriven(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		j := f.submit(f.submission("talk"))
		if err := f.s.Discard(f.ctx, j.ID, "ann", ""); !errors.Is(err, job.ErrEnded) {
			t.Errorf("a living job: %v, want ErrEnded", err)
		}
		f.end(f.claim("ingest"), outcome.Quarantine("bug", nil))
		died := f.job(j.ID).Steps[0].EndedAt
		copied := f.queues.take("dlq-ingest")
		if err := f.s.Discard(f.ctx, j.Steps[0].ID, "ann", "test data"); err != nil {
			t.Fatal(err)
		}
		if dead, err := f.s.DeadSteps(f.ctx, job.DeadFilter{Limit: 10}); err != nil || len(dead) != 0 {
			t.Errorf("dead steps %+v, %v", dead, err)
		}
		if got := f.sweep(copied[0]); got.Do != job.Delete {
			t.Errorf("the copy of a discarded step: %+v", got)
		}
		if got := f.state(j.ID, job.Failed).Steps[0]; got.State != job.Failed || !got.EndedAt.Equal(*died) {
			t.Errorf("step %+v, want failed as before", got)
		}
		for name, err := range map[string]error{"redriven": f.s.Redrive(f.ctx, j.ID, "ann"), "discarded": f.s.Discard(f.ctx, j.ID, "ann", ""), "cancelled": f.s.Cancel(f.ctx, "acme", j.ID, "ann", "")} {
			if !errors.Is(err, job.ErrEnded) {
				t.Errorf("%s afterwards: %v, want ErrEnded", name, err)
			}
		}
		lines, err := f.s.Strings(f.ctx, "SELECT who || ' ' || action || ' ' || detail FROM audit")
		if err != nil || strings.Join(lines, ",") != "ann discard test data" {
			t.Errorf("audit %v, %v", lines, err)
		}
		f.sound()
	})
}

// A part that died after its sibling was discarded must not revive the job: it could not complete.
func TestAJobWithADiscardedPartIsNotRedriven(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		j := f.submit(f.submission("talk"))
		f.fanOut("ingest", 2)
		parts := f.queues.take("q-compile")
		later := f.claimRow(parts[1], "compile")
		f.end(f.claimRow(parts[0], "compile"), outcome.Quarantine("bug", nil))
		if err := f.s.Discard(f.ctx, j.ID, "ann", ""); err != nil {
			t.Fatal(err)
		}
		f.end(later, outcome.Quarantine("bug", nil))
		if err := f.s.Redrive(f.ctx, j.ID, "ann"); !errors.Is(err, job.ErrEnded) {
			t.Errorf("redrive: %v, want ErrEnded", err)
		}
		if err := f.s.Discard(f.ctx, j.ID, "ann", ""); err != nil {
			t.Errorf("the other part is not discarded: %v", err)
		}
		f.sound()
	})
}

func TestTheReasonOfACancelIsAudited(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		j := f.submit(f.submission("talk"))
		if err := f.s.Cancel(f.ctx, "acme", j.ID, "ann", "wrong file"); err != nil {
			t.Fatal(err)
		}
		lines, err := f.s.Strings(f.ctx, "SELECT who || ' ' || action || ' ' || detail FROM audit")
		if err != nil || strings.Join(lines, ",") != "ann cancel wrong file" {
			t.Errorf("audit %v, %v", lines, err)
		}
	})
}

func TestAnUploadThatNoJobTakesIsGarbage(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		for _, folder := range []string{"uploads/taken", "uploads/refused", "uploads/young"} {
			if err := f.s.Uploaded(f.ctx, folder); err != nil {
				t.Fatal(err)
			}
		}
		sub := f.submission("talk")
		sub.Upload = "uploads/taken"
		j := f.submit(sub)
		again := sub
		again.Upload, again.Version = "uploads/refused", j.Version
		if known := f.submit(again); known.ID != j.ID || !known.Known || j.Known {
			t.Fatalf("known %v then %v, %s and %s", j.Known, known.Known, j.ID, known.ID)
		}
		if err := f.s.Change(f.ctx, "UPDATE upload SET at = at - 3600000000 WHERE folder <> 'uploads/young'"); err != nil {
			t.Fatal(err)
		}
		idle, err := f.s.IdleUploads(f.ctx, time.Hour, 0, 10)
		if err != nil || strings.Join(idle, ",") != "uploads/refused" {
			t.Fatalf("idle uploads %v, %v", idle, err)
		}
		if mine, err := f.s.Condemn(f.ctx, "uploads/taken"); mine || err != nil {
			t.Errorf("an upload that a job has is condemned: %v, %v", mine, err)
		}
		if mine, err := f.s.Condemn(f.ctx, "uploads/refused"); !mine || err != nil {
			t.Errorf("not condemned: %v", err)
		}
		late := f.submission("late")
		late.Upload = "uploads/refused"
		if _, err := f.s.Submit(f.ctx, late); err == nil {
			t.Error("a job has taken an upload whose object may be gone")
		}
		if err := f.s.Dropped(f.ctx, "uploads/refused"); err != nil {
			t.Fatal(err)
		}
		if idle, err := f.s.IdleUploads(f.ctx, 0, 0, 10); err != nil || strings.Join(idle, ",") != "uploads/young" {
			t.Errorf("left %v, %v", idle, err)
		}
		f.sound()
	})
}

func TestEveryRecoveryIsAnEntryOfOneKind(t *testing.T) {
	kinds := func(f *fixture) string {
		entries, _, err := f.s.Entries(f.ctx, "acme", "", 10)
		f.must(err)
		var all []string
		for _, e := range entries {
			all = append(all, e.Kind)
		}
		slices.Sort(all)
		return strings.Join(all, " ")
	}
	onBoth(t, func(t *testing.T, f *fixture) {
		j := f.submit(f.submission("talk"))
		for range 2 {
			f.end(f.claim("ingest"), outcome.Quarantine("bug", nil))
			f.must(f.s.Redrive(f.ctx, j.ID, "ann"))
			f.pump(nil)
		}
		if got := kinds(f); got != "charge recovered recovered refund" {
			t.Errorf("entries %s", got)
		}
	})
	t.Run("of an earlier release", func(t *testing.T) {
		onOld(t, "00011", []string{
			"INSERT INTO account_entry (id, tenant, job, kind, once, amount, at) VALUES ('a', 'acme', 'j', 'recovered/2', 'j/recovered/2', 0, 1)",
		}, func(t *testing.T, f *fixture) {
			if got := kinds(f); got != "recovered" {
				t.Errorf("entries %s", got)
			}
		})
	})
}

func TestAnUploadThatIsPromisedUntilAMomentIsNoGarbageBefore(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.must(f.s.KeepUpload(f.ctx, "uploads/a", time.Now().Add(time.Hour)))
		idle := func() string {
			all, err := f.s.IdleUploads(f.ctx, 0, 0, 10)
			f.must(err)
			return strings.Join(all, ",")
		}
		if got := idle(); got != "" {
			t.Errorf("idle: %s", got)
		}
		f.must(f.s.Change(f.ctx, "UPDATE upload SET at = at - 3600000000"))
		if got := idle(); got != "uploads/a" {
			t.Errorf("idle: %q", got)
		}
		f.must(f.s.KeepUpload(f.ctx, "uploads/a", time.Now().Add(time.Hour)))
		f.must(f.s.Uploaded(f.ctx, "uploads/a")) // is not needed so long after all
		if got := idle(); got != "uploads/a" {
			t.Errorf("idle: %q", got)
		}
	})
}

package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/admin"
	"github.com/stagefleet/stagefleet/pkg/job"
)

// recoveryLimit is how long after the death of its worker a step may stand still, at local durations.
const recoveryLimit = 30 * time.Second

func TestAJobSurvivesKilledWorkers(t *testing.T) {
	t.Parallel()
	r := drawn(t)
	f := up(t, t.TempDir())
	j := f.submit(r.file)
	for _, stage := range []string{"transcribe", "transcribe", "compile"} {
		f.reaches(j.ID, stage+" runs", running(stage))
		f.killAndRecover(j.ID, stage)
	}
	end := f.ended(j.ID)
	if end.State != job.Completed {
		t.Fatalf("the job ended %s:\n%s", end.State, describe(end))
	}
	eachClipOnce(t, end, result(t, end))
	crashes := map[string]int{}
	for _, s := range end.Steps {
		crashes[s.Stage] += s.Crashes
		if s.Attempts != 1 {
			t.Errorf("%s counts %d attempts, want the one that succeeded", s.Stage, s.Attempts)
		}
	}
	if crashes["transcribe"] != 2 || crashes["compile"] < 1 {
		t.Errorf("crashes = %v", crashes)
	}
	f.deadLetters()
}

// killAndRecover kills the worker of a running stage and waits until another process executes the step again.
func (f *fleet) killAndRecover(id, stage string) {
	f.t.Helper()
	victim, ok := f.worker(stage)
	if !ok {
		f.t.Fatalf("no process runs %s", stage)
	}
	crew := f.workers(stage)
	var tools []process
	for _, p := range f.descendants() {
		if p.parent == victim.pid {
			tools = append(tools, p)
		}
	}
	if err := syscall.Kill(victim.pid, syscall.SIGKILL); err != nil {
		f.t.Fatal(err)
	}
	killed := time.Now()
	again := func(j job.Job) bool {
		return slices.ContainsFunc(j.Steps, func(s job.Step) bool {
			return s.Stage == stage && s.Crashes > 0 && len(s.History) > 1 && s.History[len(s.History)-1].ClaimedAt.After(killed)
		})
	}
	f.reaches(id, stage+" runs again", again)
	took := time.Since(killed)
	f.t.Logf("%s (with %d tools) went on %v after the kill", stage, len(tools), took.Round(100*time.Millisecond))
	if took > recoveryLimit {
		f.t.Errorf("%s went on %v after the kill, want %v at most", stage, took, recoveryLimit)
	}
	f.noneOf(tools)
	if now := f.workers(stage); now != crew {
		f.t.Errorf("%s has %d workers after the kill, want %d as before", stage, now, crew)
	}
}

// workers counts a stage's workers as an operator sees them.
func (f *fleet) workers(stage string) int {
	f.t.Helper()
	stages, err := f.Stages(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	i := slices.IndexFunc(stages, func(s admin.Stage) bool { return s.Name == stage })
	return stages[i].Workers
}

func TestAStoppedFleetGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	r := drawn(t)
	state := t.TempDir()
	first := up(t, state)
	j := first.submit(r.file)
	first.reaches(j.ID, "transcribe runs", running("transcribe"))
	asked := time.Now()
	first.stop()
	t.Logf("stopped in %v", time.Since(asked).Round(100*time.Millisecond))

	second := up(t, state)
	end := second.ended(j.ID)
	if end.State != job.Completed {
		t.Fatalf("the job ended %s:\n%s", end.State, describe(end))
	}
	for _, s := range end.Steps {
		if s.Attempts != 1 || s.Crashes != 0 {
			t.Errorf("%s counts %d attempts and %d crashes, want a stop to count as neither", s.Stage, s.Attempts, s.Crashes)
		}
	}
	eachClipOnce(t, end, result(t, end))
	second.deadLetters()
}

func TestAKilledFleetLeavesNoWorkerAndGoesOn(t *testing.T) {
	t.Parallel()
	r := drawn(t)
	state := t.TempDir()
	first := up(t, state)
	j := first.submit(r.file)
	first.reaches(j.ID, "transcribe runs", running("transcribe"))
	orphans := first.descendants()
	if len(orphans) < 7 {
		t.Fatalf("%d processes under the fleet, want seven workers", len(orphans))
	}
	_ = first.process.Process.Kill()
	<-first.exited
	second := up(t, state) // at once: the old workers may still be draining
	eventually(t, stopLimit, "the workers of the killed fleet are gone", func() bool { return !slices.ContainsFunc(orphans, process.alive) })
	end := second.ended(j.ID)
	if end.State != job.Completed {
		t.Fatalf("the job ended %s:\n%s", end.State, describe(end))
	}
	eachClipOnce(t, end, result(t, end))
	second.deadLetters()
}

func TestANewerVersionSupersedesTheRunningOne(t *testing.T) {
	t.Parallel()
	r := drawn(t)
	f := up(t, t.TempDir())
	one := f.submit(r.file, "--target", "talk")
	f.reaches(one.ID, "transcribe runs", running("transcribe"))
	two := f.submit(r.file, "--target", "talk", "--version", "2")

	other := filepath.Join(t.TempDir(), "other.mp4")
	if err := os.WriteFile(other, []byte("other bytes"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, code := f.command("submit", other, "--target", "talk", "--version", "1"); code != 4 {
		t.Errorf("other bytes for version 1: exit code %d, want 4", code)
	}

	if end := f.ended(one.ID); end.State != job.Superseded || end.Current || end.Reason == nil || !strings.HasSuffix(end.Reason.Sentence, ".") {
		t.Errorf("version 1:\n%s", describe(end))
	}
	if end := f.ended(two.ID); end.State != job.Completed || !end.Current || end.Version != 2 {
		t.Errorf("version 2:\n%s", describe(end))
	}
	f.deadLetters()
}

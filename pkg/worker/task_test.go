package worker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagefleet/stagefleet/pkg/blob"
	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/outcome"
	"github.com/stagefleet/stagefleet/pkg/recording"
	"github.com/stagefleet/stagefleet/pkg/worker"
)

// try runs f as a handler of a text.
func try(t *testing.T, trial worker.Trial, f func(ctx context.Context, task worker.Task[string]) error) worker.Tried[string] {
	t.Helper()
	if trial.Objects == nil {
		store, err := blob.NewFolder(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		trial.Objects = store
	}
	trial.Dir = t.TempDir()
	h := worker.Func[string, string](func(ctx context.Context, task worker.Task[string]) (string, error) {
		return task.Input, f(ctx, task)
	})
	return worker.Try(t.Context(), h, "in", trial)
}

func TestProgressIsKeptOnceASecondAndAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var kept []string
		start := time.Now()
		trial := worker.Trial{Show: func(p job.Progress) {
			kept = append(kept, fmt.Sprintf("%v %d/%d %s", time.Since(start), p.Done, p.Total, p.Unit))
		}}
		try(t, trial, func(_ context.Context, task worker.Task[string]) error {
			task.Progress("clips", 1, 5)
			settle(time.Second - 1)
			task.Progress("clips", 2, 5)
			settle(1)
			task.Progress("clips", 3, 5)
			task.Progress("clips", 4, 5)
			task.Progress("clips", 5, 5)
			return nil
		})
		want := "0s 1/5 clips, 1s 3/5 clips, 1s 5/5 clips"
		if got := strings.Join(kept, ", "); got != want {
			t.Errorf("kept %s, want %s", got, want)
		}
	})
}

func TestAnObjectBeyondTheProfileIsTheSubmittersFault(t *testing.T) {
	obj := recording.Object{Key: "in/a", Bytes: 11}
	for _, open := range []func(context.Context, worker.Objects) error{
		func(ctx context.Context, o worker.Objects) error { _, err := o.Open(ctx, obj); return err },
		func(ctx context.Context, o worker.Objects) error { _, err := o.Path(ctx, obj); return err },
	} {
		got := try(t, worker.Trial{Limit: 10}, func(ctx context.Context, task worker.Task[string]) error { return open(ctx, task.Objects) })
		if got.Verdict.Kind != outcome.KindReject || got.Verdict.Reason != "input_too_large" || !strings.Contains(got.Verdict.Sentence, "at most 10") {
			t.Errorf("%+v", got.Verdict)
		}
	}
}

func TestAnAttemptWritesUnderItsOwnKeyOnly(t *testing.T) {
	trial := worker.Trial{Claim: job.Claim{Job: "j", Stage: "s", Key: "k"}}
	got := try(t, trial, func(ctx context.Context, task worker.Task[string]) error {
		w, err := task.Objects.Create(ctx, "a.txt")
		if err != nil {
			return err
		}
		if _, err := io.WriteString(w, "text"); err != nil {
			return err
		}
		made, err := w.Commit()
		if err != nil {
			return err
		}
		linked, err := task.Objects.Link(ctx, made, "dir/b.txt")
		if err != nil {
			return err
		}
		if made.Key != "jobs/j/s/k/a.txt" || linked.Key != "jobs/j/s/k/dir/b.txt" || linked.SHA256 != made.SHA256 || linked.Bytes != 4 {
			t.Errorf("made %+v, linked %+v", made, linked)
		}
		for _, name := range []string{"../x", "../../../x", "/../../x"} {
			if w, err := task.Objects.Create(ctx, name); err == nil {
				t.Errorf("%s accepted", name)
				_ = w.Abort()
			}
		}
		return nil
	})
	if got.Verdict.Kind != outcome.KindDone {
		t.Error(got.Verdict)
	}
}

func TestATaskMadeByHandHearsNothing(t *testing.T) {
	var task worker.Task[string]
	task.Gap("code", "Sentence.")
	task.Progress("s", 1, 2)
	task.Ran("tool", time.Time{}, time.Time{}, 0)
	failed := errors.New("x")
	if err := task.Provider(t.Context(), func(context.Context) error { return failed }); !errors.Is(err, failed) {
		t.Error(err)
	}
	_, err := task.Once(t.Context(), "pay", func(context.Context, string, bool) ([]byte, error) {
		t.Error("a call that cannot be undone was made without a record")
		return nil, nil
	})
	if !errors.Is(err, worker.ErrNoEffects) {
		t.Error(err)
	}
}

func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

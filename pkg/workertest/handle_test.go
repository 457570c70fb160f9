package workertest_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/outcome"
	"github.com/stagefleet/stagefleet/pkg/recording"
	"github.com/stagefleet/stagefleet/pkg/worker"
	"github.com/stagefleet/stagefleet/pkg/workertest"
)

type note struct{ Text string }

// Validate makes an empty note one that no stage can read.
func (n note) Validate() error {
	if n.Text == "" {
		return errors.New("text must be set")
	}
	return nil
}

// does makes a handler's constructor of a function.
func does[In, Out any](f func(context.Context, worker.Task[In]) (Out, error)) func(worker.Deps) (worker.Handler[In, Out], error) {
	return func(worker.Deps) (worker.Handler[In, Out], error) { return worker.Func[In, Out](f), nil }
}

func TestAHandlerGetsAFolderObjectsAndAnIdentity(t *testing.T) {
	objects := workertest.NewObjects(t)
	source := objects.Put("in/a.txt", []byte("hello"))
	got := workertest.Handle(t, does(func(ctx context.Context, task worker.Task[note]) (recording.Object, error) {
		local, err := task.Objects.Path(ctx, source)
		if err != nil {
			return recording.Object{}, err
		}
		text, err := os.ReadFile(local)
		if err != nil {
			return recording.Object{}, err
		}
		file := filepath.Join(task.Dir, "out.txt")
		if err := os.WriteFile(file, []byte(strings.ToUpper(string(text))+task.Input.Text), 0o600); err != nil {
			return recording.Object{}, err
		}
		if task.Part != -1 || task.Attempt != 1 || len(task.Gaps) != 1 {
			t.Errorf("identity %+v", task)
		}
		return task.Objects.Put(ctx, "out.txt", file)
	}), workertest.Case[note]{Input: note{"!"}, Objects: objects, Gaps: []outcome.Gap{{Code: "x"}}})
	if got.Verdict.Kind != outcome.KindDone {
		t.Fatal(got.Verdict)
	}
	if text := string(objects.Get(got.Output)); text != "HELLO!" || got.Output.Key != "jobs/job-1/stage/attempt-1/out.txt" {
		t.Errorf("%q under %s", text, got.Output.Key)
	}
}

func TestEveryEndIsReported(t *testing.T) {
	cases := map[string]struct {
		end  func() (note, error)
		kind outcome.Kind
	}{
		"success":                  {func() (note, error) { return note{"x"}, nil }, outcome.KindDone},
		"failure":                  {func() (note, error) { return note{}, errors.New("x") }, outcome.KindRetry},
		"input at fault":           {func() (note, error) { return note{}, outcome.Reject("bad", "Bad.") }, outcome.KindReject},
		"panic":                    {func() (note, error) { panic("x") }, outcome.KindPanic},
		"unpublishable output":     {func() (note, error) { return note{}, nil }, outcome.KindQuarantine},
		"a failure with an output": {func() (note, error) { return note{"x"}, outcome.Defer(time.Second, "y") }, outcome.KindDefer},
	}
	for name, c := range cases {
		got := workertest.Handle(t, does(func(context.Context, worker.Task[note]) (note, error) { return c.end() }),
			workertest.Case[note]{Input: note{"in"}})
		if got.Verdict.Kind != c.kind {
			t.Errorf("%s: %v", name, got.Verdict)
		}
		if (got.Output.Text != "") != (c.kind == outcome.KindDone) {
			t.Errorf("%s: output %+v", name, got.Output)
		}
	}
}

func TestAnInputThatDoesNotHoldNeverReachesTheHandler(t *testing.T) {
	got := workertest.Handle(t, does(func(context.Context, worker.Task[note]) (note, error) {
		t.Error("called")
		return note{}, nil
	}), workertest.Case[note]{})
	if got.Verdict.Kind != outcome.KindQuarantine || got.Verdict.Reason != "input_invalid" {
		t.Error(got.Verdict)
	}
}

func TestWhatAHandlerSaysIsKept(t *testing.T) {
	start := time.Now()
	got := workertest.Handle(t, does(func(ctx context.Context, task worker.Task[note]) (note, error) {
		task.Gap("no_sound", "There is no sound.")
		task.Gap("no_sound", "There is no sound.")
		task.Ran("ffmpeg", start, start.Add(time.Second), time.Millisecond)
		task.Progress("seconds", 1, -5)
		return task.Input, task.Provider(ctx, func(context.Context) error { return nil })
	}), workertest.Case[note]{Input: note{"in"}})
	if len(got.Gaps) != 1 || got.Gaps[0].Code != "no_sound" {
		t.Errorf("gaps %v", got.Gaps)
	}
	if len(got.Tools) != 1 || got.Tools[0].Tool != "ffmpeg" || got.Tools[0].CPU != time.Millisecond {
		t.Errorf("tools %v", got.Tools)
	}
}

func TestPartsKeepTheirTypesForTheTest(t *testing.T) {
	type parts = worker.Parts[note, note]
	got := workertest.Handle(t, does(func(context.Context, worker.Task[note]) (parts, error) {
		return parts{Head: note{"head"}, Items: []note{{"a"}, {"b"}}}, nil
	}), workertest.Case[note]{Input: note{"in"}})
	if got.Verdict.Kind != outcome.KindDone || len(got.Output.Items) != 2 {
		t.Errorf("%+v", got)
	}
	bad := workertest.Handle(t, does(func(context.Context, worker.Task[note]) (parts, error) {
		return parts{Head: note{"head"}, Items: []note{{""}}}, nil
	}), workertest.Case[note]{Input: note{"in"}})
	if bad.Verdict.Kind != outcome.KindQuarantine {
		t.Errorf("%+v", bad)
	}
}

func TestACallThatCannotBeUndoneGetsItsKey(t *testing.T) {
	got := workertest.Handle(t, does(func(ctx context.Context, task worker.Task[note]) (note, error) {
		result, err := task.Once(ctx, "pay", func(_ context.Context, key string, again bool) ([]byte, error) {
			if key == "" || again {
				t.Errorf("key %q, again %v", key, again)
			}
			return []byte("paid"), nil
		})
		return note{string(result)}, err
	}), workertest.Case[note]{Input: note{"in"}})
	if got.Output.Text != "paid" {
		t.Error(got)
	}
}

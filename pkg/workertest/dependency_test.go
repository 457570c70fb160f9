package workertest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/outcome"
	"github.com/stagefleet/stagefleet/pkg/worker"
	"github.com/stagefleet/stagefleet/pkg/workertest"
)

func TestAnOutageOfAProviderCostsNoAttempts(t *testing.T) {
	var calls atomic.Int32
	var down atomic.Bool
	down.Store(true)
	s := &script{cut: func(ctx context.Context, task worker.Task[int]) error {
		return task.Provider(ctx, func(context.Context) error {
			calls.Add(1)
			if down.Load() {
				return errors.New("provider is down")
			}
			return nil
		})
	}}
	inBubble(t, s, func(t *testing.T, fleet *workertest.Fleet) {
		id := fleet.Submit("talk", 0, order{2}).ID
		settle(time.Minute)
		before := calls.Load()
		settle(6 * time.Minute) // far more than the retry policy outlasts
		if n := calls.Load() - before; n < 6 || n > 14 {
			t.Errorf("%d calls in six minutes of outage, want a probe each half minute", n)
		}
		if j := fleet.Job(id); j.State.Ended() {
			t.Fatalf("the outage ended the job: %s", j.State)
		}
		open := false
		for _, st := range fleet.Stages() {
			open = open || st.Name == "cut" && st.Breaker != "closed"
		}
		if !open {
			t.Error("an operator does not see the breaker")
		}
		down.Store(false)
		j := fleet.Wait(id)
		if j.State != job.Completed {
			t.Errorf("after the outage: %s", j.State)
		}
		noDeadLetters(t, fleet)
	})
}

func TestAPausedStageReceivesNothingAndGoesOnByItself(t *testing.T) {
	var runs atomic.Int32
	s := &script{read: func(context.Context, worker.Task[order]) error { runs.Add(1); return nil }}
	inBubble(t, s, func(t *testing.T, fleet *workertest.Fleet) {
		until := time.Now().Add(2 * time.Minute)
		if err := fleet.Record.Pause(t.Context(), job.PauseEntry{Stage: "read", Reason: "test", Who: "me", Until: until}); err != nil {
			t.Fatal(err)
		}
		settle(time.Minute) // beyond the bound from flip to last receive
		id := fleet.Submit("talk", 0, order{1}).ID
		settle(time.Until(until) - time.Second)
		if runs.Load() != 0 {
			t.Fatal("a paused stage has received")
		}
		if j := fleet.Wait(id); j.State != job.Completed || fmt.Sprint(attempts(j, "read")) != "[1]" {
			t.Errorf("%s with attempts %v", j.State, attempts(j, "read"))
		}
		noDeadLetters(t, fleet)
	})
}

func TestACallThatCannotBeUndoneIsMadeOnceForAStep(t *testing.T) {
	var keys []string
	var runs atomic.Int32
	s := &script{read: func(ctx context.Context, task worker.Task[order]) error {
		n := runs.Add(1)
		result, err := task.Once(ctx, "pay", func(_ context.Context, key string, again bool) ([]byte, error) {
			keys = append(keys, key)
			if again != (n == 2) {
				t.Errorf("execution %d: again is %v", n, again)
			}
			if n == 1 {
				return nil, errors.New("nobody knows how it ended")
			}
			return []byte("receipt"), nil
		})
		if err != nil {
			return err
		}
		if string(result) != "receipt" {
			t.Errorf("execution %d: result %q", n, result)
		}
		if n == 2 {
			return errors.New("failed after the call")
		}
		return nil
	}}
	inBubble(t, s, func(t *testing.T, fleet *workertest.Fleet) {
		if j := fleet.Wait(fleet.Submit("talk", 0, order{1}).ID); j.State != job.Completed {
			t.Errorf("%s because of %+v", j.State, j.Reason)
		}
		if len(keys) != 2 || keys[0] != keys[1] || runs.Load() != 3 {
			t.Errorf("calls with keys %v in %d executions, want 2 with the same key in 3", keys, runs.Load())
		}
	})
}

func TestAStepRestsUntilItsProviderAnswers(t *testing.T) {
	var key atomic.Value
	s := &script{read: func(ctx context.Context, task worker.Task[order]) error {
		if len(task.Event) > 0 {
			if string(task.Event) != `{"ok":true}` {
				t.Errorf("event %s", task.Event)
			}
			return nil
		}
		_, err := task.Once(ctx, "ask", func(_ context.Context, k string, _ bool) ([]byte, error) {
			key.Store(k)
			return nil, outcome.Await(k, time.Now().Add(5*time.Minute))
		})
		return err
	}}
	inBubble(t, s, func(t *testing.T, fleet *workertest.Fleet) {
		id := fleet.Submit("talk", 0, order{1}).ID
		fleet.WaitFor(id, func(j job.Job) bool { return len(j.Steps) > 0 && j.Steps[0].State == job.Awaiting })
		settle(time.Minute)
		if _, err := fleet.Record.Receive(t.Context(), job.Event{Provider: "p", ID: "1", Effect: key.Load().(string), Body: json.RawMessage(`{"ok":true}`)}); err != nil {
			t.Fatal(err)
		}
		if j := fleet.Wait(id); j.State != job.Completed || fmt.Sprint(attempts(j, "read")) != "[1]" {
			t.Errorf("%s with attempts %v", j.State, attempts(j, "read"))
		}
	})
}

// TestNothingOfTheSubmittersReachesLogsOrQueues plants a word in everything that a
// submitter or a handler can say, and looks for it wherever people and machines look.
func TestNothingOfTheSubmittersReachesLogsOrQueues(t *testing.T) {
	t.Parallel()
	const canary = "kanarienvogel"
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		core := zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.Lock(zapcore.AddSync(&log)), zapcore.DebugLevel)
		said := worker.Define("read", does(func(_ context.Context, task worker.Task[map[string]string]) (map[string]string, error) {
			task.Gap("gap", "Gap about "+canary)
			task.Progress(canary, 1, 2)
			switch task.Input["end"] {
			case "panic":
				panic(canary)
			case "quarantine":
				return nil, outcome.Quarantine("bad", errors.New(canary))
			}
			return task.Input, errors.New(canary)
		}))
		s := &script{}
		fleet := workertest.Pipeline(t, workertest.Options{
			Stages: stages(), Programs: append([]worker.Program{said}, s.programs()[1:]...), Log: zap.New(core),
		})
		for _, end := range []string{"panic", "quarantine", "failure"} {
			id := fleet.Submit(end+canary, 0, map[string]string{"name": canary, "end": end}).ID
			if j := fleet.Wait(id); j.State != job.Failed {
				t.Errorf("%s: %s", end, j.State)
			}
		}
		settle(time.Minute)
		letters := fleet.DeadLetters("read")
		text, err := json.Marshal(letters)
		if err != nil || len(letters) == 0 || strings.Contains(string(text), canary) {
			t.Errorf("dead letters %s, %v", text, err)
		}
		if log.Len() == 0 || strings.Contains(log.String(), canary) {
			t.Errorf("the log (%d bytes) holds what a submitter said", log.Len())
		}
	})
}

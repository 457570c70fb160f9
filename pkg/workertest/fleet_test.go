package workertest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/outcome"
	"github.com/stagefleet/stagefleet/pkg/stage"
	"github.com/stagefleet/stagefleet/pkg/worker"
	"github.com/stagefleet/stagefleet/pkg/workertest"
)

// stages has every kind of hop: read is followed by split, which fans out to cut,
// a standard queue; merge joins.
func stages() stage.Pipeline {
	return stage.Pipeline{
		{Name: "read", Summary: "s", Next: "split", Profile: stage.Profile{TimeLimit: 4 * time.Minute}},
		{Name: "split", Summary: "s", Next: "cut", FanOut: true},
		{Name: "cut", Summary: "s", Next: "merge", Queue: stage.Standard, Profile: stage.Profile{Slots: 4}, Breaker: stage.Breaker{MinSamples: 2}},
		{Name: "merge", Summary: "s", Join: true},
	}
}

// order is what the test submits: how many parts the job has.
type order struct{ Parts int }

// merged is the input of merge.
type merged struct {
	Head  order `json:"head"`
	Parts []int `json:"parts"`
}

// script says what the handlers do; a nil function does the plain thing.
type script struct {
	read func(context.Context, worker.Task[order]) error
	cut  func(context.Context, worker.Task[int]) error

	mu     sync.Mutex
	merges []string // what merge got, as JSON
}

func (s *script) programs() []worker.Program {
	return []worker.Program{
		worker.Define("read", does(func(ctx context.Context, t worker.Task[order]) (order, error) {
			if s.read != nil {
				return t.Input, s.read(ctx, t)
			}
			return t.Input, nil
		})),
		worker.Define("split", does(func(_ context.Context, t worker.Task[order]) (worker.Parts[order, int], error) {
			out := worker.Parts[order, int]{Head: t.Input}
			for i := range t.Input.Parts {
				out.Items = append(out.Items, i*10)
			}
			return out, nil
		})),
		worker.Define("cut", does(func(ctx context.Context, t worker.Task[int]) (int, error) {
			if s.cut != nil {
				return t.Input + 1, s.cut(ctx, t)
			}
			return t.Input + 1, nil
		})),
		worker.Define("merge", does(func(_ context.Context, t worker.Task[merged]) (order, error) {
			raw, err := json.Marshal(t.Input)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.merges = append(s.merges, string(raw))
			return t.Input.Head, err
		})),
	}
}

// inBubble runs a fleet with the script in a bubble.
func inBubble(t *testing.T, s *script, f func(t *testing.T, fleet *workertest.Fleet)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f(t, workertest.Pipeline(t, workertest.Options{Stages: stages(), Programs: s.programs()}))
	})
}

// attempts returns the counted attempts of a stage's steps.
func attempts(j job.Job, stage string) []int {
	var list []int
	for _, s := range j.Steps {
		if s.Stage == stage {
			list = append(list, s.Attempts)
		}
	}
	return list
}

func TestPartsAreJoinedInTheirOrder(t *testing.T) {
	s := &script{cut: func(_ context.Context, task worker.Task[int]) error {
		settle(time.Duration(3-task.Part) * time.Second) // the last part is done first
		return nil
	}}
	inBubble(t, s, func(t *testing.T, fleet *workertest.Fleet) {
		j := fleet.Wait(fleet.Submit("talk", 0, order{3}).ID)
		if j.State != job.Completed || !j.Current || j.Version != 1 {
			t.Errorf("job %+v", j)
		}
		if b := fleet.Balance(); b != workertest.Funds-workertest.Price {
			t.Errorf("balance %d, want the price taken once", b)
		}
		if got := fmt.Sprint(s.merges); got != `[{"head":{"Parts":3},"parts":[1,11,21]}]` {
			t.Errorf("merged %s", got)
		}
		noDeadLetters(t, fleet)
	})
}

func TestNoPartsGoStraightToTheJoin(t *testing.T) {
	s := &script{}
	inBubble(t, s, func(t *testing.T, fleet *workertest.Fleet) {
		j := fleet.Wait(fleet.Submit("silence", 0, order{0}).ID)
		if j.State != job.Completed || len(attempts(j, "cut")) != 0 {
			t.Errorf("job %+v", j)
		}
		if got := fmt.Sprint(s.merges); got != `[{"head":{"Parts":0},"parts":[]}]` {
			t.Errorf("merged %s", got)
		}
	})
}

func TestPartsThatEndInTheSameInstantAreJoinedOnce(t *testing.T) {
	s := &script{cut: func(_ context.Context, _ worker.Task[int]) error {
		settle(time.Second)
		return nil
	}}
	inBubble(t, s, func(t *testing.T, fleet *workertest.Fleet) {
		fleet.Start("cut")
		j := fleet.Wait(fleet.Submit("talk", 0, order{8}).ID)
		settle(longAfter)
		if j.State != job.Completed || len(s.merges) != 1 {
			t.Errorf("%s after %d joins", j.State, len(s.merges))
		}
	})
}

func TestOnlyExecutionsThatEndedAreAttempts(t *testing.T) {
	var runs atomic.Int32
	s := &script{read: func(ctx context.Context, task worker.Task[order]) error {
		switch n := runs.Add(1); n {
		case 1, 3: // drained
			<-ctx.Done()
			return context.Cause(ctx)
		case 2, 4:
			return fmt.Errorf("failure %d", n)
		default:
			if task.Attempt != 3 {
				t.Errorf("the last execution is attempt %d, want 3", task.Attempt)
			}
			return nil
		}
	}}
	inBubble(t, s, func(t *testing.T, fleet *workertest.Fleet) {
		id := fleet.Submit("talk", 0, order{1}).ID
		for n := range int32(2) {
			fleet.WaitFor(id, func(job.Job) bool { return runs.Load() == 2*n+1 })
			fleet.Stop("read")
			fleet.Start("read")
		}
		j := fleet.Wait(id)
		if got := fmt.Sprint(attempts(j, "read")); j.State != job.Completed || got != "[3]" || runs.Load() != 5 {
			t.Errorf("%s with attempts %s after %d executions, want completed, [3], 5", j.State, got, runs.Load())
		}
		noDeadLetters(t, fleet)
	})
}

func TestEveryUnfinishedStepGoesOnAfterQueueAndWorkersAreGone(t *testing.T) {
	var started atomic.Int32
	s := &script{
		read: func(ctx context.Context, task worker.Task[order]) error {
			if task.Target == "late" && started.Add(1) == 1 {
				<-ctx.Done()
				return context.Cause(ctx)
			}
			return nil
		},
		cut: func(ctx context.Context, task worker.Task[int]) error {
			if task.Target == "early" && task.Part == 1 && started.Add(1) <= 2 {
				<-ctx.Done()
				return context.Cause(ctx)
			}
			return nil
		},
	}
	inBubble(t, s, func(t *testing.T, fleet *workertest.Fleet) {
		ids := []string{fleet.Submit("early", 0, order{3}).ID, fleet.Submit("late", 0, order{2}).ID}
		fleet.WaitFor(ids[1], func(job.Job) bool { return started.Load() == 2 })
		fleet.RestartAll()
		for _, id := range ids {
			if j := fleet.Wait(id); j.State != job.Completed {
				t.Errorf("%s: %s", j.Target, j.State)
			}
		}
		if len(s.merges) != 2 {
			t.Errorf("%d joins, want 2", len(s.merges))
		}
	})
}

func TestANewerVersionSupersedesTheOlderOne(t *testing.T) {
	s := &script{cut: func(ctx context.Context, task worker.Task[int]) error {
		if task.Version == 1 {
			<-ctx.Done() // told at the next beat
			return context.Cause(ctx)
		}
		return nil
	}}
	inBubble(t, s, func(t *testing.T, fleet *workertest.Fleet) {
		one := fleet.Submit("talk", 1, order{2}).ID
		fleet.WaitFor(one, func(j job.Job) bool { return len(attempts(j, "cut")) == 2 })
		two := fleet.Submit("talk", 2, order{1}).ID
		newer, older := fleet.Wait(two), fleet.Wait(one)
		if newer.State != job.Completed || !newer.Current || older.State != job.Superseded || older.Current {
			t.Errorf("version 1 %s (current %v), version 2 %s (current %v)", older.State, older.Current, newer.State, newer.Current)
		}
		settle(longAfter)
		if j := fleet.Job(one); j.State != job.Superseded || j.Current || len(s.merges) != 1 {
			t.Errorf("later version 1 is %s, %d joins", j.State, len(s.merges))
		}
		noDeadLetters(t, fleet)
	})
}

func TestAHandlerThatContradictsTheManifestIsQuarantined(t *testing.T) {
	parts := worker.Define("read", does(func(context.Context, worker.Task[order]) (worker.Parts[order, int], error) {
		return worker.Parts[order, int]{Items: []int{1}}, nil
	}))
	whole := worker.Define("split", does(func(_ context.Context, t worker.Task[order]) (order, error) { return t.Input, nil }))
	for name, wrong := range map[string]worker.Program{"parts of a plain stage": parts, "no parts of a fan-out": whole} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				programs := (&script{}).programs()
				for i, p := range programs {
					if p.Name == wrong.Name {
						programs[i] = wrong
					}
				}
				fleet := workertest.Pipeline(t, workertest.Options{Stages: stages(), Programs: programs})
				j := fleet.Wait(fleet.Submit("talk", 0, order{1}).ID)
				if j.State != job.Failed || j.Reason == nil || j.Reason.Code != "output_invalid" {
					t.Errorf("%s because of %+v", j.State, j.Reason)
				}
			})
		})
	}
}

func TestACancelledJobIsToldAtTheNextBeat(t *testing.T) {
	var cause atomic.Value
	s := &script{read: func(ctx context.Context, _ worker.Task[order]) error {
		<-ctx.Done()
		cause.Store(context.Cause(ctx))
		return ctx.Err()
	}}
	inBubble(t, s, func(t *testing.T, fleet *workertest.Fleet) {
		id := fleet.Submit("talk", 0, order{1}).ID
		fleet.WaitFor(id, func(j job.Job) bool { return j.Steps[0].State == job.Running })
		if err := fleet.Record.Cancel(t.Context(), workertest.Tenant, id, "test", ""); err != nil {
			t.Fatal(err)
		}
		settle(3*time.Minute + time.Second)
		if err, _ := cause.Load().(error); !errors.Is(err, outcome.ErrCancelled) {
			t.Errorf("the handler's context ended with %v", err)
		}
		if j := fleet.Job(id); j.State != job.Cancelled || fmt.Sprint(attempts(j, "read")) != "[0]" {
			t.Errorf("%s with attempts %v", j.State, attempts(j, "read"))
		}
	})
}

func TestAHandlerBeyondItsTimeLimitHasFailedOnce(t *testing.T) {
	var runs atomic.Int32
	s := &script{read: func(ctx context.Context, _ worker.Task[order]) error {
		if runs.Add(1) > 1 {
			return nil
		}
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), outcome.ErrTimeLimit) {
			t.Errorf("the handler's context ended with %v", context.Cause(ctx))
		}
		return ctx.Err()
	}}
	inBubble(t, s, func(t *testing.T, fleet *workertest.Fleet) {
		start := time.Now()
		j := fleet.Wait(fleet.Submit("talk", 0, order{1}).ID)
		if got := fmt.Sprint(attempts(j, "read")); j.State != job.Completed || got != "[2]" {
			t.Errorf("%s with attempts %s, want completed with [2]", j.State, got)
		}
		if took := time.Since(start); took < 4*time.Minute+30*time.Second || took > 4*time.Minute+35*time.Second {
			t.Errorf("took %v, want the limit of four minutes and the wait of half a one", took)
		}
	})
}

func TestInputAtFaultReachesTheSubmitterAndNobodyElse(t *testing.T) {
	s := &script{read: func(_ context.Context, _ worker.Task[order]) error {
		return outcome.Reject("no_video", "The file holds no video.")
	}}
	inBubble(t, s, func(t *testing.T, fleet *workertest.Fleet) {
		j := fleet.Wait(fleet.Submit("talk", 0, order{1}).ID)
		if j.State != job.Rejected || j.Reason == nil || j.Reason.Sentence != "The file holds no video." {
			t.Errorf("%s because of %+v", j.State, j.Reason)
		}
		settle(longAfter)
		noDeadLetters(t, fleet)
	})
}

func TestGapsEndAJobCompletedWithGaps(t *testing.T) {
	s := &script{read: func(_ context.Context, task worker.Task[order]) error {
		task.Gap("no_sound", "The recording has no sound.")
		return nil
	}}
	inBubble(t, s, func(t *testing.T, fleet *workertest.Fleet) {
		j := fleet.Wait(fleet.Submit("talk", 0, order{1}).ID)
		if j.State != job.CompletedWithGaps || len(j.Gaps) != 1 || j.Gaps[0].Code != "no_sound" {
			t.Errorf("%s with gaps %v", j.State, j.Gaps)
		}
	})
}

// longAfter is beyond every lease, visibility and wait of the stages. It is not
// longer because the relay's looks into a real database cost real time.
const longAfter = stage.DefaultVisibility + 10*time.Second

func noDeadLetters(t *testing.T, fleet *workertest.Fleet) {
	t.Helper()
	for _, s := range stages() {
		if letters := fleet.DeadLetters(s.Name); len(letters) > 0 {
			t.Errorf("%d dead letters of %s", len(letters), s.Name)
		}
	}
}

// settle lets d pass in the bubble and everything that follows from it happen. A
// handler only sleeps: it must not wait for itself.
func settle(d time.Duration) {
	time.Sleep(d)
}

package worker

import (
	"context"
	"encoding/json"
	"runtime/debug"

	"github.com/stagefleet/stagefleet/pkg/blob"
	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/outcome"
)

// Trial is what one execution outside a worker works with; see package workertest.
type Trial struct {
	Claim   job.Claim // identity of the attempt; its Input is replaced
	Objects blob.Store
	Dir     string             // the attempt's folder; left as the handler leaves it
	Limit   int64              // largest object that may be opened; 0: none
	Show    func(job.Progress) // nil: nobody looks
}

// Tried is what became of it.
type Tried[Out any] struct {
	Output  Out // only of a success
	Verdict outcome.Verdict
	Gaps    []outcome.Gap
	Tools   []job.ToolRun
}

// Try executes a handler once, as a worker does: the input crosses the hop as
// JSON, a panic is an end like any other, and an output that could not be
// published is none.
func Try[In, Out any](ctx context.Context, h Handler[In, Out], in In, trial Trial) Tried[Out] {
	tried := Tried[Out]{}
	raw, err := json.Marshal(in)
	if err != nil {
		tried.Verdict = outcome.Of(outcome.Quarantine("input_invalid", err))
		return tried
	}
	trial.Claim.Input = raw
	held := &held{claim: trial.Claim, attempt: &attempt{show: trial.Show, effects: forgetful{}}}
	keep := Func[In, Out](func(ctx context.Context, t Task[In]) (Out, error) {
		out, err := h.Handle(ctx, t)
		tried.Output = out
		return out, err
	})
	err = guard(func() error {
		_, err := bind(keep)(ctx, task(held, trial.Dir, trial.Objects, trial.Limit))
		return err
	})
	tried.Verdict = outcome.Of(outcome.Because(ctx, err))
	tried.Gaps = held.attempt.noted()
	tried.Tools = held.attempt.spent(job.Timings{}).Tools
	if err != nil {
		var none Out
		tried.Output = none
	}
	return tried
}

// guard turns a panic into the error that a pool makes of it.
func guard(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &outcome.Panic{Value: v, Stack: debug.Stack()}
		}
	}()
	return f()
}

// forgetful is the record of a trial: there is no other execution to remember for.
type forgetful struct{}

func (forgetful) begin(_ context.Context, name string) (job.Effect, error) {
	return job.Effect{ID: "effect-" + name}, nil
}

func (forgetful) done(context.Context, string, []byte) error { return nil }

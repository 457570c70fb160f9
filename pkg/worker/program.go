package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"path"

	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/outcome"
	"github.com/stagefleet/stagefleet/pkg/recording"
)

// Program is a stage's worker before it runs: a name and how to make its handler.
type Program struct {
	// Name is the stage's name.
	Name string

	build func(Deps) (execute, error)
}

// Define makes the program of a stage. Main and package workertest run it.
func Define[In, Out any](name string, newHandler func(Deps) (Handler[In, Out], error)) Program {
	return Program{Name: name, build: func(d Deps) (execute, error) {
		h, err := newHandler(d)
		if err != nil {
			return nil, fmt.Errorf("make the handler of %s: %w", name, err)
		}
		return bind(h), nil
	}}
}

// result is what a handler returned, encoded.
type result struct {
	output json.RawMessage
	parts  []json.RawMessage
	fanOut bool
	offer  *job.Result // of the last stage: what the submitter gets
}

// execute runs a handler on an encoded input. The Task that it is given holds
// everything but the input.
type execute func(ctx context.Context, t Task[json.RawMessage]) (result, error)

// validator is implemented by the types that cross a hop.
type validator interface{ Validate() error }

// splitter is implemented by Parts alone.
type splitter interface {
	split() (json.RawMessage, []json.RawMessage, error)
}

// bind hides a handler's types.
func bind[In, Out any](h Handler[In, Out]) execute {
	return func(ctx context.Context, t Task[json.RawMessage]) (result, error) {
		in, err := decode[In](t.Input)
		if err != nil {
			return result{}, outcome.Quarantine("input_invalid", err)
		}
		out, err := h.Handle(ctx, withInput(t, in))
		if err != nil {
			return result{}, err
		}
		r, err := encodeResult(out)
		if err != nil {
			return result{}, outcome.Quarantine("output_invalid", err)
		}
		return r, nil
	}
}

func withInput[In any](t Task[json.RawMessage], in In) Task[In] {
	return Task[In]{
		Input: in, Tenant: t.Tenant, Job: t.Job, Step: t.Step, Stage: t.Stage, Target: t.Target, Version: t.Version,
		Part: t.Part, Attempt: t.Attempt, Dir: t.Dir, Objects: t.Objects, Event: t.Event, Gaps: t.Gaps, attempt: t.attempt,
	}
}

func decode[In any](raw json.RawMessage) (In, error) {
	var in In
	if err := json.Unmarshal(raw, &in); err != nil {
		return in, fmt.Errorf("decode the input: %w", err)
	}
	if v, ok := any(in).(validator); ok {
		if err := v.Validate(); err != nil {
			return in, fmt.Errorf("check the input: %w", err)
		}
	}
	return in, nil
}

func encode(v any) (json.RawMessage, error) {
	if v, ok := v.(validator); ok {
		if err := v.Validate(); err != nil {
			return nil, fmt.Errorf("check: %w", err)
		}
	}
	return json.Marshal(v)
}

func encodeResult(out any) (result, error) {
	if s, ok := out.(splitter); ok {
		head, items, err := s.split()
		return result{output: head, parts: items, fanOut: true}, err
	}
	raw, err := encode(out)
	if err != nil {
		return result{}, fmt.Errorf("encode the output: %w", err)
	}
	return result{output: raw, offer: offerOf(out)}, nil
}

// offerOf returns where a finished job's result is: the last stage says so by the
// type that it returns.
func offerOf(out any) *job.Result {
	r, ok := out.(recording.Result)
	if !ok {
		return nil
	}
	return &job.Result{Dir: path.Dir(r.Manifest.Key), Manifest: r.Manifest.Key, Index: r.Index.Key}
}

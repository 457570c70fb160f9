// Package worker turns a handler into a worker process: it receives, claims,
// executes, publishes and drains, so that a stage's author writes Handle and
// nothing else. A handler sees one Task at a time per slot; it never sees a queue,
// a lease, a database or a signal. What a handler returns is published only if the
// record still says that this attempt owns the step.
//
// Every workers/<stage>/main.go calls Main; package workertest runs the same code
// without a process.
package worker

import (
	"context"
	"encoding/json"
	"fmt"

	"go.uber.org/zap"
)

// Handler does the work of one stage. It is called by several goroutines at once,
// up to the stage's slots. It must return soon after ctx ends; context.Cause(ctx)
// says why (see the errors of package outcome).
//
// A nil error publishes the output. A plain error is a counted failure; package
// outcome has the others: Fail, Reject, Quarantine, Defer, RetryAfter, Await.
type Handler[In, Out any] interface {
	Handle(ctx context.Context, t Task[In]) (Out, error)
}

// Func makes a Handler of a function.
type Func[In, Out any] func(ctx context.Context, t Task[In]) (Out, error)

// Handle calls f.
func (f Func[In, Out]) Handle(ctx context.Context, t Task[In]) (Out, error) { return f(ctx, t) }

// Parts is the output of a stage that fans out: each item goes to the next stage
// as a message of its own, in any order; Head waits in the record and comes back
// with the results, in the order of Items, to the stage that joins them. No items
// at all go to the join directly.
type Parts[Head, Item any] struct {
	Head  Head
	Items []Item
}

// split encodes the head and the items apart.
func (p Parts[Head, Item]) split() (json.RawMessage, []json.RawMessage, error) {
	head, err := encode(p.Head)
	if err != nil {
		return nil, nil, fmt.Errorf("encode the head: %w", err)
	}
	items := make([]json.RawMessage, len(p.Items))
	for i, item := range p.Items {
		if items[i], err = encode(item); err != nil {
			return nil, nil, fmt.Errorf("encode part %d: %w", i, err)
		}
	}
	return head, items, nil
}

// Deps is what a handler's constructor is given.
type Deps struct {
	// Log carries the stage's name. Log identifiers, never what the task holds.
	Log *zap.Logger
	// Getenv reads the process environment, for addresses and keys of providers.
	Getenv func(string) string
}

// Package workertest is a stage author's kit: Handle runs one handler on one
// input, Pipeline runs all stages in one process with a queue server and a record
// of its own. Both run the very code that a worker process runs, without AWS,
// without sockets and, when the handlers are scripted, inside a synctest bubble.
// Tests alone call it.
package workertest

import (
	"cmp"
	"io"
	"os"
	"testing"

	"go.uber.org/zap/zaptest"

	"github.com/stagefleet/stagefleet/pkg/blob"
	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/outcome"
	"github.com/stagefleet/stagefleet/pkg/recording"
	"github.com/stagefleet/stagefleet/pkg/worker"
)

// Case is one execution. The zero value of everything but Input is a first
// attempt at a step that is no part, with an empty object store.
type Case[In any] struct {
	Input   In
	Attempt int               // default 1
	Part    *int              // default: the step is no part
	Gaps    []outcome.Gap     // noted by earlier steps
	Env     map[string]string // what the handler's constructor may read
	Objects *Objects          // default: a new store
}

// Handle makes the handler and runs it once in a temporary folder. The result
// says how it ended, whatever the end; only a constructor that fails fails the test.
func Handle[In, Out any](t testing.TB, newHandler func(worker.Deps) (worker.Handler[In, Out], error), c Case[In]) worker.Tried[Out] {
	t.Helper()
	h, err := newHandler(worker.Deps{Log: zaptest.NewLogger(t), Getenv: func(k string) string { return c.Env[k] }})
	if err != nil {
		t.Fatalf("make the handler: %v", err)
	}
	if c.Objects == nil {
		c.Objects = NewObjects(t)
	}
	part := -1
	if c.Part != nil {
		part = *c.Part
	}
	return worker.Try(t.Context(), h, c.Input, worker.Trial{
		Claim: job.Claim{
			Step: "step-1", Job: "job-1", Tenant: "tenant", Target: "target", Stage: "stage", Key: "attempt-1",
			Version: 1, Emission: 1, Part: part, Attempt: cmp.Or(c.Attempt, 1), Gaps: c.Gaps,
		},
		Objects: c.Objects.Store,
		Dir:     t.TempDir(),
	})
}

// Objects is an object store in a temporary folder, with the helpers of a test.
type Objects struct {
	Store blob.Store
	t     testing.TB
}

// NewObjects makes an empty store that is removed at the end of the test.
func NewObjects(t testing.TB) *Objects {
	t.Helper()
	store, err := blob.NewFolder(t.TempDir())
	if err != nil {
		t.Fatalf("make the object store: %v", err)
	}
	return &Objects{Store: store, t: t}
}

// Put keeps bytes under key.
func (o *Objects) Put(key string, content []byte) recording.Object {
	o.t.Helper()
	w, err := o.Store.Create(o.t.Context(), key)
	if err != nil {
		o.t.Fatalf("create %s: %v", key, err)
	}
	defer func() { _ = w.Abort() }() // nothing to undo after Commit
	if _, err := w.Write(content); err != nil {
		o.t.Fatalf("write %s: %v", key, err)
	}
	obj, err := w.Commit()
	if err != nil {
		o.t.Fatalf("keep %s: %v", key, err)
	}
	return obj
}

// PutFile keeps the bytes of a local file under key.
func (o *Objects) PutFile(key, file string) recording.Object {
	o.t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		o.t.Fatal(err)
	}
	return o.Put(key, content)
}

// Get returns an object's bytes.
func (o *Objects) Get(obj recording.Object) []byte {
	o.t.Helper()
	r, err := o.Store.Open(o.t.Context(), obj.Key)
	if err != nil {
		o.t.Fatalf("open %s: %v", obj.Key, err)
	}
	defer r.Close()
	content, err := io.ReadAll(r)
	if err != nil {
		o.t.Fatalf("read %s: %v", obj.Key, err)
	}
	return content
}

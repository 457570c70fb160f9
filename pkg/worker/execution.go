package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/stagefleet/stagefleet/pkg/blob"
	"github.com/stagefleet/stagefleet/pkg/internal/telemetry"
	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/outcome"
	"github.com/stagefleet/stagefleet/pkg/pool"
)

// executor runs the handler on what the ledger granted.
type executor struct {
	run     execute
	store   *job.Store
	objects blob.Store
	scratch string // attempts get folders of their own in here
	limit   int64
	fanOut  bool // what the manifest says of the stage
	call    func(ctx context.Context, call func(context.Context) error) error
	log     *zap.Logger

	answered func(kind string, took time.Duration, err error) // of every call of a provider
}

// scratchRest is how long work waits that a worker without room for its folder had received: nothing was attempted.
const scratchRest = 30 * time.Second

// handle is the pool's handler. The attempt's folder is gone when it returns,
// however it returns.
func (e *executor) handle(ctx context.Context, m pool.Message) error {
	h := m.Grant.(*held)
	h.start(time.Now(), telemetry.TraceParent(ctx))
	dir, err := os.MkdirTemp(e.scratch, "attempt-")
	if err != nil {
		return fmt.Errorf("make the attempt's folder: %w: %w", err, outcome.Defer(scratchRest, "scratch_unavailable"))
	}
	defer os.RemoveAll(dir)
	stop := h.follow(ctx, func(ctx context.Context, p job.Progress) { e.keepProgress(ctx, h.claim, p) })
	defer stop()
	h.attempt.call, h.attempt.answered = e.call, e.answered
	h.attempt.effects = effects{e.store, h.claim}
	t := task(h, dir, e.objects, e.limit)
	t.Objects = t.Objects.Within("jobs/"+t.Job, "uploads/"+t.Tenant, "inbox/"+t.Tenant)
	r, err := e.run(ctx, t)
	h.finish(r, time.Now())
	if err == nil && r.fanOut != e.fanOut {
		return outcome.Quarantine("output_invalid", errFanOut)
	}
	return err
}

// errFanOut: the handler and the manifest disagree, and no retry will change that.
var errFanOut = errors.New("the handler returns Parts exactly if the manifest says FanOut")

// task is what the handler is given for a claim; bind adds the decoded input.
func task(h *held, dir string, objects blob.Store, limit int64) Task[json.RawMessage] {
	c := h.claim
	return Task[json.RawMessage]{
		Input: c.Input, Tenant: c.Tenant, Job: c.Job, Step: c.Step, Stage: c.Stage, Target: c.Target, Version: c.Version,
		Part: c.Part, Attempt: c.Attempt, Dir: dir, Event: c.Event, Gaps: c.Gaps, attempt: h.attempt,
		Objects: NewObjects(objects, job.Folder(c.Job, c.Stage, c.Key), dir, limit),
	}
}

// progressBudget bounds one report of progress to the record.
const progressBudget = 2 * time.Second

// follow lets the attempt report progress without waiting: one goroutine keeps the
// latest report. The returned function ends it and waits. A report that is under way
// is not cut: on Postgres that would cost the connection, and the last one mostly is.
func (h *held) follow(ctx context.Context, keep func(context.Context, job.Progress)) (stop func()) {
	latest := make(chan job.Progress, 1)
	h.attempt.show = func(p job.Progress) {
		select {
		case <-latest: // nobody needs an older one
		default:
		}
		select {
		case latest <- p:
		default: // another goroutine of the handler was faster
		}
	}
	ended := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-ended:
				return
			case p := <-latest:
				ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), progressBudget)
				keep(ctx, p)
				cancel()
			}
		}
	})
	return func() { close(ended); wg.Wait() }
}

func (e *executor) keepProgress(ctx context.Context, c job.Claim, p job.Progress) {
	if err := e.store.Progress(ctx, c, p); err != nil {
		e.log.Debug("progress not kept", zap.String("step", c.Step), zap.Error(err))
	}
}

package worker

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/outcome"
	"github.com/stagefleet/stagefleet/pkg/provider"
)

// progressPeriod is the shortest time between two reports that are kept.
const progressPeriod = time.Second

// attempt gathers what a handler says while it runs. A nil attempt hears nothing.
type attempt struct {
	show func(job.Progress)                                                // must not block; nil: nobody looks
	call func(ctx context.Context, call func(context.Context) error) error // the breaker; nil: none

	answered func(kind string, took time.Duration, err error) // of every call of a provider; nil: nobody looks

	effects keeper // nil: nothing remembers an effect

	mu    sync.Mutex
	gaps  []outcome.Gap
	tools []job.ToolRun
	wait  time.Duration // spent in providers
	used  job.Usage     // of their quotas
	shown time.Time
}

func (a *attempt) gap(g outcome.Gap) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !slices.Contains(a.gaps, g) {
		a.gaps = append(a.gaps, g)
	}
}

func (a *attempt) report(unit string, done, total int64) {
	if a == nil || a.show == nil {
		return
	}
	now := time.Now()
	a.mu.Lock()
	due := now.Sub(a.shown) >= progressPeriod || done == total
	if due {
		a.shown = now
	}
	a.mu.Unlock()
	if due {
		a.show(job.Progress{Unit: unit, Done: done, Total: max(-1, total)})
	}
}

func (a *attempt) ran(tool string, start, end time.Time, cpu time.Duration) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tools = append(a.tools, job.ToolRun{Tool: tool, Start: start, End: end, CPU: cpu})
}

func (a *attempt) provider(ctx context.Context, call func(context.Context) error) error {
	if a == nil {
		return call(ctx)
	}
	ctx = provider.WithMeter(ctx, a.use)
	if a.answered != nil {
		ctx = provider.WithTimer(ctx, a.answered)
	}
	start := time.Now()
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.wait += time.Since(start)
	}()
	if a.call == nil {
		return call(ctx)
	}
	return a.call(ctx, call)
}

func (a *attempt) use(u provider.Usage) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.used.Requests += u.Requests
	a.used.InputTokens += u.InputTokens
	a.used.OutputTokens += u.OutputTokens
}

// noted returns the gaps so far.
func (a *attempt) noted() []outcome.Gap {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.gaps)
}

// spent adds the time in providers, what was used of them and the lifetimes of tools so far.
func (a *attempt) spent(t job.Timings) job.Timings {
	a.mu.Lock()
	defer a.mu.Unlock()
	t.ProviderWait, t.Usage, t.Tools = a.wait, a.used, slices.Clone(a.tools)
	return t
}

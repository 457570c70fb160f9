// Package pool keeps SQS messages safe while handlers work on them.
//
// It receives only what it can start, hides each message until its handler has returned and its end is settled, and gives back what
// it cannot finish when told to stop. With a Ledger an execution needs the record's permission; without one the queue is all there
// is, and a handler may run more than once for a message. It does not order standard queues and never calls anything exactly-once.
package pool

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"go.uber.org/zap"

	"github.com/stagefleet/stagefleet/pkg/internal/change"
	"github.com/stagefleet/stagefleet/pkg/outcome"
)

// Pool consumes one queue. Make it with New. Its methods may be called concurrently.
type Pool struct {
	sqs     SQS
	cfg     Config
	handler Handler
	ledger  Ledger
	gates   []Gate
	store   *storeGate
	metrics *metrics
	tracer  tracer

	fifo             bool
	batch            int // messages per receive
	systemAttributes []types.MessageSystemAttributeName
	once, settleOpts []func(*sqs.Options) // per call: one attempt; a few quick ones

	ran       atomic.Bool
	workers   crew[*held]
	pollers   crew[struct{}] // all but the first
	refuser   atomic.Int32   // the gate that refused last
	wake      chan struct{}  // the first poller looks again
	poke      chan struct{}  // the keeper looks again
	pollsDone chan struct{}  // closed when no receive can follow
	deletes   *batcher
	hides     *batcher
	undeleted undeleted
	settled   change.Signal // fired as messages leave
	tasks     sync.WaitGroup

	// The phases of a stop, each ended on its own: no more receives, receives under way, handlers, settlements and renewals.
	// They are set by Run, before anything else starts.
	intake, polling, working, settling context.Context
	stopIntake                         context.CancelFunc
	values                             context.Context // what a handler's context has of Run's; it never ends

	mu          sync.Mutex
	in          intakeState
	held        list
	byID        map[string]*held
	running     int
	stuck       int
	keeperWakes time.Time
	report      Report
	failure     error // why the intake ended by itself
}

// New makes a pool; it calls nothing yet.
func New(sqs SQS, cfg Config) (*Pool, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configure pool: %w", err)
	}
	if sqs == nil {
		return nil, errors.New("configure pool: SQS is nil, must be a client")
	}
	cfg = cfg.withDefaults()
	p := &Pool{
		sqs: sqs, cfg: cfg, handler: cfg.Handler, ledger: cfg.Ledger,
		store: &storeGate{}, tracer: newTracer(cfg),
		batch: batch, systemAttributes: systemAttributes,
		once: onceOptions(), settleOpts: settleOptions(),
		wake: make(chan struct{}, 1), poke: make(chan struct{}, 1), pollsDone: make(chan struct{}),
		byID: map[string]*held{},
	}
	p.workers = crew[*held]{do: p.work, keep: maxIdleWorkers}
	p.pollers = crew[struct{}]{do: func(struct{}) { p.poll(false) }, keep: maxPollers, tasks: &p.tasks}
	if isFIFO(cfg.QueueURL) {
		p.fifo, p.batch, p.systemAttributes = true, 1, fifoAttributes
	}
	for i := len(cfg.Middleware) - 1; i >= 0; i-- {
		if p.handler = cfg.Middleware[i](p.handler); p.handler == nil {
			return nil, fmt.Errorf("configure pool: Middleware[%d] returned nil, must return a Handler", i)
		}
	}
	if p.ledger == nil {
		p.ledger = receipts{cfg.Policy}
	}
	p.gates = append([]Gate{p.store}, cfg.Gates...)
	p.deletes, p.hides = newBatcher(&p.tasks, p.deleteBatch), newBatcher(&p.tasks, p.hideBatch)
	var err error
	if p.metrics, err = newMetrics(p); err != nil {
		return nil, fmt.Errorf("register metrics of pool %s: %w", cfg.Name, err)
	}
	return p, nil
}

// Run consumes until ctx ends, then drains: see Config.Drain, Grace and Settle, whose sum bounds the stop. It may be called once.
//
// It ends by itself, with the error, when the first receive shows that the queue does not exist or may not be read. It returns an
// error too when messages had to be abandoned; the report is true either way.
func (p *Pool) Run(ctx context.Context) (Report, error) {
	if !p.ran.CompareAndSwap(false, true) {
		return Report{}, errors.New("run pool: it has run before")
	}
	p.values = context.WithoutCancel(ctx)
	var stopPolling, stopSettling context.CancelFunc
	var stopWork context.CancelCauseFunc
	p.mu.Lock()
	p.intake, p.stopIntake = context.WithCancel(ctx)
	p.polling, stopPolling = context.WithCancel(p.values)
	p.working, stopWork = context.WithCancelCause(p.values)
	p.settling, stopSettling = context.WithCancel(p.values)
	p.in = intakeState{free: p.cfg.Slots, want: 1, pollers: 1, lastSuccess: time.Now()}
	p.keeperWakes = p.in.lastSuccess
	p.mu.Unlock()
	defer func() {
		p.stopIntake()
		stopPolling()
		stopSettling()
		for _, h := range append(p.deletes.close(), p.hides.close()...) {
			p.forget(h, false)
		}
		p.tasks.Wait()
		stopWork(nil)
	}()
	p.begin()
	<-p.intake.Done()
	p.workers.close()
	p.pollers.close()
	return p.drain(stopPolling, stopWork)
}

// begin starts the loops. Each ends with one of the contexts, and Run waits for all.
func (p *Pool) begin() {
	p.tasks.Go(func() { p.keep(p.settling) })
	for _, g := range p.gates {
		p.tasks.Go(func() { p.watch(g) })
	}
	p.tasks.Go(func() { p.poll(true) })
}

// drain waits for what is held, phase by phase, and says what became of it.
func (p *Pool) drain(stopPolling context.CancelFunc, stopWork context.CancelCauseFunc) (Report, error) {
	start := time.Now()
	p.cfg.Log.Info("stopping", zap.Int("running", p.Status().Running))
	if !p.wait(p.cfg.Drain, p.quiet) {
		stopPolling()
		p.interrupt(stopWork)
		p.wait(p.cfg.Grace, p.quiet)
	}
	p.wait(p.cfg.Settle, p.onlyRunning)
	report, failure := p.last()
	p.cfg.Log.Info("stopped", zap.Int("finished", report.Finished), zap.Int("released", report.Released),
		zap.Int("abandoned", report.Abandoned), zap.Duration("took", time.Since(start)))
	switch {
	case failure != nil:
		return report, fmt.Errorf("receive from %s: %w", p.cfg.Name, failure)
	case report.Abandoned > 0:
		return report, fmt.Errorf("drain %s: %d messages abandoned", p.cfg.Name, report.Abandoned)
	}
	return report, nil
}

// wait waits until the condition, which runs under mu, holds after some settlement. It reports whether it does.
func (p *Pool) wait(limit time.Duration, condition func() bool) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		changed := p.settled.Next()
		p.mu.Lock()
		ok := condition()
		p.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-changed:
		case <-timer.C:
			return false
		}
	}
}

// quiet: nothing is held and nothing can come. It runs under mu.
func (p *Pool) quiet() bool { return p.held.len == 0 && p.in.pollers == 0 }

// onlyRunning: only handlers that have not returned are left. It runs under mu.
func (p *Pool) onlyRunning() bool { return p.held.len == p.running-p.stuck && p.in.pollers == 0 }

// interrupt tells every handler that the process stops, those that start from now on included.
func (p *Pool) interrupt(stop context.CancelCauseFunc) {
	stop(outcome.ErrDraining)
	now := time.Now()
	p.mu.Lock()
	for h := p.held.first; h != nil; h = h.next {
		p.endHandler(h, outcome.ErrDraining, now)
	}
	p.mu.Unlock()
}

// last lets go of what is still held and closes the report.
func (p *Pool) last() (Report, error) {
	p.mu.Lock()
	var left []*held
	for h := p.held.first; h != nil; h = p.held.first {
		left = append(left, h)
		p.report.Abandoned++
		p.giveUp(h)
	}
	report, failure := p.report, p.failure
	p.mu.Unlock()
	for _, h := range left {
		p.pay(h)
		p.cfg.Log.Error("message abandoned", p.fields(h)...)
	}
	return report, failure
}

// tally counts what became of a message that was held during the stop. It runs under mu.
func (p *Pool) tally(h *held, settled bool) {
	if p.intake.Err() == nil {
		return
	}
	switch {
	case !settled || h.settlement.Action == Leave:
		p.report.Abandoned++
	case h.end == "" && h.settlement.Action == Hide, h.end == string(outcome.KindInterrupted):
		p.report.Released++
	default:
		p.report.Finished++
	}
}

// fatal ends the intake if the very first receive shows that none will ever succeed.
func (p *Pool) fatal(err error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.in.received || !hopeless(err) {
		return false
	}
	p.failure = err
	p.stopIntake()
	return true
}

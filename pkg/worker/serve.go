package worker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/stagefleet/stagefleet/pkg/blob"
	"github.com/stagefleet/stagefleet/pkg/breaker"
	"github.com/stagefleet/stagefleet/pkg/control"
	"github.com/stagefleet/stagefleet/pkg/internal/outbound"
	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/pool"
	"github.com/stagefleet/stagefleet/pkg/protect"
	"github.com/stagefleet/stagefleet/pkg/stage"
)

// Queue is what a worker needs of an SQS client.
type Queue interface {
	pool.SQS
	outbound.API
}

// Resources is what a worker works with; the caller opens and closes it.
type Resources struct {
	Settings stage.Settings
	ID       string // of this worker, unique in the fleet; shown to people
	Record   *job.Store
	Objects  blob.Store
	Queue    Queue
	Switch   control.Switch       // the kill switch; nil: none
	Agent    string               // address of the ECS agent; empty: the task is not protected
	Log      *zap.Logger          // nil: silent
	Metrics  *prometheus.Registry // nil: a new one
	Health   net.Listener         // serves health and metrics; nil: not served
	Getenv   func(string) string  // for the handler's constructor; nil: nothing is set
}

func (r Resources) withDefaults() Resources {
	if r.Log == nil {
		r.Log = zap.NewNop()
	}
	if r.Metrics == nil {
		r.Metrics = prometheus.NewRegistry()
	}
	if r.Getenv == nil {
		r.Getenv = func(string) string { return "" }
	}
	return r
}

// service is a worker whose parts are joined.
type service struct {
	res        Resources
	scratch    *scratch
	breaker    *breaker.Breaker
	protection *protect.Task
	control    *control.Control
	pool       *pool.Pool
	latency    *prometheus.HistogramVec
	changed    chan struct{} // the status is worth a report
}

// Serve runs the stage until ctx ends, then drains; see pool.Pool.Run for the
// order of a stop and the meaning of the report. Nothing that it started outlives
// it. An error that matches ErrStart means that it never served.
func (p Program) Serve(ctx context.Context, r Resources) (pool.Report, error) {
	s, err := p.join(ctx, r.withDefaults())
	if err != nil {
		return pool.Report{}, fmt.Errorf("%w: %w", ErrStart, err)
	}
	report, err := s.run(ctx)
	return report, errors.Join(err, s.scratch.remove())
}

// join makes the parts and gives them to each other; it starts nothing.
func (p Program) join(ctx context.Context, r Resources) (*service, error) {
	run, err := p.build(Deps{Log: r.Log, Getenv: r.Getenv})
	if err != nil {
		return nil, err
	}
	own, dead, err := queueURLs(ctx, r)
	if err != nil {
		return nil, err
	}
	s := &service{res: r, latency: newLatency(), changed: make(chan struct{}, 1)}
	if err := r.Metrics.Register(s.latency); err != nil {
		return nil, fmt.Errorf("register the latency of providers: %w", err)
	}
	if s.breaker, err = breaker.New(s.breakerConfig()); err != nil {
		return nil, err
	}
	if s.protection, err = protect.New(s.protectConfig()); err != nil {
		return nil, err
	}
	if s.control, err = control.New(s.controlConfig()); err != nil {
		return nil, err
	}
	if s.scratch, err = newScratch(p.Name); err != nil {
		return nil, err
	}
	c := s.poolConfig(run)
	c.QueueURL, c.DeadLetterURL = own, dead
	if s.pool, err = pool.New(r.Queue, c); err != nil {
		return nil, errors.Join(err, s.scratch.remove())
	}
	return s, nil
}

func queueURLs(ctx context.Context, r Resources) (own, dead string, err error) {
	for name, url := range map[string]*string{r.Settings.Own.Queue: &own, r.Settings.Own.DLQ: &dead} {
		out, err := r.Queue.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: aws.String(name)})
		if err != nil {
			return "", "", fmt.Errorf("find queue %s: %w", name, err)
		}
		*url = aws.ToString(out.QueueUrl)
	}
	return own, dead, nil
}

// run lets the pool work, and beside it what must go on until the pool has ended:
// reports of the status and answers to health checks. Calls for protection end as
// the drain begins: a task that was told to stop is not kept.
func (s *service) run(ctx context.Context) (pool.Report, error) {
	ctx, stop := context.WithCancel(ctx) // the pool can end by itself
	defer stop()
	beside, end := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() { s.report(beside, ctx) })
	defer context.AfterFunc(ctx, s.look)()
	wg.Go(func() { s.complain("control", s.control.Run(ctx)) })
	wg.Go(func() { s.complain("protection", s.protection.Run(ctx)) })
	if s.res.Health != nil {
		wg.Go(func() {
			s.complain("health checks", serveHealth(beside, s.res.Health, s.pool.Health(), s.res.Metrics))
		})
	}
	report, err := s.pool.Run(ctx)
	stop()
	end()
	wg.Wait()
	return report, err
}

// complain logs the end of something that should have lasted. The work goes on
// without it; what it was for has its own alarm.
func (s *service) complain(what string, err error) {
	if err != nil {
		s.res.Log.Error("ended early", zap.String("part", what), zap.Error(err))
	}
}

package worker

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.uber.org/zap"

	"github.com/stagefleet/stagefleet/pkg/blob"
	"github.com/stagefleet/stagefleet/pkg/internal/outbound"
	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/pool"
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
	res     Resources
	scratch string // holds the folders of attempts
	pool    *pool.Pool
}

// Serve runs the stage until ctx ends, then drains; see pool.Pool.Run for the
// order of a stop and the meaning of the report. Nothing that it started outlives it.
func (p Program) Serve(ctx context.Context, r Resources) (pool.Report, error) {
	s, err := p.join(ctx, r.withDefaults())
	if err != nil {
		return pool.Report{}, err
	}
	defer os.RemoveAll(s.scratch)
	return s.run(ctx)
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
	scratch, err := os.MkdirTemp("", "stagefleet-"+p.Name+"-")
	if err != nil {
		return nil, fmt.Errorf("make the folder for attempts: %w", err)
	}
	s := &service{res: r, scratch: scratch}
	x := &executor{
		run: run, store: r.Record, objects: r.Objects, scratch: scratch,
		limit: r.Settings.Stage.Profile.MaxInput, log: r.Log,
	}
	c := poolConfig(r, x)
	c.QueueURL, c.DeadLetterURL = own, dead
	if s.pool, err = pool.New(r.Queue, c); err != nil {
		return nil, err
	}
	return s, nil
}

// poolConfig says the stage's settings in the pool's terms.
func poolConfig(r Resources, x *executor) pool.Config {
	st := r.Settings.Stage
	d := st.Durations
	return pool.Config{
		Name: st.Name, Handler: x.handle, Slots: st.Profile.Slots,
		Visibility: d.Visibility, Beat: d.Beat, Wait: d.Poll, TimeLimit: st.Profile.TimeLimit,
		Drain: d.Drain, Grace: d.Grace, Settle: d.Settle,
		MaxReceives: st.Retry.MaxReceives,
		Ledger:      newLedger(r.Record, outbound.New(r.Queue), r.Settings, r.ID, r.Log),
		Log:         r.Log, Metrics: r.Metrics, Tracer: otel.GetTracerProvider(),
	}
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
// reports of the status and answers to health checks.
func (s *service) run(ctx context.Context) (pool.Report, error) {
	beside, end := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() { s.report(beside) })
	if s.res.Health != nil {
		wg.Go(func() {
			if err := serveHealth(beside, s.res.Health, s.pool.Health(), s.res.Metrics); err != nil {
				s.res.Log.Error("health checks are not answered", zap.Error(err))
			}
		})
	}
	report, err := s.pool.Run(ctx)
	end()
	wg.Wait()
	return report, err
}

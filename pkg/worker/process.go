package worker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"go.uber.org/zap"

	"github.com/stagefleet/stagefleet/pkg/blob"
	"github.com/stagefleet/stagefleet/pkg/control"
	"github.com/stagefleet/stagefleet/pkg/internal/awshttp"
	"github.com/stagefleet/stagefleet/pkg/internal/telemetry"
	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/pool"
)

// Run is a worker process without its signals: it opens what the configuration
// names, serves until ctx ends, drains, and closes everything again. An error
// that matches ErrStart means that it never served.
func (p Program) Run(ctx context.Context, c Config, log *zap.Logger) (pool.Report, error) {
	res, closeAll, err := open(ctx, c, log)
	if err != nil {
		return pool.Report{}, fmt.Errorf("%w: %w", ErrStart, err)
	}
	stop := emit(ctx, c, res)
	report, err := p.Serve(ctx, res)
	stop()
	return report, errors.Join(err, closeAll())
}

// emit writes the metrics behind alarms into the log until the returned function is called, drain included.
func emit(ctx context.Context, c Config, r Resources) (stop func()) {
	if !c.Emit {
		return func() {}
	}
	e := telemetry.Emitter{
		Out: os.Stderr, Gatherer: r.Metrics, Env: c.Settings.Environment, Stage: c.Settings.Stage.Name,
		Failed: func(err error) { r.Log.Warn("metrics not written", zap.Error(err)) },
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() { e.Run(ctx) })
	return func() {
		cancel()
		wg.Wait()
	}
}

// ErrStart is matched when something that a worker needs could not be opened.
var ErrStart = errors.New("the worker could not start")

// open opens the record, the objects, the queues and the health address, in the
// order in which a fault is most likely the configuration's.
func open(ctx context.Context, c Config, log *zap.Logger) (_ Resources, closeAll func() error, err error) {
	var stack closers
	defer func() {
		if err != nil {
			err = errors.Join(err, stack.close())
		}
	}()
	metrics := telemetry.NewRegistry()
	record, err := job.Open(ctx, c.Database, job.Options{Registerer: metrics})
	if err != nil {
		return Resources{}, nil, fmt.Errorf("open the record: %w", err)
	}
	stack.add("record", record.Close)
	objects, err := blob.Open(ctx, c.Blob)
	if err != nil {
		return Resources{}, nil, fmt.Errorf("open the objects: %w", err)
	}
	queue, killSwitch, err := newClients(ctx, c.Switch)
	if err != nil {
		return Resources{}, nil, err
	}
	health, err := listen(ctx, c.HealthAddr)
	if err != nil {
		return Resources{}, nil, err
	}
	shutdown := telemetry.StartTracing(c.Settings.Stage.Name, c.Settings.Environment)
	stack.add("traces", func() error { return shutdown(context.WithoutCancel(ctx)) })
	return Resources{
		Settings: c.Settings, ID: workerID(c), Record: record, Objects: objects, Queue: queue, Switch: killSwitch, Agent: c.AgentURI,
		Log: log, Metrics: metrics, Health: health, Getenv: os.Getenv,
	}, stack.close, nil
}

// listen opens the health address, if there is one; Serve closes it.
func listen(ctx context.Context, addr string) (net.Listener, error) {
	if addr == "" {
		return nil, nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("open the health address: %w", err)
	}
	return l, nil
}

// newClients returns the client of the queues, and the kill switch if its parameter
// has a name. The pool and the sender bring retry budgets of their own for each kind of call.
func newClients(ctx context.Context, parameter string) (*sqs.Client, control.Switch, error) {
	cfg, err := awshttp.Config(ctx)
	if err != nil {
		return nil, nil, err
	}
	var killSwitch control.Switch
	if parameter != "" {
		killSwitch = control.Parameter{Client: ssm.NewFromConfig(cfg), Name: parameter}
	}
	return sqs.NewFromConfig(cfg), killSwitch, nil
}

// workerID names the worker for people: stage, host, process.
func workerID(c Config) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s-%s-%d", c.Settings.Stage.Name, strings.SplitN(host, ".", 2)[0], os.Getpid())
}

// closers is a stack of named steps.
type closers []struct {
	name string
	do   func() error
}

func (s *closers) add(name string, do func() error) {
	*s = append(*s, struct {
		name string
		do   func() error
	}{name, do})
}

// close runs every step, the latest first, whatever the others return.
func (s *closers) close() error {
	var errs []error
	for i := len(*s) - 1; i >= 0; i-- {
		if err := (*s)[i].do(); err != nil {
			errs = append(errs, fmt.Errorf("close the %s: %w", (*s)[i].name, err))
		}
	}
	*s = nil
	return errors.Join(errs...)
}

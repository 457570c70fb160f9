// Package fleet composes the two long-running forms of the fleet command: the server (API, relay, reconciler) and the local
// fleet (that server, an embedded queue server and the workers as processes, all in one state directory).
//
// Promised: Run returns when nothing that it started is left, workers stop before what they need stops, and two local
// fleets never share a state directory. It decides nothing about work: package job does. Command fleet is the caller.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/stagefleet/stagefleet/pkg/admin"
	"github.com/stagefleet/stagefleet/pkg/api"
	"github.com/stagefleet/stagefleet/pkg/blob"
	"github.com/stagefleet/stagefleet/pkg/intake"
	"github.com/stagefleet/stagefleet/pkg/internal/outbound"
	"github.com/stagefleet/stagefleet/pkg/internal/telemetry"
	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/stage"
	"github.com/stagefleet/stagefleet/pkg/webhook"
)

// DefaultAddr is where the API answers.
const DefaultAddr = "127.0.0.1:8080"

// apiGrace is what requests under way get when the server stops.
const apiGrace = 5 * time.Second

// Queues is what the server needs of an SQS client.
type Queues interface {
	admin.Queues
	admin.DeadLetters
	outbound.API
}

// Server is what Serve joins. Every field is required unless it says otherwise.
type Server struct {
	Pipeline stage.Pipeline
	Env      string
	Addr     string // host:port of the API, on the loopback interface unless there are keys
	Record   *job.Store
	Crew     admin.Record // the record, as the overview of the stages sees it
	Place    string       // of the objects, file:///folder or s3://bucket/prefix
	Queues   Queues
	Metrics  *prometheus.Registry // shown under /metrics
	Log      *zap.Logger
	// Local: operators are on this machine, so their sheets may name its files, and their own account's webhooks may go to addresses
	// that only it has.
	Local bool
	Sweep time.Duration     // between two looks into the dead-letter queues
	Watch time.Duration     // between two looks for alarms
	Ready func(addr string) // called once, when the API answers

	Providers map[string][]webhook.Secret // by which providers sign their events; empty: none is accepted
	Proxies   []netip.Prefix              // that are trusted to say for whom they ask; empty: nobody is
	Price     int64                       // units that a job costs; zero is free
	KeysMade  func()                      // told, perhaps often, that there are API keys; may be nil
}

// Serve runs API, relay, reconciler, sweeper and importer until ctx ends or one of them fails; then it ends the others.
func Serve(ctx context.Context, s Server) error {
	front, overview, operator, err := s.front(ctx)
	if err != nil {
		return err
	}
	imports, err := s.intake(ctx)
	if err != nil {
		return err
	}
	listener, err := s.listen(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, c := range []prometheus.Collector{overview, LagGauge(ctx, s.Record), SilentGauge(ctx, s.Record), openGauge{ctx, s.Record}} {
		if err := s.Metrics.Register(c); err != nil {
			return err
		}
	}
	parts := map[string]func() error{
		"API":        func() error { return front.Run(ctx, listener, apiGrace) },
		"relay":      func() error { return s.Record.Relay(ctx, loggedSender{outbound.New(s.Queues), s.Log}) },
		"reconciler": func() error { return s.Record.Reconcile(ctx, loggedCounter{overview, s.Log}) },
		"sweeper":    func() error { return operator.Letters.Run(ctx) },
		"collector":  func() error { return operator.Collecting(ctx, s.collected, s.notCollected) },
		"importer":   func() error { return imports.Run(ctx) },
		"alarms":     func() error { return overview.Watch(ctx, s.Watch, s.ringing, s.unseen) },
		"webhooks":   func() error { return s.reports(ctx) },
	}
	ended := make(chan error, len(parts))
	for name, run := range parts {
		go func() { ended <- part(ctx, name, run()) }()
	}
	s.Ready(listener.Addr().String())
	var errs []error
	for range parts {
		errs = append(errs, <-ended)
		cancel()
	}
	return errors.Join(errs...)
}

// part names the part that failed. Ending because it was told to is no failure.
func part(ctx context.Context, name string, err error) error {
	switch {
	case err != nil && ctx.Err() != nil && errors.Is(err, context.Canceled):
		return nil
	case err != nil:
		return fmt.Errorf("run the %s: %w", name, err)
	case ctx.Err() == nil:
		return fmt.Errorf("run the %s: it ended by itself", name)
	}
	return nil
}

// ringing says which alarms ring now; the runbooks bear their names.
func (s Server) ringing(of string, alarms []string) {
	if len(alarms) == 0 {
		s.Log.Info("no alarm rings any more", zap.String("stage", of))
		return
	}
	s.Log.Warn("alarms ring", zap.String("stage", of), zap.Strings("alarms", alarms))
}

// unseen says that the alarms are as old as the last look that succeeded.
func (s Server) unseen(err error) { s.Log.Warn("alarms not evaluated", zap.Error(err)) }

func (s Server) reports(ctx context.Context) error {
	public := webhook.NewClient(false)
	defer public.Close()
	h := hooks{record: s.Record, to: public, log: s.Log}
	if s.Local {
		inside := webhook.NewClient(true)
		defer inside.Close()
		h.inside = inside
	}
	return h.run(ctx)
}

func (s Server) sweeper() *admin.Sweeper {
	return &admin.Sweeper{Stages: s.Pipeline, Env: s.Env, Queues: s.Queues, Record: s.Record, Every: s.Sweep, Failed: func(err error) {
		s.Log.Warn("dead-letter queues not swept", zap.Error(err))
	}}
}

func (s Server) collected(c admin.Collected) {
	s.Log.Info("garbage collected", zap.Int("attempts", c.Attempts), zap.Int("uploads", c.Uploads), zap.Int("objects", c.Objects), zap.Int64("bytes", c.Bytes),
		zap.Int("failed", c.Failed))
}

func (s Server) unremoved(folder string, err error) {
	s.Log.Warn("garbage not removed", zap.String("folder", folder), zap.Error(err))
}

func (s Server) notCollected(err error) { s.Log.Warn("garbage not collected", zap.Error(err)) }

func (s Server) intake(ctx context.Context) (intake.Intake, error) {
	objects, err := blob.Open(ctx, s.Place)
	if err != nil {
		return intake.Intake{}, err
	}
	first, err := s.Pipeline.First(s.Env)
	if err != nil {
		return intake.Intake{}, err
	}
	entry, _ := s.Pipeline.Stage(first.Stage)
	return intake.Intake{Record: s.Record, Objects: objects, First: job.Route(first), MaxInput: entry.Profile.MaxInput, Log: s.Log}, nil
}

func (s Server) front(ctx context.Context) (*api.Server, *admin.Admin, *admin.Operator, error) {
	objects, err := blob.Open(ctx, s.Place)
	if err != nil {
		return nil, nil, nil, err
	}
	overview, err := admin.New(s.Pipeline, s.Env, s.Queues, s.Crew)
	if err != nil {
		return nil, nil, nil, err
	}
	first, err := s.Pipeline.First(s.Env)
	if err != nil {
		return nil, nil, nil, err
	}
	entry, _ := s.Pipeline.Stage(first.Stage)
	stages, _ := s.Pipeline.Ordered() // as admin.New has found
	operator := &admin.Operator{Stages: stages, Record: s.Record, Letters: s.sweeper(), Objects: objects, Unremoved: s.unremoved}
	names := make([]string, len(stages))
	for i, stage := range stages {
		names[i] = stage.Name
	}
	return api.NewServer(api.Config{
		Record: s.Record, Imports: s.Record, Local: s.Local, Events: s.Record, Providers: s.Providers,
		Objects: objects, Place: s.Place, Overview: overview, Operator: operator,
		First: job.Route(first), MaxUpload: entry.Profile.MaxInput, Metrics: telemetry.Handler(s.Metrics), Log: s.Log,
		Stages: names, Price: s.Price, KeysMade: s.KeysMade, Proxies: s.Proxies,
	}), overview, operator, nil
}

// listen refuses addresses that others can reach while there are no keys that would tell callers apart.
func (s Server) listen(ctx context.Context) (net.Listener, error) {
	host, _, err := net.SplitHostPort(s.Addr)
	if err != nil {
		return nil, fmt.Errorf("address %q must be host:port", s.Addr)
	}
	if !api.IsLoopback(host) {
		keys, err := s.Record.HasKeys(ctx)
		if err != nil {
			return nil, err
		}
		if !keys {
			return nil, fmt.Errorf("address %s must be on the loopback interface, such as %s, until there are keys: fleet keys first --database makes one", s.Addr, DefaultAddr)
		}
	}
	listener, err := net.Listen("tcp", s.Addr)
	if err != nil {
		return nil, fmt.Errorf("listen for the API (choose another address with --addr): %w", err)
	}
	return listener, nil
}

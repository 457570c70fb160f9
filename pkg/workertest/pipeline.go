package workertest

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"go.uber.org/zap"

	"github.com/stagefleet/stagefleet/pkg/admin"
	"github.com/stagefleet/stagefleet/pkg/internal/outbound"
	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/localsqs"
	"github.com/stagefleet/stagefleet/pkg/localsqs/sqsclient"
	"github.com/stagefleet/stagefleet/pkg/stage"
	"github.com/stagefleet/stagefleet/pkg/worker"
)

// Environment is the environment's name in a Fleet.
const Environment = "test"

// Tenant is who submits in a Fleet.
const Tenant = "tenant"

// Options says what a Fleet runs.
type Options struct {
	// Stages is the manifest, run as it is: scale it if real time passes.
	Stages stage.Pipeline
	// Programs has one program for every stage.
	Programs []worker.Program
	// Env is what the handlers' constructors may read.
	Env map[string]string
	// Log is for what goes wrong; nil: silent.
	Log *zap.Logger
	// Patience is how long Wait waits. Default DefaultPatience.
	Patience time.Duration
}

// DefaultPatience is how long Wait waits for a job that says nothing else.
const DefaultPatience = 30 * time.Minute

// Fleet is all stages in one process, with a queue server, a record in a file, the
// relay and the reconciler. It ends with the test. Methods may be called by several
// goroutines, except those that stop and start.
type Fleet struct {
	Record  *job.Store
	Objects *Objects

	t        testing.TB
	o        Options
	programs map[string]worker.Program
	server   *localsqs.Server
	client   *sqs.Client
	admin    *admin.Admin
	control  *group            // relay and reconciler
	workers  map[string]*group // by stage
}

// Pipeline starts a fleet with one worker of every stage.
func Pipeline(t testing.TB, o Options) *Fleet {
	t.Helper()
	record, err := job.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "fleet.db"), job.Options{Migrate: true})
	if err != nil {
		t.Fatalf("open the record: %v", err)
	}
	t.Cleanup(func() { check(t, "close the record", record.Close()) })
	_, err = record.Grant(t.Context(), Tenant, "start", Funds, "test")
	check(t, "give the tenant funds", err)
	f := &Fleet{t: t, o: o, Record: record, Objects: NewObjects(t), programs: map[string]worker.Program{}, workers: map[string]*group{}}
	if f.o.Log == nil {
		f.o.Log = zap.NewNop()
	}
	if f.o.Patience == 0 {
		f.o.Patience = DefaultPatience
	}
	for _, p := range o.Programs {
		f.programs[p.Name] = p
	}
	for _, s := range o.Stages {
		if _, ok := f.programs[s.Name]; !ok {
			t.Fatalf("stage %q has no program in Options.Programs: add worker.Define(%q, handler.New)", s.Name, s.Name)
		}
	}
	f.startControl()
	f.Start()
	t.Cleanup(func() {
		f.Stop()
		f.stopControl()
	})
	return f
}

// Start starts one more worker of each of the named stages, or of every stage.
func (f *Fleet) Start(names ...string) {
	f.t.Helper()
	for _, name := range f.named(names) {
		settings, err := f.o.Stages.Settings(Environment, name)
		check(f.t, "read the settings of "+name, err)
		g := f.workers[name]
		if g == nil {
			g = newGroup(f.t)
			f.workers[name] = g
		}
		res := worker.Resources{
			Settings: settings, ID: fmt.Sprintf("%s-%d", name, g.started), Record: f.Record, Objects: f.Objects.Store, Queue: f.client,
			Log: f.o.Log.With(zap.String("stage", name)), Getenv: func(k string) string { return f.o.Env[k] },
		}
		g.run("worker "+name, func(ctx context.Context) error {
			_, err := f.programs[name].Serve(ctx, res)
			return err
		})
	}
}

// Stop drains the workers of the named stages, or of every stage, and returns when
// they are gone.
func (f *Fleet) Stop(names ...string) {
	f.t.Helper()
	var all sync.WaitGroup
	for _, name := range f.named(names) {
		if g := f.workers[name]; g != nil {
			delete(f.workers, name)
			all.Go(g.stop)
		}
	}
	all.Wait()
}

// RestartAll stops everything at once, forgets every queue and starts again, as
// when a machine whose queue server keeps nothing is rebooted.
func (f *Fleet) RestartAll() {
	f.t.Helper()
	f.Stop()
	f.stopControl()
	f.startControl()
	_, err := f.Record.ReissueAll(f.t.Context())
	check(f.t, "reissue the unfinished steps", err)
	f.Start()
}

func (f *Fleet) named(names []string) []string {
	if len(names) > 0 {
		return names
	}
	for _, s := range f.o.Stages {
		names = append(names, s.Name)
	}
	return names
}

// startControl makes the queue server with its queues, and runs what the server runs.
func (f *Fleet) startControl() {
	f.t.Helper()
	f.server = localsqs.New(localsqs.Options{})
	f.client = sqsclient.New(f.server)
	check(f.t, "make the queues", admin.CreateQueues(f.t.Context(), f.client, f.o.Stages, Environment))
	var err error
	f.admin, err = admin.New(f.o.Stages, Environment, f.client, f.Record)
	check(f.t, "look at the stages", err)
	sender := outbound.New(f.client)
	f.control = newGroup(f.t)
	f.control.run("relay", func(ctx context.Context) error { return f.Record.Relay(ctx, sender) })
	f.control.run("reconciler", func(ctx context.Context) error { return f.Record.Reconcile(ctx, f.admin) })
}

func (f *Fleet) stopControl() {
	f.control.stop()
	check(f.t, "close the queue server", f.server.Close())
}

// group is goroutines that end together.
type group struct {
	t       testing.TB
	ctx     context.Context
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	started int
}

func newGroup(t testing.TB) *group {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	return &group{t: t, ctx: ctx, cancel: cancel}
}

// run starts f; an error before the group was told to stop fails the test.
func (g *group) run(name string, f func(context.Context) error) {
	g.started++
	g.wg.Go(func() {
		if err := f(g.ctx); err != nil && g.ctx.Err() == nil {
			g.t.Errorf("%s: %v", name, err)
		}
	})
}

func (g *group) stop() {
	g.cancel()
	g.wg.Wait()
}

func check(t testing.TB, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// encoded returns v as JSON.
func encoded(t testing.TB, v any) json.RawMessage {
	t.Helper()
	raw, err := json.Marshal(v)
	check(t, "encode the input", err)
	return raw
}

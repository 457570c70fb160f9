package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/stagefleet/stagefleet/pkg/admin"
	"github.com/stagefleet/stagefleet/pkg/api"
	"github.com/stagefleet/stagefleet/pkg/internal/localecs"
	"github.com/stagefleet/stagefleet/pkg/internal/telemetry"
	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/localsqs"
	"github.com/stagefleet/stagefleet/pkg/localsqs/sqsclient"
	"github.com/stagefleet/stagefleet/pkg/stage"
	"github.com/stagefleet/stagefleet/pkg/webhook"
)

// localReconcile is how often the record is compared with the queues, and dead letters with the record: sooner than in
// production, where a look costs calls, so that what a killed fleet held goes on soon.
const localReconcile = 5 * time.Second

// localEnv is the environment's name in a local fleet's queue names.
const localEnv = "local"

// EndpointFile is the file of the state directory that says, while the fleet runs, where its queues are.
const EndpointFile = "queues.url"

// sqsHeaderTimeout bounds the reading of a request's header by the queue server.
const sqsHeaderTimeout = 10 * time.Second

// ErrKilled is matched when the workers were killed before they had drained. What they worked on goes on at the next Run.
var ErrKilled = errors.New("the workers were killed before they had drained; their work goes on at the next start")

// Local is a fleet on this machine. Every field is required.
type Local struct {
	Pipeline stage.Pipeline // with the durations to be used
	State    string         // directory; made when missing
	Addr     string         // host:port of the API
	Tasks    map[string]int // of each stage
	Binaries string         // folder with one worker per stage, named after it
	Limits   Limits
	Price    int64           // units that a job costs; zero is free
	Environ  []string        // NAME=value, from which workers inherit what is not the fleet's own
	Out      io.Writer       // lines for the person who runs it
	Kill     <-chan struct{} // closed by a person who will not wait for the drain

	Providers map[string][]webhook.Secret // by which providers sign their events; empty: none is accepted
	Proxies   []netip.Prefix              // that are trusted to say for whom they ask; empty: nobody is
}

// Run brings the fleet up and keeps it until ctx ends; then workers drain, and the rest stops. It fails with ErrInUse when
// another fleet has the state directory, and with ErrKilled when it was not let drain. A job that was under way goes on at the next Run.
func (l Local) Run(ctx context.Context) (err error) {
	st, err := openState(l.State)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.close()) }()
	file, err := openLog(st.path("logs/fleet.log"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.close()) }()
	log, err := telemetry.NewLog(file, "info")
	if err != nil {
		return err
	}
	metrics := telemetry.NewRegistry()
	record, err := job.Open(ctx, st.database(), l.Limits.of(job.Options{Migrate: true, ReconcileEvery: localReconcile, Registerer: metrics, Failed: loggedFaults(log)}))
	if err != nil {
		return fmt.Errorf("open the record: %w", err)
	}
	defer func() { err = errors.Join(err, record.Close()) }()
	queues, endpoint, stopQueues, err := startQueues(st.path("queues"), log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopQueues()) }()
	key := &ownKey{record: record, path: st.path(KeyFile), log: log}
	if err := key.afterFirst(ctx); err != nil {
		return err
	}
	if err := os.WriteFile(st.path(EndpointFile), []byte(endpoint+"\n"), 0o600); err != nil {
		return fmt.Errorf("say where the queues are: %w", err)
	}
	defer os.Remove(st.path(EndpointFile))
	server := Server{
		Pipeline: l.Pipeline, Env: localEnv, Addr: l.Addr, Record: record, Place: st.place(), Queues: sqsclient.New(queues), Metrics: metrics, Log: log,
		Local: true, Price: l.Price, KeysMade: key.made, Providers: l.Providers, Proxies: l.Proxies, Sweep: localReconcile, Watch: localWatch, Ready: func(addr string) { l.welcome(addr, endpoint, st) },
	}
	if err := admin.CreateQueues(ctx, sqsclient.New(queues), l.Pipeline, localEnv); err != nil {
		return err
	}
	return l.run(ctx, st, server, endpoint)
}

// startQueues runs an embedded queue server on a free loopback port, for programs of this machine. Its messages outlive it.
func startQueues(dir string, log *zap.Logger) (*localsqs.Server, string, func() error, error) {
	queues, err := localsqs.Open(dir, localsqs.Options{})
	if damaged, ok := errors.AsType[*localsqs.DamageError](err); ok {
		return nil, "", nil, fmt.Errorf("open the queues: %w; without the folder %s, unfinished work is sent again", damaged, dir)
	}
	if err != nil {
		return nil, "", nil, fmt.Errorf("open the queues: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", nil, errors.Join(fmt.Errorf("listen for the queues: %w", err), queues.Close())
	}
	server := &http.Server{Handler: api.Guard(queues), ReadHeaderTimeout: sqsHeaderTimeout, ErrorLog: zap.NewStdLog(log)}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	stop := func() error {
		err := errors.Join(server.Close(), queues.Close())
		if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
			err = errors.Join(err, fmt.Errorf("serve the queues: %w", ended))
		}
		return err
	}
	return queues, "http://" + listener.Addr().String(), stop, nil
}

// run has everything open.
func (l Local) run(ctx context.Context, st *state, server Server, endpoint string) error {
	services, err := l.services(st, endpoint)
	if err != nil {
		return err
	}
	cluster, err := localecs.New(localecs.Config{Services: services, LogDir: st.path("logs"), TempDir: st.path("tmp"), Died: l.tell})
	if err != nil {
		return err
	}
	server.Crew = crew{server.Record, cluster.Tasks}
	err = l.keep(ctx, server, cluster)
	return errors.Join(err, st.sweep())
}

// keep runs server and workers. Workers stop first, since they need the record, the queues and the relay to drain; a server
// that fails stops them too.
func (l Local) keep(ctx context.Context, server Server, cluster *localecs.Cluster) error {
	serving, stopServer := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServer()
	working, stopWorkers := context.WithCancel(ctx)
	defer stopWorkers()
	ready, welcome := make(chan struct{}), server.Ready
	server.Ready = func(addr string) { welcome(addr); close(ready) }
	var served, killed error
	var group sync.WaitGroup
	group.Go(func() {
		served = Serve(serving, server)
		stopWorkers()
	})
	select {
	case <-ready:
	case <-working.Done():
	}
	drained := make(chan struct{})
	group.Go(func() {
		select {
		case <-l.Kill:
			cluster.Kill()
			killed = ErrKilled
		case <-drained:
		}
	})
	err := cluster.Run(working)
	close(drained)
	stopServer()
	group.Wait()
	return errors.Join(killed, err, served)
}

func (l Local) welcome(addr, endpoint string, st *state) {
	var workers []string
	stages, _ := l.Pipeline.Ordered() // validated by services
	for _, s := range stages {
		workers = append(workers, fmt.Sprintf("%s %d", s.Name, l.Tasks[s.Name]))
	}
	fmt.Fprintf(l.Out, "The fleet is up.\n  API      http://%s\n  queues   %s (SQS protocol, any credentials)\n  state    %s\n  logs     %s\n  workers  %s\n",
		addr, endpoint, st.dir, st.path("logs"), strings.Join(workers, ", "))
	fmt.Fprintf(l.Out, "Hand in a recording with: fleet submit FILE --wait\n")
}

// tell says that a worker died, and what it said last when it keeps doing so.
func (l Local) tell(d localecs.Death) {
	cause := "exited"
	if d.Cause != nil {
		cause = d.Cause.Error()
	}
	var text strings.Builder
	fmt.Fprintf(&text, "worker %s died (%s); it starts again in %v\n", d.Task, cause, d.Restart)
	if d.InARow > 1 {
		for _, line := range d.Tail {
			fmt.Fprintf(&text, "    %s\n", line)
		}
		fmt.Fprintf(&text, "    (%d deaths in a row; all of its output: %s)\n", d.InARow, d.LogFile)
	}
	fmt.Fprint(l.Out, text.String())
}

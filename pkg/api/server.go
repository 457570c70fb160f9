// Package api is the fleet's front door: an HTTP server that takes recordings and tells what became of them, and the Go
// client that the fleet command uses.
//
// Promised: 202 only when the job and its input are durable; errors are RFC 9457 problem details with a sentence for
// people; live events lose nothing over a reconnect; nobody learns of another tenant's work, not even that it is there. While
// there are no keys, the server answers callers on the loopback interface only. Package job decides; this package translates. An operation is an entry of the table of routes: method, path,
// scope, what it takes and gives; the OpenAPI document at /v1/openapi.json is made from it.
package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/stagefleet/stagefleet/pkg/admin"
	"github.com/stagefleet/stagefleet/pkg/blob"
	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/webhook"
)

// Tenant is the account of the local operator, who is every caller until there are keys.
const Tenant = "local"

// Timing of the server.
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	stallTimeout  = time.Minute // a request or an answer may pause this long under way
	pingEvery     = time.Second
	pingTimeout   = 5 * time.Second
	maxHeader     = 64 << 10 // bytes of a request's header
)

// Record is what the API needs of package job.
type Record interface {
	Reader
	Keyring
	Ledger
	Uploads
	Submit(ctx context.Context, s job.Submission) (job.Job, error)
	Uploaded(ctx context.Context, folder string) error
	Jobs(ctx context.Context, f job.Filter) ([]job.Job, string, error)
	Forecast(ctx context.Context, stages []string) (job.Forecast, error)
	Ping(ctx context.Context) error
}

// Reader reads one job. Changes is the cheap question whether anything has changed, for all who watch.
type Reader interface {
	Job(ctx context.Context, tenant, id string) (job.Job, error)
	Seq(ctx context.Context, tenant, id string) (int64, error)
	Changes(ctx context.Context, watched []job.Watched, keys []string) (job.Changed, error)
}

// Overview tells the state of every stage, in the order of the work.
type Overview interface {
	Stages(ctx context.Context) ([]admin.Stage, error)
}

// Events is what the API needs of the record to take providers' events and to tell of webhooks.
type Events interface {
	Receive(ctx context.Context, e job.Event) (fresh bool, err error)
	Hooks(ctx context.Context, tenant, job string) ([]job.Hook, error)
	HookSecrets(ctx context.Context, tenant, fresh string) ([]string, error)
	RotateHookSecret(ctx context.Context, tenant, fresh, who string, overlap time.Duration) error
}

// Config is what a Server needs. Every field is required unless it says otherwise.
type Config struct {
	Record    Record
	Imports   Imports
	Events    Events
	Providers map[string][]webhook.Secret // by which providers sign their events; empty: none is accepted
	Objects   blob.Store
	Place     string // of the object store, file:///folder or s3://bucket/prefix: results are named with it
	Overview  Overview
	Operator  *admin.Operator
	First     job.Route // of a new job
	Stages    []string  // in the order of the work, for forecasts
	MaxUpload int64     // bytes of one recording
	// Local lets operators submit and import recordings that are files of this machine, and webhooks of Tenant go to addresses that
	// only it has.
	Local   bool
	Metrics http.Handler
	Log     *zap.Logger
	Price   int64          // units that a job costs; zero is free
	Proxies []netip.Prefix // that are trusted to say for whom they ask, in X-Forwarded-For; empty: nobody is
	// KeysMade is told, perhaps often, that there are keys, so that callers without one are refused; may be nil.
	KeysMade func()
}

// Server answers the API's requests. It is safe for concurrent use.
type Server struct {
	cfg      Config
	gate     *gate
	watches  *watches
	handler  http.Handler
	document doc           // OpenAPI
	stopping chan struct{} // closed when Run is told to end: event streams do not wait to be cut

	pinging sync.Mutex
	pinged  time.Time // guarded by pinging
	ping    error     // what came of it; guarded by pinging
}

// NewServer prepares a server; Run makes it answer.
func NewServer(cfg Config) *Server {
	if cfg.KeysMade == nil {
		cfg.KeysMade = func() {}
	}
	s := &Server{cfg: cfg, gate: newGate(cfg.Record, cfg.Proxies, cfg.KeysMade), stopping: make(chan struct{})}
	s.watches = newWatches(cfg.Record, s.event)
	routes := s.routes()
	s.document = describe(routes)
	s.handler = s.mux(routes)
	return s
}

// ServeHTTP makes the server usable without a listener, as in tests.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.handler.ServeHTTP(bound(w, r), r)
}

// Run answers on the listener until ctx ends; then requests under way get the given time to finish. Event streams end at
// once. It may be called once.
func (s *Server) Run(ctx context.Context, listener net.Listener, grace time.Duration) error {
	server := &http.Server{
		Handler: s, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: zap.NewStdLog(s.cfg.Log),
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve the API: %w", err)
	case <-ctx.Done():
	}
	close(s.stopping)
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	err := server.Shutdown(end)
	if err != nil {
		err = errors.Join(err, server.Close())
	}
	if ended := <-failed; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, fmt.Errorf("serve the API: %w", ended))
	}
	return err
}

// answer runs one operation for a caller who may ask for it. What went wrong is also told to a caller who seems to have gone, as one
// who has stalled does: no answer at all would be sent as 200.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, route route) {
	err := s.perform(w, r, route)
	if err == nil {
		return
	}
	p := problemOf(err)
	switch {
	case p.Status != http.StatusInternalServerError:
	case r.Context().Err() != nil:
		p = problem(http.StatusRequestTimeout, "broken_off", "The request was broken off.")
	default:
		s.cfg.Log.Error("request failed", zap.String("operation", r.Pattern), zap.String("job", r.PathValue("id")), zap.Error(err))
	}
	writeProblem(w, r, p)
}

func (s *Server) perform(w http.ResponseWriter, r *http.Request, route route) error {
	var c caller
	if route.scope != "" {
		var err error
		if c, err = s.gate.caller(r); err != nil {
			return err
		}
		if err := c.allow(route.scope); err != nil {
			return err
		}
	}
	if err := route.understands(r); err != nil {
		return err
	}
	return route.handle(w, withCaller(r, c))
}

func (s *Server) stages(w http.ResponseWriter, r *http.Request) error {
	stages, err := s.cfg.Overview.Stages(r.Context())
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, stages)
}

// stageState is one stage as it is answered.
type stageState = admin.Stage

type health struct {
	Status string `json:"status"` // ok
}

// health asks the record at most once a second, whoever asks: it is for anybody, and the question is a transaction.
func (s *Server) health(w http.ResponseWriter, r *http.Request) error {
	s.pinging.Lock()
	if time.Since(s.pinged) >= pingEvery {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), pingTimeout)
		s.ping = s.cfg.Record.Ping(ctx)
		cancel()
		s.pinged = time.Now()
	}
	err := s.ping
	s.pinging.Unlock()
	if err != nil {
		return problem(http.StatusServiceUnavailable, "record", "The record does not answer.")
	}
	return writeJSON(w, http.StatusOK, health{Status: "ok"})
}

func (s *Server) metrics(w http.ResponseWriter, r *http.Request) error {
	s.cfg.Metrics.ServeHTTP(w, r)
	return nil
}

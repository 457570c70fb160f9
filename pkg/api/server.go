// Package api is the fleet's front door: an HTTP server that takes recordings and tells what became of them, and the Go
// client that the fleet command uses.
//
// Promised: 202 only when the job and its input are durable; errors are RFC 9457 problem details with a sentence for
// people; live events lose nothing over a reconnect. Not promised yet: keys, so the server answers callers on the loopback
// interface only. Package job decides; this package translates.
package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/stagefleet/stagefleet/pkg/admin"
	"github.com/stagefleet/stagefleet/pkg/blob"
	"github.com/stagefleet/stagefleet/pkg/job"
)

// Tenant is the account that every caller has until there are keys.
const Tenant = "local"

// Timing of the server.
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	stallTimeout  = time.Minute // an upload may pause this long
)

// Record is what the API needs of package job.
type Record interface {
	Reader
	Submit(ctx context.Context, s job.Submission) (job.Job, error)
	Jobs(ctx context.Context, f job.Filter) ([]job.Job, string, error)
	Ping(ctx context.Context) error
}

// Reader reads one job. Seq is the cheap question whether anything has changed.
type Reader interface {
	Job(ctx context.Context, tenant, id string) (job.Job, error)
	Seq(ctx context.Context, tenant, id string) (int64, error)
}

// Overview tells the state of every stage, in the order of the work.
type Overview interface {
	Stages(ctx context.Context) ([]admin.Stage, error)
}

// Config is what a Server needs; every field is required.
type Config struct {
	Record    Record
	Objects   blob.Store
	Place     string // of the object store, file:///folder or s3://bucket/prefix: results are named with it
	Overview  Overview
	First     job.Route // of a new job
	MaxUpload int64     // bytes of one recording
	Metrics   http.Handler
	Log       *zap.Logger
}

// Server answers the API's requests. It is safe for concurrent use.
type Server struct {
	cfg      Config
	watches  *watches
	handler  http.Handler
	stopping chan struct{} // closed when Run is told to end: event streams do not wait to be cut
}

// NewServer prepares a server; Run makes it answer.
func NewServer(cfg Config) *Server {
	s := &Server{cfg: cfg, watches: newWatches(cfg.Record), stopping: make(chan struct{})}
	mux := http.NewServeMux()
	for pattern, methods := range map[string]map[string]endpoint{
		"/v1/jobs":             {http.MethodPost: s.submit, http.MethodGet: s.list},
		"/v1/jobs/{id}":        {http.MethodGet: s.job},
		"/v1/jobs/{id}/events": {http.MethodGet: s.events},
		"/v1/stages":           {http.MethodGet: s.stages},
		"/healthz":             {http.MethodGet: s.health},
		"/metrics":             {http.MethodGet: s.metrics},
		"/":                    {},
	} {
		mux.HandleFunc(pattern, s.dispatch(methods))
	}
	s.handler = Guard(mux)
	return s
}

// ServeHTTP makes the server usable without a listener, as in tests.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Run answers on the listener until ctx ends; then requests under way get the given time to finish. Event streams end at
// once. It may be called once.
func (s *Server) Run(ctx context.Context, listener net.Listener, grace time.Duration) error {
	server := &http.Server{
		Handler: s, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
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

// endpoint answers one method of one path.
type endpoint func(w http.ResponseWriter, r *http.Request) error

// dispatch chooses by method, so that every refusal is a problem document; the ServeMux would answer in plain text.
func (s *Server) dispatch(methods map[string]endpoint) http.HandlerFunc {
	var allowed []string
	for method := range methods {
		allowed = append(allowed, method)
	}
	return func(w http.ResponseWriter, r *http.Request) {
		handle, ok := methods[r.Method]
		switch {
		case len(methods) == 0:
			writeProblem(w, problem(http.StatusNotFound, "no_route", "There is nothing at this address."))
		case !ok:
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			writeProblem(w, problem(http.StatusMethodNotAllowed, "method", "This address does not take %s.", r.Method))
		default:
			s.answer(w, r, handle)
		}
	}
}

func (s *Server) answer(w http.ResponseWriter, r *http.Request, handle endpoint) {
	err := handle(w, r)
	if err == nil || r.Context().Err() != nil {
		return
	}
	p := problemOf(err)
	if p.Status == http.StatusInternalServerError {
		s.cfg.Log.Error("request failed", zap.String("operation", r.Pattern), zap.String("job", r.PathValue("id")), zap.Error(err))
	}
	writeProblem(w, p)
}

func (s *Server) list(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	state, err := ParseState(query.Get("state"))
	if err != nil {
		return err
	}
	filter := job.Filter{Tenant: Tenant, Target: query.Get("target"), State: state, Cursor: query.Get("cursor")}
	if text := query.Get("limit"); text != "" {
		limit, err := strconv.Atoi(text)
		if err != nil || limit < 1 || limit > MaxPage {
			return problem(http.StatusBadRequest, "limit", "The limit must be a whole number from 1 to %d.", MaxPage)
		}
		filter.Limit = limit
	}
	jobs, cursor, err := s.cfg.Record.Jobs(r.Context(), filter)
	if err != nil {
		return err
	}
	page := Page{Jobs: []job.Job{}, Cursor: cursor}
	for _, j := range jobs {
		page.Jobs = append(page.Jobs, s.placed(j))
	}
	return writeJSON(w, http.StatusOK, page)
}

// ParseState reads a state by which jobs are listed; an empty text is any state.
func ParseState(text string) (job.State, error) {
	switch state := job.State(text); state {
	case "", job.Waiting, job.Queued, job.Running, job.Retrying, job.Paused, job.Awaiting:
		return state, nil
	default:
		if state.Ended() {
			return state, nil
		}
	}
	return "", problem(http.StatusBadRequest, "state", "The state is none that a job can have, such as running, completed or failed.")
}

// MaxPage is the most jobs that one list holds.
const MaxPage = 500

// Page is one list of jobs, newest first. An empty Cursor means that it is the last.
type Page struct {
	Jobs   []job.Job `json:"jobs"`
	Cursor string    `json:"cursor,omitempty"`
}

func (s *Server) job(w http.ResponseWriter, r *http.Request) error {
	j, err := s.cfg.Record.Job(r.Context(), Tenant, r.PathValue("id"))
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, s.placed(j))
}

func (s *Server) stages(w http.ResponseWriter, r *http.Request) error {
	stages, err := s.cfg.Overview.Stages(r.Context())
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, stages)
}

func (s *Server) health(w http.ResponseWriter, r *http.Request) error {
	if err := s.cfg.Record.Ping(r.Context()); err != nil {
		return problem(http.StatusServiceUnavailable, "record", "The record does not answer.")
	}
	return writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

func (s *Server) metrics(w http.ResponseWriter, r *http.Request) error {
	s.cfg.Metrics.ServeHTTP(w, r)
	return nil
}

// placed names the result by where it can be opened: a path on this machine, or an s3 address.
func (s *Server) placed(j job.Job) job.Job {
	if j.Result == nil {
		return j
	}
	j.Result = &job.Result{Dir: s.at(j.Result.Dir), Manifest: s.at(j.Result.Manifest), Index: s.at(j.Result.Index)}
	return j
}

func (s *Server) at(key string) string {
	place, err := url.Parse(s.cfg.Place)
	if err != nil || place.Scheme != "file" {
		return strings.TrimSuffix(s.cfg.Place, "/") + "/" + key
	}
	return path.Join(place.Path, key)
}

func writeJSON(w http.ResponseWriter, status int, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // a client that hung up gets no answer
	return nil
}

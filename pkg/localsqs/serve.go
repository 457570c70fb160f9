package localsqs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// DefaultAddr is where Serve listens unless told otherwise.
const DefaultAddr = "127.0.0.1:9324"

// Bounds of a standalone server.
const (
	stopTimeout       = 5 * time.Second // for requests that are being answered when it stops
	readHeaderTimeout = 10 * time.Second
)

// ServeConfig says how Serve runs a server of its own.
type ServeConfig struct {
	Addr    string // host:port; empty means DefaultAddr, port 0 a free port
	Dir     string // where state is kept, see Open; empty means in memory
	Options Options
	// Prepare, if not nil, is called with the server before it listens, to make the queues that its callers expect.
	Prepare func(context.Context, *Server) error
	// Ready, if not nil, is called once with the address that is listened on.
	Ready func(addr net.Addr)
}

// Validate reports the first field that cannot work, in one sentence.
func (c ServeConfig) Validate() error {
	addr := cmp.Or(c.Addr, DefaultAddr)
	_, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return fmt.Errorf("address %q is not host:port with a port from 0 to 65535, such as %s", addr, DefaultAddr)
	}
	return c.Options.Validate()
}

// Serve runs a server, with its metrics under /metrics, until the context ends. It then lets long polls end empty,
// answers what has begun, and saves its state; an orderly stop returns nil.
func Serve(ctx context.Context, cfg ServeConfig) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	s, err := start(cfg)
	if err != nil {
		return err
	}
	if cfg.Prepare != nil {
		if err := cfg.Prepare(ctx, s); err != nil {
			return errors.Join(fmt.Errorf("prepare: %w", err), s.Close())
		}
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cmp.Or(cfg.Addr, DefaultAddr))
	if err != nil {
		return errors.Join(fmt.Errorf("serve SQS: %w", err), s.Close())
	}
	web := &http.Server{Handler: s.mux(), ReadHeaderTimeout: readHeaderTimeout}
	failed := make(chan error, 1)
	go func() { failed <- web.Serve(listener) }()
	if cfg.Ready != nil {
		cfg.Ready(listener.Addr())
	}
	select {
	case err = <-failed:
		return errors.Join(fmt.Errorf("serve: %w", err), s.Close())
	case <-ctx.Done():
	}
	s.drain()
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if err = web.Shutdown(stop); err != nil {
		err = errors.Join(fmt.Errorf("stop: %w", err), web.Close())
	}
	if served := <-failed; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return errors.Join(err, s.Close())
}

func start(cfg ServeConfig) (*Server, error) {
	if cfg.Dir != "" {
		return Open(cfg.Dir, cfg.Options)
	}
	return New(cfg.Options), nil
}

func (s *Server) mux() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(s)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.Handle("/", s)
	return mux
}

// drain answers every long poll with nothing, and from now on none waits.
func (s *Server) drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
	for _, q := range s.queues {
		q.end(nil)
	}
}

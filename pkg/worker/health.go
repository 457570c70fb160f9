package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagefleet/stagefleet/pkg/internal/telemetry"
)

// The bounds of the health server: its callers are near and ask for little.
const (
	healthRead  = 5 * time.Second
	healthWrite = 10 * time.Second
	healthStop  = time.Second
	healthAsk   = 5 * time.Second
)

// serveHealth answers /healthz, /readyz and /metrics on the listener until ctx
// ends. It answers during a drain too: a worker that drains is alive, not ready.
func serveHealth(ctx context.Context, l net.Listener, health http.Handler, metrics *prometheus.Registry) error {
	mux := http.NewServeMux()
	mux.Handle("/", health)
	mux.Handle("GET /metrics", telemetry.Handler(metrics))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: healthRead, ReadTimeout: healthRead, WriteTimeout: healthWrite}
	stop := context.AfterFunc(ctx, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), healthStop)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			_ = server.Close() // a slow reader does not hold the worker up
		}
	})
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the health address: %w", err)
	}
	return nil
}

// askHealth asks the worker at addr whether it lives; the exit code is 0 if it says so.
func askHealth(addr string, stderr io.Writer) int {
	if addr == "" {
		fmt.Fprintf(stderr, "health: %s is not set, must be the worker's host:port\n", EnvHealthAddr)
		return ExitConfig
	}
	client := http.Client{Timeout: healthAsk}
	answer, err := client.Get("http://" + addr + "/healthz") //nolint:gosec // the worker's own address, from the environment that started it
	if err != nil {
		fmt.Fprintf(stderr, "health: the worker does not answer: %v\n", err)
		return ExitBroken
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		fmt.Fprintf(stderr, "health: the worker answers %s\n", answer.Status)
		return ExitBroken
	}
	return ExitDone
}

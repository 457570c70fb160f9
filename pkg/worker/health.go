package worker

import (
	"context"
	"errors"
	"fmt"
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

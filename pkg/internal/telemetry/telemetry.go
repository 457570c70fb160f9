// Package telemetry sets up what a process says about itself: structured logs, a
// Prometheus registry with its handler, and trace context. It decides formats and
// names only; what is counted belongs to the packages that count. Workers and the
// server call it once, at start. Nothing here may be given what a submitter sent.
package telemetry

import (
	"fmt"
	"io"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Namespace begins the name of every metric of ours.
const Namespace = "stagefleet"

// NewLog returns a logger that writes one JSON object a line at the level and
// above: debug, info, warn or error.
func NewLog(w io.Writer, level string, fields ...zap.Field) (*zap.Logger, error) {
	l, err := zapcore.ParseLevel(level)
	if err != nil || l > zapcore.ErrorLevel {
		return nil, fmt.Errorf("log level is %q, must be debug, info, warn or error", level)
	}
	enc := zap.NewProductionEncoderConfig()
	enc.TimeKey, enc.EncodeTime = "at", zapcore.RFC3339NanoTimeEncoder
	enc.EncodeDuration = zapcore.StringDurationEncoder
	core := zapcore.NewCore(zapcore.NewJSONEncoder(enc), zapcore.Lock(zapcore.AddSync(w)), l)
	return zap.New(core, zap.AddStacktrace(zapcore.DPanicLevel)).With(fields...), nil
}

// NewRegistry returns a registry that already holds the Go runtime's and the
// process's own metrics.
func NewRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// Handler serves what the registry holds, for /metrics.
func Handler(r *prometheus.Registry) http.Handler {
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{Registry: r})
}

package telemetry_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/zap"

	"github.com/stagefleet/stagefleet/pkg/internal/telemetry"
)

func TestALogIsOneObjectALineFromItsLevelOn(t *testing.T) {
	var out strings.Builder
	log, err := telemetry.NewLog(&out, "warn", zap.String("stage", "cut"))
	if err != nil {
		t.Fatal(err)
	}
	log.Info("not this")
	log.Warn("this", zap.Int("rows", 2))
	var line map[string]any
	if err := json.Unmarshal([]byte(out.String()), &line); err != nil {
		t.Fatalf("%q: %v", out.String(), err)
	}
	if line["msg"] != "this" || line["stage"] != "cut" || line["rows"] != 2.0 || line["level"] != "warn" || line["at"] == nil {
		t.Errorf("%v", line)
	}
}

func TestALevelThatWouldHideErrorsIsRefused(t *testing.T) {
	for _, level := range []string{"", "loud", "panic", "fatal"} {
		if _, err := telemetry.NewLog(&strings.Builder{}, level); (err == nil) != (level == "") {
			t.Errorf("%q: %v", level, err)
		}
	}
}

func TestMetricsAreServed(t *testing.T) {
	w := httptest.NewRecorder()
	telemetry.Handler(telemetry.NewRegistry()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "go_goroutines") {
		t.Errorf("%d %.200s", w.Code, w.Body)
	}
}

func TestTraceContextTravelsAndSpansReachTheExporter(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	stop := telemetry.StartTracing("cut", "test", spans)
	ctx, span := otel.Tracer("t").Start(t.Context(), "s")
	if got := telemetry.TraceParent(ctx); !strings.Contains(got, span.SpanContext().TraceID().String()) {
		t.Errorf("trace context %q", got)
	}
	if got := telemetry.TraceParent(context.Background()); got != "" {
		t.Errorf("trace context %q without a span", got)
	}
	span.End()
	exported := 0
	if f, ok := otel.GetTracerProvider().(interface{ ForceFlush(context.Context) error }); ok {
		if err := f.ForceFlush(t.Context()); err != nil {
			t.Fatal(err)
		}
		exported = len(spans.GetSpans())
	}
	if exported != 1 {
		t.Errorf("%d spans exported, want 1", exported)
	}
	if err := stop(t.Context()); err != nil {
		t.Error(err)
	}
}

package workertest_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/stagefleet/stagefleet/pkg/workertest"
)

// TestSpansAreLinkedAcrossQueues is not parallel: the tracer provider is the process's.
func TestSpansAreLinkedAcrossQueues(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	before := otel.GetTracerProvider()
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)))
	defer otel.SetTracerProvider(before)
	synctest.Test(t, func(t *testing.T) {
		s := &script{}
		fleet := workertest.Pipeline(t, workertest.Options{Stages: stages(), Programs: s.programs()})
		fleet.Wait(fleet.Submit("talk", 0, order{2}).ID)
	})
	byID := map[trace.SpanID]string{}
	for _, s := range spans.GetSpans() {
		byID[s.SpanContext.SpanID()] = strings.TrimPrefix(s.Name, "process ")
	}
	want := map[string]string{"split": "read", "cut": "split", "merge": "cut"}
	seen := 0
	for _, s := range spans.GetSpans() {
		name := strings.TrimPrefix(s.Name, "process ")
		from, follows := want[name]
		if !follows {
			continue
		}
		seen++
		if len(s.Links) != 1 || byID[s.Links[0].SpanContext.SpanID()] != from {
			t.Errorf("the span of %s has the links %v, want one to %s", name, s.Links, from)
		}
	}
	if seen != 4 {
		t.Errorf("%d spans after the first, want 4", seen)
	}
}

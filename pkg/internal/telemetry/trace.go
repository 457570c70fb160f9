package telemetry

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// StartTracing makes the process create spans under the service's name and carry
// their context. Spans go to the exporters; with none, only the context travels, for
// the benefit of services that have some. The returned function flushes and ends it.
func StartTracing(service, environment string, exporters ...sdktrace.SpanExporter) func(context.Context) error {
	opts := []sdktrace.TracerProviderOption{sdktrace.WithResource(resource.NewSchemaless(
		semconv.ServiceName(service), semconv.DeploymentEnvironmentNameKey.String(environment)))}
	for _, e := range exporters {
		opts = append(opts, sdktrace.WithBatcher(e))
	}
	p := sdktrace.NewTracerProvider(opts...)
	otel.SetTracerProvider(p)
	otel.SetTextMapPropagator(propagation.TraceContext{})
	return p.Shutdown
}

// TraceParent returns the W3C trace context of ctx ("traceparent"), or "".
func TraceParent(ctx context.Context) string {
	c := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, c)
	return c["traceparent"]
}

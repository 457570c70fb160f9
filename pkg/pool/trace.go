package pool

import (
	"context"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/stagefleet/stagefleet/pkg/outcome"
)

// maxAttributes is how many message attributes SQS takes (SQS developer guide, message quotas).
const maxAttributes = 10

// tracer makes one span per execution. The sender's span is linked and not the parent: work may start hours later, and more than once.
type tracer struct {
	tracer trace.Tracer // nil: no spans
	pool   string
}

func newTracer(cfg Config) tracer {
	if cfg.Tracer == nil {
		return tracer{}
	}
	return tracer{cfg.Tracer.Tracer("github.com/stagefleet/stagefleet/pkg/pool"), cfg.Name}
}

// span is an execution's span; the zero value is none.
type span struct{ trace.Span }

func (t tracer) start(ctx context.Context, h *held) (context.Context, span) {
	if t.tracer == nil {
		return ctx, span{}
	}
	attributes := []attribute.KeyValue{
		attribute.String("messaging.system", "aws_sqs"),
		attribute.String("messaging.operation.type", "process"),
		attribute.String("messaging.destination.name", t.pool),
		attribute.String("messaging.message.id", h.msg.ID),
		attribute.Int("attempt", h.msg.Attempt),
	}
	for _, k := range slices.Sorted(maps.Keys(h.grant.IDs)) {
		attributes = append(attributes, attribute.String(k, h.grant.IDs[k]))
	}
	options := []trace.SpanStartOption{trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(attributes...)}
	from := propagation.TraceContext{}.Extract(context.Background(), carrier(h.msg.Attributes))
	if sender := trace.SpanContextFromContext(from); sender.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: sender}))
	}
	ctx, s := t.tracer.Start(ctx, "process "+t.pool, options...)
	return ctx, span{s}
}

func (s span) finish(v outcome.Verdict) {
	if s.Span == nil {
		return
	}
	s.SetAttributes(attribute.String("end", string(v.Kind)), attribute.String("reason", v.Reason))
	if v.Kind == outcome.KindRetry || v.Kind == outcome.KindPanic || v.Kind == outcome.KindQuarantine {
		s.SetStatus(codes.Error, v.Reason)
	}
	s.End()
}

// Inject writes the trace context of ctx into the attributes of a message that is about to be sent, and returns them. An attribute
// that does not fit into SQS's ten is left out: a send must not fail for the sake of a trace.
func Inject(ctx context.Context, attributes map[string]types.MessageAttributeValue) map[string]types.MessageAttributeValue {
	if attributes == nil {
		attributes = map[string]types.MessageAttributeValue{}
	}
	propagation.TraceContext{}.Inject(ctx, carrier(attributes))
	return attributes
}

// carrier reads and writes trace context in message attributes.
type carrier map[string]types.MessageAttributeValue

func (c carrier) Get(key string) string { return deref(c[key].StringValue) }

func (c carrier) Set(key, value string) {
	if _, there := c[key]; !there && len(c) >= maxAttributes {
		return
	}
	c[key] = stringAttribute(value)
}

func (c carrier) Keys() []string { return slices.Sorted(maps.Keys(c)) }

func stringAttribute(value string) types.MessageAttributeValue {
	return types.MessageAttributeValue{DataType: aws.String("String"), StringValue: aws.String(value)}
}

package outbound

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/stagefleet/stagefleet/pkg/internal/telemetry"
	"github.com/stagefleet/stagefleet/pkg/job"
)

// maxDelay is the longest per-message delay (Amazon SQS API Reference, SendMessage).
const maxDelay = 15 * time.Minute

// entry is the row's message. Its id is the row's position, so that an answer can
// be matched whatever order it has. A FIFO queue knows no delay per message.
func entry(ctx context.Context, i int, r job.Outgoing) types.SendMessageBatchRequestEntry {
	e := types.SendMessageBatchRequestEntry{
		Id:                aws.String(strconv.Itoa(i)),
		MessageBody:       &r.Body,
		MessageAttributes: attributes(r.Attributes, telemetry.TraceParent(ctx)),
	}
	if r.Group != "" {
		e.MessageGroupId = &r.Group
	}
	if r.FIFO {
		e.MessageDeduplicationId = &r.Dedup
		return e
	}
	up := min(max(r.Delay, 0), maxDelay) + time.Second - 1 // a message that comes early is received in vain
	e.DelaySeconds = int32(up / time.Second)
	return e
}

// maxAttributes is how many attributes a message may have; one more and the queue
// refuses it (Amazon SQS Developer Guide, "Amazon SQS message metadata").
const maxAttributes = 10

// traceAttribute carries the W3C trace context.
const traceAttribute = "traceparent"

// attributes never makes a message that the queue refuses for its attributes:
// empty values are left out, the trace context only fills a free place, and beyond
// ten the last by name go.
func attributes(own map[string]string, traceparent string) map[string]types.MessageAttributeValue {
	all := maps.Clone(own)
	maps.DeleteFunc(all, func(_, v string) bool { return v == "" })
	if _, set := all[traceAttribute]; !set && traceparent != "" && len(all) < maxAttributes {
		if all == nil {
			all = map[string]string{}
		}
		all[traceAttribute] = traceparent
	}
	names := slices.Sorted(maps.Keys(all))
	out := make(map[string]types.MessageAttributeValue, len(names))
	for _, n := range names[:min(len(names), maxAttributes)] {
		out[n] = types.MessageAttributeValue{DataType: aws.String("String"), StringValue: aws.String(all[n])}
	}
	return out
}

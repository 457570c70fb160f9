package outbound_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"go.opentelemetry.io/otel/trace"

	"github.com/stagefleet/stagefleet/pkg/internal/outbound"
	"github.com/stagefleet/stagefleet/pkg/job"
)

// queue answers as SQS does, unless a message's body says otherwise.
type queue struct {
	calls [][]types.SendMessageBatchRequestEntry
	taken []string // bodies, in the order of acceptance
	urls  int
	fail  func(call int, body string) *types.BatchResultErrorEntry // nil result: accept
	err   error
	mute  bool // name no entry in the answer
}

func (q *queue) GetQueueUrl(_ context.Context, in *sqs.GetQueueUrlInput, _ ...func(*sqs.Options)) (*sqs.GetQueueUrlOutput, error) {
	q.urls++
	return &sqs.GetQueueUrlOutput{QueueUrl: aws.String("http://q/" + *in.QueueName)}, nil
}

func (q *queue) SendMessageBatch(_ context.Context, in *sqs.SendMessageBatchInput, _ ...func(*sqs.Options)) (*sqs.SendMessageBatchOutput, error) {
	q.calls = append(q.calls, in.Entries)
	out := &sqs.SendMessageBatchOutput{}
	if q.err != nil || q.mute {
		return out, q.err
	}
	for _, e := range in.Entries {
		if q.fail != nil {
			if f := q.fail(len(q.calls), *e.MessageBody); f != nil {
				f.Id = e.Id
				out.Failed = append(out.Failed, *f)
				continue
			}
		}
		out.Successful = append(out.Successful, types.SendMessageBatchResultEntry{Id: e.Id})
		q.taken = append(q.taken, *e.MessageBody)
	}
	slices.Reverse(out.Successful) // an answer promises no order
	return out, nil
}

func rows(n int, change func(i int, r *job.Outgoing)) []job.Outgoing {
	out := make([]job.Outgoing, n)
	for i := range out {
		out[i] = job.Outgoing{Queue: "a", Group: "g", Dedup: strconv.Itoa(i), Body: strconv.Itoa(i)}
		if change != nil {
			change(i, &out[i])
		}
	}
	return out
}

func TestTheRowsOfACallGoTogether(t *testing.T) {
	q := &queue{}
	s := outbound.New(q)
	for range 2 {
		if err := errors.Join(s.Send(t.Context(), rows(10, nil))...); err != nil {
			t.Error(err)
		}
	}
	if len(q.taken) != 20 || len(q.calls) != 2 || q.urls != 1 {
		t.Errorf("%d taken in %d calls with %d look-ups, want 20, 2, 1", len(q.taken), len(q.calls), q.urls)
	}
}

func TestANilErrorIsNotBelieved(t *testing.T) {
	refused := func(int, string) *types.BatchResultErrorEntry {
		return &types.BatchResultErrorEntry{Code: aws.String("InvalidMessageContents"), SenderFault: true}
	}
	q := &queue{fail: refused}
	errs := outbound.New(q).Send(t.Context(), rows(2, nil))
	for _, err := range errs {
		if e, ok := errors.AsType[*outbound.EntryError](err); !ok || !e.SenderFault || e.Code != "InvalidMessageContents" {
			t.Errorf("error %v", err)
		}
	}
	if len(q.calls) != 1 {
		t.Errorf("%d calls: a message at fault was sent again", len(q.calls))
	}
	if errs := outbound.New(&queue{mute: true}).Send(t.Context(), rows(1, nil)); errs[0] == nil {
		t.Error("an entry that the answer does not name counts as sent")
	}
}

func TestAFaultOfTheServiceIsTriedAgainForItsEntryAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{fail: func(call int, body string) *types.BatchResultErrorEntry {
			if body == "1" && call < 3 {
				return &types.BatchResultErrorEntry{Code: aws.String("InternalError")}
			}
			return nil
		}}
		errs := outbound.New(q).Send(t.Context(), rows(3, nil))
		if errors.Join(errs...) != nil || fmt.Sprint(q.taken) != "[0 2 1]" || len(q.calls[1]) != 1 {
			t.Errorf("errors %v, taken %v, calls %d", errs, q.taken, len(q.calls))
		}
	})
}

func TestAFaultThatStaysIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{fail: func(int, string) *types.BatchResultErrorEntry {
			return &types.BatchResultErrorEntry{Code: aws.String("InternalError")}
		}}
		start := time.Now()
		if errs := outbound.New(q).Send(t.Context(), rows(1, nil)); errs[0] == nil || len(q.calls) != 3 {
			t.Errorf("%v after %d calls, want an error after 3", errs, len(q.calls))
		}
		if d := time.Since(start); d != 250*time.Millisecond {
			t.Errorf("waited %v, want 250ms", d)
		}
	})
}

func TestAFailedCallFailsItsRowsAndForgetsAQueueThatIsGone(t *testing.T) {
	q := &queue{err: &types.QueueDoesNotExist{}}
	s := outbound.New(q)
	for _, err := range s.Send(t.Context(), rows(2, nil)) {
		if _, ok := errors.AsType[*types.QueueDoesNotExist](err); !ok {
			t.Errorf("error %v", err)
		}
	}
	q.err = nil
	if errs := s.Send(t.Context(), rows(1, nil)); errs[0] != nil || q.urls != 2 {
		t.Errorf("%v after %d look-ups, want success after 2", errs, q.urls)
	}
}

func TestMessagesSayOnlyWhatTheirKindOfQueueAllows(t *testing.T) {
	q := &queue{}
	s := outbound.New(q)
	s.Send(t.Context(), rows(2, func(i int, r *job.Outgoing) { r.Delay = []time.Duration{89*time.Second + 1, time.Hour}[i] }))
	s.Send(t.Context(), rows(1, func(_ int, r *job.Outgoing) { r.FIFO, r.Queue, r.Delay = true, "a.fifo", time.Second }))
	standard, late, fifo := q.calls[0][0], q.calls[0][1], q.calls[1][0]
	if standard.DelaySeconds != 90 || standard.MessageDeduplicationId != nil || aws.ToString(standard.MessageGroupId) != "g" {
		t.Errorf("standard: %+v", standard)
	}
	if late.DelaySeconds != 900 {
		t.Errorf("delay %d, want the most that SQS takes", late.DelaySeconds)
	}
	if fifo.DelaySeconds != 0 || aws.ToString(fifo.MessageDeduplicationId) != "0" || aws.ToString(fifo.MessageGroupId) != "g" {
		t.Errorf("fifo: %+v", fifo)
	}
}

func TestTraceContextNeverCostsAMessage(t *testing.T) {
	sc := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: 1})
	ctx := trace.ContextWithSpanContext(t.Context(), sc)
	for _, own := range []int{0, 9, 10, 12} {
		q := &queue{}
		outbound.New(q).Send(ctx, rows(1, func(_ int, r *job.Outgoing) {
			r.Attributes = map[string]string{"empty": ""}
			for i := range own {
				r.Attributes[fmt.Sprintf("a%02d", i)] = "v"
			}
		}))
		got := q.calls[0][0].MessageAttributes
		parent, traced := got["traceparent"]
		if want := min(10, own+1); len(got) != want {
			t.Errorf("%d own: %d attributes, want %d", own, len(got), want)
		}
		if traced != (own < 10) {
			t.Errorf("%d own: trace context there: %v", own, traced)
		}
		if traced && !strings.HasPrefix(*parent.StringValue, "00-01000000") {
			t.Errorf("trace context %s", *parent.StringValue)
		}
	}
}

func TestAStoppedSenderStopsTrying(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		q := &queue{fail: func(int, string) *types.BatchResultErrorEntry {
			cancel()
			return &types.BatchResultErrorEntry{Code: aws.String("InternalError")}
		}}
		if errs := outbound.New(q).Send(ctx, rows(1, nil)); errs[0] == nil || len(q.calls) != 1 {
			t.Errorf("%v after %d calls", errs, len(q.calls))
		}
	})
}

package pool_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/stagefleet/stagefleet/pkg/pool"
)

// endless is a queue that always has ten more messages, made beforehand, so that what a benchmark counts is the pool's.
type endless struct {
	ready   chan []types.Message
	deleted atomic.Int64
	enough  int64
	all     chan struct{}
	answer  sqs.DeleteMessageBatchOutput
}

func newEndless(n int) *endless {
	e := &endless{ready: make(chan []types.Message, n/10+1), enough: int64(n), all: make(chan struct{})}
	for i := 0; i < n; i += 10 {
		var ms []types.Message
		for j := i; j < min(i+10, n); j++ {
			id := strconv.Itoa(j)
			ms = append(ms, types.Message{MessageId: &id, ReceiptHandle: &id, Body: &id, Attributes: map[string]string{"ApproximateReceiveCount": "1", "SentTimestamp": "1"}})
		}
		e.ready <- ms
	}
	return e
}

func (e *endless) ReceiveMessage(ctx context.Context, _ *sqs.ReceiveMessageInput, _ ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error) {
	select {
	case ms := <-e.ready:
		return &sqs.ReceiveMessageOutput{Messages: ms}, nil
	default:
	}
	<-e.all
	return &sqs.ReceiveMessageOutput{}, nil
}

func (e *endless) DeleteMessageBatch(_ context.Context, in *sqs.DeleteMessageBatchInput, _ ...func(*sqs.Options)) (*sqs.DeleteMessageBatchOutput, error) {
	if e.deleted.Add(int64(len(in.Entries))) == e.enough {
		close(e.all)
	}
	return &e.answer, nil
}

func (e *endless) ChangeMessageVisibilityBatch(context.Context, *sqs.ChangeMessageVisibilityBatchInput, ...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityBatchOutput, error) {
	return &sqs.ChangeMessageVisibilityBatchOutput{}, nil
}

func (e *endless) SendMessage(context.Context, *sqs.SendMessageInput, ...func(*sqs.Options)) (*sqs.SendMessageOutput, error) {
	return &sqs.SendMessageOutput{}, nil
}

// BenchmarkMessage is the life of one message without the SDK: four allocations. One is the message with its state, two are the
// handler's context and the function that ends it. The rest is a tenth of what each receive and each delete needs: its input, its
// entries and its context.
func BenchmarkMessage(b *testing.B) {
	e := newEndless(b.N)
	p, err := pool.New(e, pool.Config{QueueURL: "https://queue/q", Slots: 100, Handler: func(context.Context, pool.Message) error { return nil }})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan struct{})
	b.ReportAllocs()
	b.ResetTimer()
	go func() {
		defer close(done)
		if _, err := p.Run(ctx); err != nil {
			b.Error(err)
		}
	}()
	<-e.all
	b.StopTimer()
	cancel()
	<-done
}

package pool_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/stagefleet/stagefleet/pkg/pool"
)

// stream is a queue that makes its messages as they are asked for, up to a number that can be raised.
type stream struct {
	endless
	made, most, gone atomic.Int64
	raised           chan struct{}
	done             chan struct{} // has one when all of them have been deleted
}

func (s *stream) ReceiveMessage(ctx context.Context, _ *sqs.ReceiveMessageInput, _ ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error) {
	last := s.made.Add(10)
	if last > s.most.Load() {
		s.made.Add(-10)
		select {
		case <-s.raised:
			return &sqs.ReceiveMessageOutput{}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	var out sqs.ReceiveMessageOutput
	for i := last - 10; i < last; i++ {
		id := fmt.Sprint(i)
		out.Messages = append(out.Messages, types.Message{MessageId: &id, ReceiptHandle: &id, Body: &id})
	}
	return &out, nil
}

func (s *stream) DeleteMessageBatch(_ context.Context, in *sqs.DeleteMessageBatchInput, _ ...func(*sqs.Options)) (*sqs.DeleteMessageBatchOutput, error) {
	if s.gone.Add(int64(len(in.Entries))) == s.most.Load() {
		s.done <- struct{}{}
	}
	return &sqs.DeleteMessageBatchOutput{}, nil
}

// pass lets n more messages through and returns what the process holds after them.
func (s *stream) pass(n int64) (heap uint64, goroutines int) {
	s.most.Add(n)
	for range cap(s.raised) { // as many as may wait
		select {
		case s.raised <- struct{}{}:
		default:
		}
	}
	<-s.done
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what the first one put aside is free only now
	runtime.ReadMemStats(&m)
	return m.HeapAlloc, runtime.NumGoroutine()
}

// It is not parallel: it measures the process.
func TestNeitherMemoryNorGoroutinesGrowWithTheMessages(t *testing.T) {
	s := &stream{raised: make(chan struct{}, 8), done: make(chan struct{}, 1)}
	p, err := pool.New(s, pool.Config{QueueURL: "https://queue/q", Slots: 100, Handler: func(context.Context, pool.Message) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := p.Run(ctx)
		ended <- err
	}()
	before, few := s.pass(50_000)
	after, many := s.pass(200_000)
	if grown := int64(after) - int64(before); grown > 1<<20 || many > few+100+16+8 {
		t.Errorf("%d bytes and %d goroutines more after 200,000 messages", grown, many-few)
	}
	cancel()
	close(s.raised) // the poll under way ends
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

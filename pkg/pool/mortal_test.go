package pool_test

import (
	"context"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/stagefleet/stagefleet/pkg/pool"
)

// ask makes one call to the queue, as the mortal's network lets it.
func ask[Out any](ctx context.Context, f faulty, call func() (Out, error)) (Out, error) {
	var none Out
	f.mu.Lock()
	slow, lost := f.slow, f.lost
	f.mu.Unlock()
	if err := errors.Join(f.down(true), lag(ctx, slow)); err != nil {
		return none, err
	}
	out, err := call()
	if lagging := lag(ctx, slow); lagging != nil {
		return none, lagging
	}
	if lost {
		return none, errIll
	}
	return out, err
}

func lag(ctx context.Context, slow bool) error {
	if !slow {
		return nil
	}
	select {
	case <-time.After(2 * time.Second):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f faulty) ReceiveMessage(ctx context.Context, in *sqs.ReceiveMessageInput, opts ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error) {
	return ask(ctx, f, func() (*sqs.ReceiveMessageOutput, error) { return f.client.ReceiveMessage(ctx, in, opts...) })
}

func (f faulty) DeleteMessageBatch(ctx context.Context, in *sqs.DeleteMessageBatchInput, opts ...func(*sqs.Options)) (*sqs.DeleteMessageBatchOutput, error) {
	return ask(ctx, f, func() (*sqs.DeleteMessageBatchOutput, error) { return f.client.DeleteMessageBatch(ctx, in, opts...) })
}

func (f faulty) ChangeMessageVisibilityBatch(ctx context.Context, in *sqs.ChangeMessageVisibilityBatchInput, opts ...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityBatchOutput, error) {
	return ask(ctx, f, func() (*sqs.ChangeMessageVisibilityBatchOutput, error) {
		return f.client.ChangeMessageVisibilityBatch(ctx, in, opts...)
	})
}

func (f faulty) SendMessage(ctx context.Context, in *sqs.SendMessageInput, opts ...func(*sqs.Options)) (*sqs.SendMessageOutput, error) {
	return ask(ctx, f, func() (*sqs.SendMessageOutput, error) { return f.client.SendMessage(ctx, in, opts...) })
}

func (f flaky) Claim(ctx context.Context, m pool.Message) (pool.Grant, error) {
	if err := f.down(false); err != nil {
		return pool.Grant{}, err
	}
	return f.book.Claim(ctx, m)
}

func (f flaky) Renew(ctx context.Context, grants []pool.Grant) ([]error, error) {
	if err := f.down(false); err != nil {
		return nil, err
	}
	return f.book.Renew(ctx, grants)
}

func (f flaky) Close(ctx context.Context, g pool.Grant, end error) (pool.Settlement, error) {
	if err := f.down(false); err != nil {
		return pool.Settlement{}, err
	}
	return f.book.Close(ctx, g, end)
}

func (f flaky) Ping(ctx context.Context) error {
	if err := f.down(false); err != nil {
		return err
	}
	return f.book.Ping(ctx)
}

package pool_test

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/stagefleet/stagefleet/pkg/pool"
)

func (f faulty) ReceiveMessage(ctx context.Context, in *sqs.ReceiveMessageInput, opts ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error) {
	if err := f.down(true); err != nil {
		return nil, err
	}
	return f.client.ReceiveMessage(ctx, in, opts...)
}

func (f faulty) DeleteMessageBatch(ctx context.Context, in *sqs.DeleteMessageBatchInput, opts ...func(*sqs.Options)) (*sqs.DeleteMessageBatchOutput, error) {
	if err := f.down(true); err != nil {
		return nil, err
	}
	return f.client.DeleteMessageBatch(ctx, in, opts...)
}

func (f faulty) ChangeMessageVisibilityBatch(ctx context.Context, in *sqs.ChangeMessageVisibilityBatchInput, opts ...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityBatchOutput, error) {
	if err := f.down(true); err != nil {
		return nil, err
	}
	return f.client.ChangeMessageVisibilityBatch(ctx, in, opts...)
}

func (f faulty) SendMessage(ctx context.Context, in *sqs.SendMessageInput, opts ...func(*sqs.Options)) (*sqs.SendMessageOutput, error) {
	if err := f.down(true); err != nil {
		return nil, err
	}
	return f.client.SendMessage(ctx, in, opts...)
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

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	watersqs "github.com/ThreeDotsLabs/watermill-aws/sqs"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"gocloud.dev/pubsub/awssnssqs"
	"gocloud.dev/pubsub/batcher"

	"github.com/stagefleet/stagefleet/pkg/pool"
)

// consumer consumes a queue until its context ends.
type consumer func(ctx context.Context, j job)

var consumers = map[string]consumer{
	"raw":             raw,
	"pool":            pooled,
	"gocloud":         gocloudDefault,
	"gocloud-tuned":   gocloudTuned,
	"watermill-tuned": watermillTuned,
}

// rawLoops is how many loops the raw consumer runs; it was fastest with eight on two cores.
const rawLoops = 8

// raw is what people write first: receive ten, handle them one after the other, delete the batch.
func raw(ctx context.Context, j job) {
	var loops sync.WaitGroup
	for range rawLoops {
		loops.Go(func() {
			for ctx.Err() == nil {
				out, err := j.client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: &j.url, MaxNumberOfMessages: 10, WaitTimeSeconds: 20})
				if err != nil {
					complain(ctx, err)
					continue
				}
				in := &sqs.DeleteMessageBatchInput{QueueUrl: &j.url}
				for i, m := range out.Messages {
					j.handle()
					in.Entries = append(in.Entries, types.DeleteMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), ReceiptHandle: m.ReceiptHandle})
				}
				if len(in.Entries) == 0 {
					continue
				}
				if _, err := j.client.DeleteMessageBatch(ctx, in); err != nil {
					complain(ctx, err)
				}
			}
		})
	}
	loops.Wait()
}

func pooled(ctx context.Context, j job) {
	p, err := pool.New(j.client, pool.Config{QueueURL: j.url, Slots: j.slots, Visibility: j.visibility, Handler: func(context.Context, pool.Message) error {
		j.handle()
		return nil
	}})
	if err != nil {
		complain(ctx, err)
		return
	}
	if _, err := p.Run(ctx); err != nil {
		complain(ctx, err)
	}
}

// gocloudDefault is gocloud.dev/pubsub as its documentation opens it, with ten handlers.
func gocloudDefault(ctx context.Context, j job) { gocloud(ctx, j, nil, 10) }

// gocloudTuned has long polls, raw bodies, eight receivers and eight acknowledgers.
func gocloudTuned(ctx context.Context, j job) {
	gocloud(ctx, j, &awssnssqs.SubscriptionOptions{
		Raw: true, WaitTime: 20 * time.Second,
		ReceiveBatcherOptions: batcher.Options{MaxBatchSize: 10, MaxHandlers: 8},
		AckBatcherOptions:     batcher.Options{MaxBatchSize: 10, MaxHandlers: 8},
	}, j.slots)
}

func gocloud(ctx context.Context, j job, options *awssnssqs.SubscriptionOptions, handlers int) {
	s := awssnssqs.OpenSubscription(ctx, j.client, j.url, options)
	var all sync.WaitGroup
	for range handlers {
		all.Go(func() {
			for {
				m, err := s.Receive(ctx)
				if err != nil {
					complain(ctx, err)
					return
				}
				j.handle()
				m.Ack()
			}
		})
	}
	all.Wait()
}

// watermillTuned receives ten at a time in sixteen subscriptions, each of which has one message in flight by design.
func watermillTuned(ctx context.Context, j job) {
	var all sync.WaitGroup
	for range 16 {
		s, err := watersqs.NewSubscriber(watersqs.SubscriberConfig{
			AWSConfig:                   j.config,
			DoNotCreateQueueIfNotExists: true,
			QueueUrlResolver:            fixedURL(j.url),
			GenerateReceiveMessageInput: func(_ context.Context, url watersqs.QueueURL) (*sqs.ReceiveMessageInput, error) {
				return &sqs.ReceiveMessageInput{QueueUrl: (*string)(&url), MaxNumberOfMessages: 10, WaitTimeSeconds: 20, MessageAttributeNames: []string{"All"}}, nil
			},
		}, watermill.NopLogger{})
		if err != nil {
			complain(ctx, err)
			return
		}
		messages, err := s.Subscribe(ctx, "q")
		if err != nil {
			complain(ctx, err)
			return
		}
		all.Go(func() {
			for m := range messages {
				j.handle()
				m.Ack()
			}
		})
	}
	all.Wait()
}

type fixedURL string

func (u fixedURL) ResolveQueueUrl(context.Context, watersqs.ResolveQueueUrlParams) (watersqs.QueueUrlResolverResult, error) {
	url := watersqs.QueueURL(u)
	exists := true
	return watersqs.QueueUrlResolverResult{QueueName: "q", QueueURL: &url, Exists: &exists}, nil
}

func complain(ctx context.Context, err error) {
	if ctx.Err() == nil || !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, err)
	}
}

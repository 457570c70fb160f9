package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/stagefleet/stagefleet/pkg/internal/awshttp"
)

func newClient(url string) *sqs.Client {
	return sqs.New(sqs.Options{
		Region: "us-east-1", BaseEndpoint: &url, HTTPClient: &http.Client{Transport: awshttp.Transport()},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "local", SecretAccessKey: "local"}, nil
		}),
	})
}

// queue is one queue seen through the SDK.
type queue struct {
	client *sqs.Client
	url    *string
	fifo   bool
	body   string
}

func newQueue(ctx context.Context, url string, fifo bool, bodyBytes int) (*queue, error) {
	q := &queue{client: newClient(url), fifo: fifo, body: strings.Repeat("x", bodyBytes)}
	in := &sqs.CreateQueueInput{QueueName: aws.String("bench"), Attributes: map[string]string{"VisibilityTimeout": "120"}}
	if fifo {
		in.QueueName, in.Attributes["FifoQueue"] = aws.String("bench.fifo"), "true"
	}
	out, err := q.client.CreateQueue(ctx, in)
	if err != nil {
		return nil, err
	}
	q.url = out.QueueUrl
	return q, nil
}

func (q *queue) send(ctx context.Context, first int64) error {
	in := &sqs.SendMessageBatchInput{QueueUrl: q.url}
	for i := range int64(batch) {
		e := types.SendMessageBatchRequestEntry{Id: aws.String(strconv.FormatInt(i, 10)), MessageBody: &q.body}
		if n := first + i; q.fifo {
			e.MessageGroupId, e.MessageDeduplicationId = aws.String(fmt.Sprint("g", n%groups)), aws.String(fmt.Sprint(n))
		}
		in.Entries = append(in.Entries, e)
	}
	_, err := q.client.SendMessageBatch(ctx, in)
	return err
}

func (q *queue) receive(ctx context.Context) (handles []string, err error) {
	out, err := q.client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: q.url, MaxNumberOfMessages: batch, WaitTimeSeconds: pollSeconds})
	if err != nil {
		return nil, err
	}
	for _, m := range out.Messages {
		handles = append(handles, *m.ReceiptHandle)
	}
	return handles, nil
}

func (q *queue) remove(ctx context.Context, handles []string) error {
	in := &sqs.DeleteMessageBatchInput{QueueUrl: q.url}
	for i, handle := range handles {
		in.Entries = append(in.Entries, types.DeleteMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), ReceiptHandle: aws.String(handle)})
	}
	_, err := q.client.DeleteMessageBatch(ctx, in)
	return err
}

func (q *queue) depth(ctx context.Context) (string, error) {
	out, err := q.client.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: q.url, AttributeNames: []types.QueueAttributeName{"ApproximateNumberOfMessages"}})
	if err != nil {
		return "", err
	}
	return out.Attributes["ApproximateNumberOfMessages"], nil
}

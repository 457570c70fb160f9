package sqsclient_test

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/stagefleet/stagefleet/pkg/localsqs"
	"github.com/stagefleet/stagefleet/pkg/localsqs/sqsclient"
)

// A test's own SQS in five lines.
func Example() {
	ctx := context.Background()
	server := localsqs.New(localsqs.Options{})
	defer server.Close()
	client := sqsclient.New(server)
	queue, _ := client.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: aws.String("jobs")})
	_, _ = client.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: queue.QueueUrl, MessageBody: aws.String("hello")})
	got, _ := client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: queue.QueueUrl, WaitTimeSeconds: 20})
	fmt.Println(*got.Messages[0].Body)
	// Output: hello
}

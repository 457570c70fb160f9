package sqsclient_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/stagefleet/stagefleet/pkg/localsqs"
	"github.com/stagefleet/stagefleet/pkg/localsqs/sqsclient"
)

func TestLongPollWakesInABubbleAtTheInstantOfTheSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := localsqs.New(localsqs.Options{})
		defer server.Close()
		client := sqsclient.New(server)
		q, err := client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("q")})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		time.AfterFunc(7*time.Second, func() {
			_, err := client.SendMessage(context.Background(), &sqs.SendMessageInput{QueueUrl: q.QueueUrl, MessageBody: aws.String("x<>&é")})
			if err != nil {
				t.Error(err)
			}
		})
		out, err := client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: q.QueueUrl, WaitTimeSeconds: 20})
		if err != nil || len(out.Messages) != 1 {
			t.Fatal(out, err)
		}
		if waited := time.Since(start); waited != 7*time.Second {
			t.Errorf("woke after %v", waited)
		}
	})
}

func TestCancelledPollReturnsAtOnceAndLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := localsqs.New(localsqs.Options{})
		defer server.Close()
		client := sqsclient.New(server)
		q, _ := client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("q")})
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		if _, err := client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: q.QueueUrl, WaitTimeSeconds: 20}); err == nil {
			t.Fatal("no error")
		}
		if waited := time.Since(start); waited != 3*time.Second {
			t.Errorf("returned after %v", waited)
		}
		_, _ = client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: q.QueueUrl, MessageBody: aws.String("x")})
		out, err := client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: q.QueueUrl})
		if err != nil || len(out.Messages) != 1 {
			t.Fatal(out, err)
		}
	})
}

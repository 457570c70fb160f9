package admin

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/stagefleet/stagefleet/pkg/stage"
)

// seconds writes a duration as SQS attributes take it.
func seconds(d time.Duration) string { return strconv.Itoa(int(d / time.Second)) }

// QueueMaker is what CreateQueues uses of the SQS client.
type QueueMaker interface {
	Queues
	CreateQueue(context.Context, *sqs.CreateQueueInput, ...func(*sqs.Options)) (*sqs.CreateQueueOutput, error)
}

// CreateQueues makes the queue and the dead-letter queue of every stage. Those that exist with the same attributes stay.
// It is for servers that no template has set up: the embedded one, and those of tests.
func CreateQueues(ctx context.Context, api QueueMaker, pipeline stage.Pipeline, env string) error {
	stages, err := pipeline.Ordered()
	if err != nil {
		return fmt.Errorf("read the manifest: %w", err)
	}
	for _, s := range stages {
		dead := map[string]string{"MessageRetentionPeriod": seconds(s.Durations.DLQRetention)}
		arn, err := createQueue(ctx, api, s.DLQName(env), s.Queue, dead)
		if err != nil {
			return err
		}
		_, err = createQueue(ctx, api, s.QueueName(env), s.Queue, map[string]string{
			"MessageRetentionPeriod": seconds(s.Durations.Retention),
			"VisibilityTimeout":      seconds(s.Durations.Visibility),
			"RedrivePolicy":          fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":%d}`, arn, s.Retry.MaxReceives),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// createQueue returns the queue's ARN.
func createQueue(ctx context.Context, api QueueMaker, name string, kind stage.Kind, attributes map[string]string) (string, error) {
	if kind == stage.FIFO {
		attributes["FifoQueue"] = "true"
	}
	made, err := api.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
	if err != nil {
		return "", fmt.Errorf("create queue %s: %w", name, err)
	}
	arn := types.QueueAttributeNameQueueArn
	out, err := api.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: made.QueueUrl, AttributeNames: []types.QueueAttributeName{arn}})
	if err != nil {
		return "", fmt.Errorf("read the ARN of queue %s: %w", name, err)
	}
	return out.Attributes[string(arn)], nil
}

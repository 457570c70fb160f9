package admin

import (
	"context"
	"errors"
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
	SetQueueAttributes(context.Context, *sqs.SetQueueAttributesInput, ...func(*sqs.Options)) (*sqs.SetQueueAttributesOutput, error)
}

// CreateQueues makes the queue and the dead-letter queue of every stage; those that exist keep their messages and get the
// manifest's attributes. It is for servers that no template has set up: the embedded one, and those of tests.
func CreateQueues(ctx context.Context, api QueueMaker, pipeline stage.Pipeline, env string) error {
	stages, err := pipeline.Ordered()
	if err := errors.Join(err, stage.CheckEnv(env)); err != nil {
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

// createQueue returns the queue's ARN. What a queue is made with must not differ when it exists, so the attributes follow.
func createQueue(ctx context.Context, api QueueMaker, name string, kind stage.Kind, attributes map[string]string) (string, error) {
	var fixed map[string]string
	if kind == stage.FIFO {
		fixed = map[string]string{"FifoQueue": "true"}
	}
	made, err := api.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &name, Attributes: fixed})
	if err != nil {
		return "", fmt.Errorf("create queue %s: %w", name, err)
	}
	if _, err := api.SetQueueAttributes(ctx, &sqs.SetQueueAttributesInput{QueueUrl: made.QueueUrl, Attributes: attributes}); err != nil {
		return "", fmt.Errorf("set the attributes of queue %s: %w", name, err)
	}
	arn := types.QueueAttributeNameQueueArn
	out, err := api.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: made.QueueUrl, AttributeNames: []types.QueueAttributeName{arn}})
	if err != nil {
		return "", fmt.Errorf("read the ARN of queue %s: %w", name, err)
	}
	return out.Attributes[string(arn)], nil
}

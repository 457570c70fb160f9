package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/stagefleet/stagefleet/pkg/internal/envelope"
	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/stage"
)

// Bounds of one look into one dead-letter queue.
const (
	sweepBatch = 10
	sweepLimit = 200              // messages; the rest waits for the next look
	sweepHide  = 60 * time.Second // from others, while the record is asked
)

// DeadLetters is what is used of the SQS client.
type DeadLetters interface {
	GetQueueUrl(context.Context, *sqs.GetQueueUrlInput, ...func(*sqs.Options)) (*sqs.GetQueueUrlOutput, error)
	ReceiveMessage(context.Context, *sqs.ReceiveMessageInput, ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error)
	DeleteMessage(context.Context, *sqs.DeleteMessageInput, ...func(*sqs.Options)) (*sqs.DeleteMessageOutput, error)
	ChangeMessageVisibility(context.Context, *sqs.ChangeMessageVisibilityInput, ...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityOutput, error)
}

// Judge decides what becomes of a dead-lettered message; job.Store does.
type Judge interface {
	Sweep(ctx context.Context, d job.DeadLetter) (job.Settle, error)
}

// Sweeper empties dead-letter queues of what queues put there by counting receives alone, as after a worker was killed
// twice: the record gives living work a new message. Copies of dead steps, and what the record does not know, stay for a
// person. Any number of sweepers may run.
type Sweeper struct {
	Stages stage.Pipeline
	Env    string
	Queues DeadLetters
	Record Judge
	Every  time.Duration // between two looks
	Failed func(error)   // told of a look that failed; the next one tries again
}

// Run looks until ctx ends, and then returns nil.
func (s Sweeper) Run(ctx context.Context) error {
	tick := time.NewTicker(s.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		for _, st := range s.Stages {
			if err := s.look(ctx, st.WithDefaults()); err != nil && ctx.Err() == nil {
				s.Failed(err)
			}
		}
	}
}

// look asks the record about every message of one queue. What stays is shown again at the end only, else this look would
// meet it again.
func (s Sweeper) look(ctx context.Context, st stage.Stage) error {
	name := st.DLQName(s.Env)
	url, err := s.Queues.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &name})
	if err != nil {
		return fmt.Errorf("find queue %s: %w", name, err)
	}
	var errs []error
	var stay []types.Message
	for seen := 0; seen < sweepLimit; {
		out, err := s.Queues.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
			QueueUrl: url.QueueUrl, MaxNumberOfMessages: sweepBatch, VisibilityTimeout: int32(sweepHide / time.Second),
		})
		if err != nil {
			errs = append(errs, fmt.Errorf("receive from %s: %w", name, err))
			break
		}
		if len(out.Messages) == 0 {
			break
		}
		seen += len(out.Messages)
		for _, m := range out.Messages {
			gone, err := s.judge(ctx, st, url.QueueUrl, m)
			errs = append(errs, err)
			if !gone {
				stay = append(stay, m)
			}
		}
	}
	for _, m := range stay {
		_, err := s.Queues.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{QueueUrl: url.QueueUrl, ReceiptHandle: m.ReceiptHandle})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// judge deletes a message that stands for nothing any more.
func (s Sweeper) judge(ctx context.Context, st stage.Stage, queue *string, m types.Message) (gone bool, err error) {
	body, err := envelope.Decode(aws.ToString(m.Body))
	if err != nil {
		return false, nil //nolint:nilerr // not ours to understand: it stays for a person
	}
	settle, err := s.Record.Sweep(ctx, job.DeadLetter{Step: body.Step, Tenant: body.Tenant, Emission: body.Emission, MaxCrashes: st.Retry.Crashes})
	if err != nil || settle.Do != job.Delete {
		return false, err
	}
	_, err = s.Queues.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: queue, ReceiptHandle: m.ReceiptHandle})
	return err == nil, err
}

package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
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
	sweepHide  = 60 * time.Second // from others, while the record is asked
	lookTime   = 40 * time.Second // so that nothing is shown again within a look; what it has not reached is for the next ones
	lookRest   = 10 * time.Minute // for which a look that did not come to the end hides what stays, so that the next ones get further

	showTimeout = 20 * time.Second // for giving back what stays, also after the caller has gone
)

// DeadLetters is what is used of the SQS client.
type DeadLetters interface {
	Queues
	ReceiveMessage(context.Context, *sqs.ReceiveMessageInput, ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error)
	DeleteMessage(context.Context, *sqs.DeleteMessageInput, ...func(*sqs.Options)) (*sqs.DeleteMessageOutput, error)
	ChangeMessageVisibilityBatch(context.Context, *sqs.ChangeMessageVisibilityBatchInput, ...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityBatchOutput, error)
}

// Judge decides what becomes of a dead-lettered message; job.Store does.
type Judge interface {
	Sweep(ctx context.Context, d job.DeadLetter) (job.Settle, error)
}

// Sweeper empties dead-letter queues of what queues put there by counting receives alone, as after a worker was killed
// twice: the record gives living work a new message. Copies of dead steps, and what the record does not know, stay for a
// person. Any number of sweepers may run. Its methods may be called concurrently; the fields are set before.
type Sweeper struct {
	Stages stage.Pipeline
	Env    string
	Queues DeadLetters
	Record Judge
	Every  time.Duration // between two looks
	Failed func(error)   // told of a look that failed; the next one tries again

	looking sync.Mutex // two looks at once would hide messages from each other
}

// Run looks until ctx ends, and then returns nil.
func (s *Sweeper) Run(ctx context.Context) error {
	tick := time.NewTicker(s.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		for _, st := range s.Stages {
			if _, err := s.look(ctx, st.WithDefaults(), 0, s.judge); err != nil && ctx.Err() == nil {
				s.Failed(err)
			}
		}
	}
}

// verdict is what a look does with one message.
type verdict func(ctx context.Context, st stage.Stage, m types.Message) (Letter, bool, error)

// look shows every message of one queue to a verdict, which says whether it goes, and returns those that stay. What stays is
// shown again at the end only, else this look would meet it again. A look that must miss nothing waits for messages: a
// receive without a wait asks only some of SQS's servers (Amazon SQS Developer Guide, "Amazon SQS short and long polling").
// Of a group of a FIFO queue SQS shows no more while some are hidden, so what is behind ten that stay is left to the reconciler.
func (s *Sweeper) look(ctx context.Context, st stage.Stage, wait time.Duration, judge verdict) ([]Letter, error) {
	s.looking.Lock()
	defer s.looking.Unlock()
	name := st.DLQName(s.Env)
	url, err := s.Queues.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &name})
	if err != nil {
		return nil, fmt.Errorf("find queue %s: %w", name, err)
	}
	var errs []error
	var letters []Letter
	var stay []types.Message
	rest, failed := lookRest, false
	for start := time.Now(); time.Since(start) < lookTime && !failed; {
		out, err := s.Queues.ReceiveMessage(ctx, receiveLetters(url.QueueUrl, wait))
		if err != nil {
			errs = append(errs, fmt.Errorf("receive from %s: %w", name, err))
		}
		if err != nil || len(out.Messages) == 0 {
			rest = 0
			break
		}
		failed = true // unless one of them can be judged
		for _, m := range out.Messages {
			letter, gone, err := s.try(ctx, st, url.QueueUrl, m, judge)
			errs, failed = append(errs, err), failed && err != nil
			if !gone {
				stay, letters = append(stay, m), append(letters, letter)
			}
		}
	}
	if failed {
		rest = 0
	}
	return letters, errors.Join(append(errs, s.hide(ctx, url.QueueUrl, stay, rest))...)
}

// try does with one message what the verdict says, and reports whether it is gone.
func (s *Sweeper) try(ctx context.Context, st stage.Stage, queue *string, m types.Message, judge verdict) (Letter, bool, error) {
	letter, gone, err := judge(ctx, st, m)
	if !gone || err != nil {
		return letter, false, err
	}
	_, err = s.Queues.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: queue, ReceiptHandle: m.ReceiptHandle})
	return letter, err == nil, err
}

func receiveLetters(queue *string, wait time.Duration) *sqs.ReceiveMessageInput {
	return &sqs.ReceiveMessageInput{
		QueueUrl: queue, MaxNumberOfMessages: sweepBatch, VisibilityTimeout: int32(sweepHide / time.Second), WaitTimeSeconds: int32(wait / time.Second),
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameSentTimestamp},
		MessageAttributeNames:       []string{reasonAttribute},
	}
}

// hide changes for how long messages stay hidden; zero shows them.
func (s *Sweeper) hide(ctx context.Context, queue *string, all []types.Message, d time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), showTimeout)
	defer cancel()
	var errs []error
	for batch := range slices.Chunk(all, sweepBatch) {
		entries := make([]types.ChangeMessageVisibilityBatchRequestEntry, len(batch))
		for i, m := range batch {
			entries[i] = types.ChangeMessageVisibilityBatchRequestEntry{
				Id: aws.String(strconv.Itoa(i)), ReceiptHandle: m.ReceiptHandle, VisibilityTimeout: int32(d / time.Second),
			}
		}
		out, err := s.Queues.ChangeMessageVisibilityBatch(ctx, &sqs.ChangeMessageVisibilityBatchInput{QueueUrl: queue, Entries: entries})
		errs = append(errs, err)
		if err == nil {
			for _, f := range out.Failed {
				errs = append(errs, fmt.Errorf("show a dead letter again: %s", aws.ToString(f.Code)))
			}
		}
	}
	return errors.Join(errs...)
}

// judge asks the record: a message that stands for nothing any more goes.
func (s *Sweeper) judge(ctx context.Context, st stage.Stage, m types.Message) (Letter, bool, error) {
	letter := letterOf(st, s.Env, m)
	body, err := envelope.Decode(aws.ToString(m.Body))
	if err != nil {
		letter.Why = WhyUnreadable
		return letter, false, nil //nolint:nilerr // not ours to understand: it stays for a person
	}
	settle, err := s.Record.Sweep(ctx, job.DeadLetter{Step: body.Step, Tenant: body.Tenant, Emission: body.Emission, MaxCrashes: st.Retry.Crashes})
	letter.Why, letter.Step = settle.Reason, body.Step
	return letter, settle.Do == job.Delete, err
}

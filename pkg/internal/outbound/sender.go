// Package outbound sends rows of the outbox to SQS and says of each row whether
// the queue took it. It decides nothing about when a row is due, who owns it or
// which rows share a call; package job does. The worker sends what it has just
// committed with it, the server's relay what was left behind.
package outbound

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/stagefleet/stagefleet/pkg/job"
)

// API is the part of the SQS client that is used.
type API interface {
	SendMessageBatch(context.Context, *sqs.SendMessageBatchInput, ...func(*sqs.Options)) (*sqs.SendMessageBatchOutput, error)
	GetQueueUrl(context.Context, *sqs.GetQueueUrlInput, ...func(*sqs.Options)) (*sqs.GetQueueUrlOutput, error)
}

// EntryError is the queue's refusal of one row of a batch.
type EntryError struct {
	Code        string
	SenderFault bool // the row itself is at fault; sending it again cannot help
}

// Error returns the queue's code; never its text, which may repeat the message.
func (e *EntryError) Error() string { return "the queue refused the message: " + e.Code }

// Sender implements job.Sender over SQS. Safe for concurrent use.
type Sender struct {
	api     API
	retryer aws.Retryer
	urls    urls
}

var _ job.Sender = (*Sender)(nil)

// New returns a sender with a retry budget of its own, so that a failing poll or
// beat on the same client cannot use it up.
func New(api API) *Sender {
	return &Sender{api: api, retryer: retry.NewStandard(), urls: urls{api: api}}
}

// The tries of a call whose entries failed through the service's fault.
const (
	tries     = 3
	firstWait = 50 * time.Millisecond
)

// Send sends up to ten rows, all of one queue, and returns one error per row, nil
// where the queue has confirmed it. It returns when every row is decided or ctx ends.
func (s *Sender) Send(ctx context.Context, rows []job.Outgoing) []error {
	errs := make([]error, len(rows))
	left := make([]int, len(rows))
	for i := range left {
		left[i] = i
	}
	wait := firstWait
	for try := 1; len(left) > 0; try++ {
		left = s.sendOnce(ctx, rows, left, errs)
		if len(left) == 0 || try == tries || !pause(ctx, wait) {
			break
		}
		wait *= 4
	}
	return errs
}

// sendOnce makes one call for the rows and returns those worth another.
func (s *Sender) sendOnce(ctx context.Context, rows []job.Outgoing, indexes []int, errs []error) []int {
	queue := rows[0].Queue
	fail := func(err error) {
		for _, i := range indexes {
			errs[i] = err
		}
	}
	url, err := s.urls.get(ctx, queue)
	if err != nil {
		fail(err)
		return nil
	}
	in := &sqs.SendMessageBatchInput{QueueUrl: &url}
	for _, i := range indexes {
		in.Entries = append(in.Entries, entry(ctx, i, rows[i]))
	}
	out, err := s.api.SendMessageBatch(ctx, in, func(o *sqs.Options) { o.Retryer = s.retryer })
	if err != nil {
		if _, gone := errors.AsType[*types.QueueDoesNotExist](err); gone {
			s.urls.forget(queue)
		}
		fail(fmt.Errorf("send to %s: %w", queue, err))
		return nil
	}
	return readBatch(out, indexes, errs)
}

// errUnanswered is the error of an entry that the answer names nowhere.
var errUnanswered = errors.New("the queue's answer does not name the message")

// readBatch sets the error of every entry: an answer without error may still hold
// failed entries, and silence about one is no success.
func readBatch(out *sqs.SendMessageBatchOutput, indexes []int, errs []error) (again []int) {
	for _, i := range indexes {
		errs[i] = errUnanswered
	}
	for _, ok := range out.Successful {
		if i, known := position(ok.Id, indexes); known {
			errs[i] = nil
		}
	}
	for _, f := range out.Failed {
		i, known := position(f.Id, indexes)
		if !known {
			continue
		}
		errs[i] = &EntryError{Code: aws.ToString(f.Code), SenderFault: f.SenderFault}
		if !f.SenderFault {
			again = append(again, i)
		}
	}
	return again
}

func position(id *string, indexes []int) (int, bool) {
	n, err := strconv.Atoi(aws.ToString(id))
	if err != nil {
		return 0, false
	}
	for _, i := range indexes {
		if i == n {
			return i, true
		}
	}
	return 0, false
}

// pause waits and reports whether ctx still goes on.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

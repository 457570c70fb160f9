package pool

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
	"go.uber.org/zap"
)

var (
	allAttributes    = []string{"All"}
	systemAttributes = []types.MessageSystemAttributeName{
		types.MessageSystemAttributeNameApproximateReceiveCount,
		types.MessageSystemAttributeNameSentTimestamp,
		types.MessageSystemAttributeNameMessageGroupId,
	}
	fifoAttributes = append(slices.Clip(systemAttributes), types.MessageSystemAttributeNameMessageDeduplicationId)
)

// positions are the entry ids of a batch. A message id would not do: the same message can be in a batch twice.
var positions = func() (ids [batch]*string) {
	for i := range ids {
		ids[i] = aws.String(strconv.Itoa(i))
	}
	return ids
}()

// failures are the entries of a batch that failed, by position. A batch call returns no error for them.
type failures [batch]*types.BatchResultErrorEntry

func byPosition(failed []types.BatchResultErrorEntry) (f failures) {
	for i := range failed {
		if n, err := strconv.Atoi(deref(failed[i].Id)); err == nil && n >= 0 && n < batch {
			f[n] = &failed[i]
		}
	}
	return f
}

// handles are the receipts by which a batch was settled, by position.
type handles [batch]*string

// disowned tells whether the queue no longer knows the receipt of an entry. To be throttled is called the sender's fault too.
func disowned(entry *types.BatchResultErrorEntry) bool {
	return entry != nil && entry.SenderFault && !strings.Contains(deref(entry.Code), "Throttl")
}

// The SDK keeps one allowance of retries per client, so a receive loop that fails could take away those of a delete. Receives
// therefore get no retries, and settlements an allowance of their own.

func onceOptions() []func(*sqs.Options) {
	return []func(*sqs.Options){func(o *sqs.Options) { o.Retryer = aws.NopRetryer{} }}
}

func settleOptions() []func(*sqs.Options) {
	retryer := retry.NewStandard(func(o *retry.StandardOptions) { o.MaxBackoff = time.Second })
	return []func(*sqs.Options){func(o *sqs.Options) { o.Retryer = retryer }}
}

// hopeless tells whether the same receive can only fail again: the queue is not there, or not for us.
func hopeless(err error) bool {
	api, ok := errors.AsType[smithy.APIError](err)
	return ok && slices.Contains([]string{
		"AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist", "AccessDenied", "AccessDeniedException",
		"InvalidClientTokenId", "UnrecognizedClientException", "SignatureDoesNotMatch", "InvalidAddress",
	}, api.ErrorCode())
}

// refused tells whether the queue has answered that it does not do what was asked. An answer of its own trouble, one that broke off, or
// none leaves open what it has done.
func refused(err error) bool {
	if answer, ok := errors.AsType[interface {
		error
		HTTPStatusCode() int
	}](err); ok {
		code := answer.HTTPStatusCode()
		return code >= http.StatusBadRequest && code < http.StatusInternalServerError
	}
	_, ok := errors.AsType[smithy.APIError](err)
	return ok
}

// errorType names an error in a log by its API code or its type. Its text may carry data.
func errorType(err error) zap.Field {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return zap.String("error", api.ErrorCode())
	}
	for next := err; next != nil; next = errors.Unwrap(next) {
		err = next
	}
	return zap.String("error", fmt.Sprintf("%T", err))
}

func number(m *types.Message, name types.MessageSystemAttributeName) (int64, bool) {
	n, err := strconv.ParseInt(m.Attributes[string(name)], 10, 64)
	return n, err == nil
}

// seconds rounds up: a message must not come back early.
func seconds(d time.Duration) int32 { return int32((d + time.Second - 1) / time.Second) }

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// sleep waits for d, or until ctx ends and then reports false.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

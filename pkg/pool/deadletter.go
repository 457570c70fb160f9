package pool

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
	"go.uber.org/zap"

	"github.com/stagefleet/stagefleet/pkg/outcome"
)

// Attributes of a dead-letter copy, beside those of the message itself. Where SQS's ten do not suffice, the last are left out;
// where the body leaves no room for them, all are.
const (
	AttributeClass    = "dead-class"    // the kind of package outcome
	AttributeReason   = "dead-reason"   // the settlement's reason
	AttributeCause    = "dead-cause"    // the reason with which the last execution ended, see outcome.Reasoner
	AttributeAttempts = "dead-attempts" // executions that counted
	AttributeMessage  = "dead-message"  // the id of the original message
	AttributeGroup    = "dead-group"    // its FIFO group or tenant
	AttributeDedup    = "dead-dedup"    // its deduplication id
)

// bury copies a message to the dead-letter queue and returns what to do with the original. Where that queue cannot be reached, the
// original stays in its own, to be tried again.
func (p *Pool) bury(h *held, s Settlement, v outcome.Verdict) Settlement {
	if p.cfg.DeadLetterURL == "" {
		p.cfg.Log.Error("no dead-letter queue, left to the queue's own policy", append(p.fields(h), zap.String("reason", s.Reason))...)
		return Settlement{Action: Hide, After: p.cfg.Visibility, Reason: s.Reason}
	}
	ctx, cancel := context.WithTimeout(p.settling, slowestCall)
	defer cancel()
	in := p.deadLetter(h, s, v)
	err := p.sendDead(ctx, in)
	if tooLong(err) { // a body near SQS's limit leaves no room: rather the message without its story than neither
		in.MessageAttributes = h.msg.Attributes
		err = p.sendDead(ctx, in)
	}
	if err != nil {
		p.metrics.settleFailed(DeadLetter, false, err)
		p.cfg.Log.Error("dead letter not sent, message kept", append(p.fields(h), errorType(err))...)
		return Settlement{Action: Hide, After: p.cfg.Visibility, Reason: s.Reason}
	}
	p.cfg.Log.Error("message dead-lettered", append(p.fields(h), zap.String("reason", s.Reason), zap.String("cause", v.Reason))...)
	return Settlement{Action: Delete, Reason: s.Reason}
}

func (p *Pool) sendDead(ctx context.Context, in *sqs.SendMessageInput) error {
	p.metrics.deadLetters.Inc()
	_, err := p.sqs.SendMessage(ctx, in, p.settleOpts...)
	return err
}

// tooLong tells whether SQS does not take the message as it is. It has no code of its own for one that is too long.
func tooLong(err error) bool {
	api, ok := errors.AsType[smithy.APIError](err)
	return ok && strings.HasPrefix(api.ErrorCode(), "InvalidParameterValue")
}

func (p *Pool) deadLetter(h *held, s Settlement, v outcome.Verdict) *sqs.SendMessageInput {
	attributes := make(map[string]types.MessageAttributeValue, maxAttributes)
	maps.Copy(attributes, h.msg.Attributes)
	c := carrier(attributes)
	for _, a := range []struct{ name, value string }{
		{AttributeReason, s.Reason}, {AttributeCause, v.Reason}, {AttributeClass, string(v.Kind)}, {AttributeAttempts, strconv.Itoa(h.msg.Attempt)},
		{AttributeMessage, h.msg.ID}, {AttributeGroup, h.msg.GroupID}, {AttributeDedup, h.msg.DedupID},
	} {
		if a.value != "" {
			c.Set(a.name, a.value)
		}
	}
	in := &sqs.SendMessageInput{QueueUrl: &p.cfg.DeadLetterURL, MessageBody: &h.msg.Body, MessageAttributes: attributes}
	if h.msg.GroupID != "" {
		in.MessageGroupId = &h.msg.GroupID
	}
	if p.fifo { // the same copy sent twice, because a delete failed in between, is one
		in.MessageDeduplicationId = aws.String(h.msg.ID)
	}
	return in
}

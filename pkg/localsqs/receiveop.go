package localsqs

import (
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"
)

type receiveInput struct {
	target
	AttributeNames              []string
	MessageSystemAttributeNames []string
	MessageAttributeNames       []string
	MaxNumberOfMessages         *int
	VisibilityTimeout           *int
	WaitTimeSeconds             *int
	ReceiveRequestAttemptId     string
}

type receivedMessage struct {
	MessageId              string
	ReceiptHandle          string
	MD5OfBody              string
	Body                   string
	Attributes             map[string]string         `json:",omitempty"`
	MD5OfMessageAttributes string                    `json:",omitempty"`
	MessageAttributes      map[string]attributeValue `json:",omitempty"`
}

type receiveOutput struct {
	Messages []receivedMessage `json:",omitempty"`
}

// systemAttributes are the names that a receive may ask for.
var systemAttributes = []string{
	"All", "SenderId", "SentTimestamp", "ApproximateReceiveCount", "ApproximateFirstReceiveTimestamp", "SequenceNumber",
	"MessageDeduplicationId", "MessageGroupId", traceHeader, "DeadLetterQueueSourceArn", "SqsManagedSseEnabled",
}

func receive(s *Server, c *call, in *receiveInput) (any, error) {
	in.MessageSystemAttributeNames = append(in.MessageSystemAttributeNames, in.AttributeNames...)
	if err := in.check(); err != nil {
		return nil, err
	}
	q, got, err := s.receive(c, in)
	if err != nil {
		return nil, err
	}
	c.undo = func() { s.undeliver(q, in.ReceiveRequestAttemptId, got) }
	out := &receiveOutput{Messages: make([]receivedMessage, len(got))}
	for i, d := range got {
		out.Messages[i] = s.received(q, d, in)
	}
	return out, nil
}

func (in *receiveInput) check() error {
	bounded := func(name string, value *int, low, high int) error {
		if value != nil && (*value < low || *value > high) {
			return invalidValue(name, *value, "Must be between "+strconv.Itoa(low)+" and "+strconv.Itoa(high)+", if provided.")
		}
		return nil
	}
	if err := bounded("MaxNumberOfMessages", in.MaxNumberOfMessages, 1, maxBatch); err != nil {
		return err
	}
	if err := bounded("WaitTimeSeconds", in.WaitTimeSeconds, 0, maxWait); err != nil {
		return err
	}
	if err := bounded("VisibilityTimeout", in.VisibilityTimeout, 0, maxVisibility); err != nil {
		return err
	}
	for _, name := range in.MessageSystemAttributeNames {
		if !slices.Contains(systemAttributes, name) {
			return errInvalidAttributeName(clip(name))
		}
	}
	if in.ReceiveRequestAttemptId != "" && !validID(in.ReceiveRequestAttemptId) {
		return invalidValue("ReceiveRequestAttemptId", clip(in.ReceiveRequestAttemptId), "ReceiveRequestAttemptId can only include alphanumeric and punctuation characters. 1 to 128 in length.")
	}
	return nil
}

// receive takes what is there or waits for it, without the lock.
func (s *Server) receive(c *call, in *receiveInput) (*queue, []delivery, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, nil, errClosed()
	}
	q, err := s.byURL(in.QueueUrl)
	if err != nil {
		s.mu.Unlock()
		return nil, nil, err
	}
	now := s.now()
	q.advance(now)
	w, wait, err := q.wanted(in)
	w.duplicate = c.strike.effects[Duplicate]
	var got []delivery
	if err == nil {
		got = q.take(now, w)
		s.serve(now, q)
	}
	if err != nil || len(got) > 0 || wait == 0 || s.draining {
		if err == nil && len(got) == 0 {
			err = q.overLimit()
		}
		s.mu.Unlock()
		return q, got, err
	}
	parked := &waiter{want: w, until: now + int64(wait), served: make(chan struct{})}
	q.waiters.all = append(q.waiters.all, parked)
	q.arm(now)
	s.mu.Unlock()
	got, err = q.poll(c.ctx, parked, wait)
	return q, got, err
}

// wanted applies the queue's defaults to what the caller left out.
func (q *queue) wanted(in *receiveInput) (w want, wait time.Duration, err error) {
	w = want{max: 1, hide: q.visibility, attemptID: in.ReceiveRequestAttemptId}
	if w.attemptID != "" && !q.fifo {
		return w, 0, invalidValue("ReceiveRequestAttemptId", w.attemptID, "The request include parameter that is not valid for this queue type.")
	}
	if err := q.retryable(w.attemptID); err != nil {
		return w, 0, err
	}
	wait = q.wait
	if in.MaxNumberOfMessages != nil {
		w.max = *in.MaxNumberOfMessages
	}
	if in.VisibilityTimeout != nil {
		w.hide = time.Duration(*in.VisibilityTimeout) * time.Second
	}
	if in.WaitTimeSeconds != nil {
		wait = time.Duration(*in.WaitTimeSeconds) * time.Second
	}
	return w, wait, nil
}

// overLimit is what a short poll on a standard queue gets that may not have more in flight.
func (q *queue) overLimit() error {
	if limit := q.server.opts.InFlightLimit; !q.fifo && q.counts[stateInFlight] >= limit {
		return errOverLimit(limit)
	}
	return nil
}

// undeliver takes back what a receive handed out, and with it the attempt: its messages may soon be somebody else's.
func (s *Server) undeliver(q *queue, attemptID string, got []delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opts.KeepCancelledPolls || s.closed {
		return
	}
	now := s.now()
	for _, d := range got {
		q.undeliver(d)
	}
	if attemptID != "" && len(got) > 0 && !got[0].repeated {
		q.attempts.remember(attemptID, attempt{})
		s.journal.attempted(q, attemptID, attempt{})
	}
	s.serve(now, q)
}

func (s *Server) received(q *queue, d delivery, in *receiveInput) receivedMessage {
	out := receivedMessage{
		MessageId: d.id.String(), ReceiptHandle: receiptHandle(q.id, d.seq, d.here), MD5OfBody: hex.EncodeToString(d.bodyMD5[:]), Body: d.body,
		Attributes: s.systemValues(q, d, in.MessageSystemAttributeNames),
	}
	var shown []attribute
	for _, a := range d.attrs {
		if wantsAttribute(in.MessageAttributeNames, a.name) {
			shown = append(shown, a)
		}
	}
	if len(shown) > 0 {
		out.MD5OfMessageAttributes = attributesMD5(shown)
		out.MessageAttributes = make(map[string]attributeValue, len(shown))
		for _, a := range shown {
			out.MessageAttributes[a.name] = a.wire()
		}
	}
	return out
}

func wantsAttribute(names []string, name string) bool {
	return slices.ContainsFunc(names, func(n string) bool {
		prefix, isPrefix := strings.CutSuffix(n, ".*")
		return n == "All" || n == name || isPrefix && (prefix == "" || strings.HasPrefix(name, prefix+"."))
	})
}

// systemValues returns the system attributes that were asked for and that the message has.
func (s *Server) systemValues(q *queue, d delivery, names []string) map[string]string {
	if len(names) == 0 {
		return nil
	}
	values := map[string]string{}
	put := func(name, value string) {
		if value != "" && (slices.Contains(names, name) || slices.Contains(names, "All")) {
			values[name] = value
		}
	}
	put("SenderId", s.opts.Account)
	put("SentTimestamp", millis(d.sent))
	put("ApproximateReceiveCount", strconv.Itoa(int(d.receives)))
	put("ApproximateFirstReceiveTimestamp", millis(d.first))
	put("MessageGroupId", d.group)
	put("MessageDeduplicationId", d.dedupID)
	put(traceHeader, d.trace)
	put("DeadLetterQueueSourceArn", d.dlqFrom)
	if q.fifo {
		put("SequenceNumber", sequenceNumber(d.seq))
	}
	return values
}

func millis(nanos int64) string { return strconv.FormatInt(nanos/int64(time.Millisecond), 10) }

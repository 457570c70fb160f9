package pool

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// held is one message from its receive until it is settled. Exactly one exists per message id in a pool; every way out of the pool
// ends in forget, which takes it off the list, so nothing renews a message that nobody owns.
//
// The fields of the first group are set before the work starts; settlement belongs to whoever settles. The others belong to Pool.mu.
type held struct {
	msg        Message
	receivedAt time.Time // when the queue hid it, at the earliest
	pass       *pass     // what the gates are owed; nil: nothing

	handle      *string // of the newest receipt
	hiddenUntil time.Time
	handleGone  bool // the queue no longer knows the newest handle

	grant      Grant
	leaseUntil time.Time // zero until claimed

	ctx      context.Context // the handler's; nil until it starts
	cancel   context.CancelCauseFunc
	limitAt  time.Time // zero: no limit
	endedAt  time.Time // when its context ended; zero: it has not
	taken    error     // why the record says that the work is not ours or not wanted; nil: it does not
	lost     bool      // by the end of its lease: nothing of ours is renewed any more
	running  bool      // the handler has been called and has not returned
	stuck    bool      // given up: no longer renewed
	replaced bool      // its slot was given to another
	entered  bool      // the protector is owed a Leave

	beatDue time.Time
	beating bool // a renewal is under way

	settlement Settlement
	hiding     bool      // the call that hides it, as its settlement, is under way
	backAt     time.Time // when it may be received again if that call succeeds
	parked     bool      // to be settled as soon as the renewal under way has ended
	tries      int       // to settle
	end        string

	next, prev *held
}

// list keeps held messages in the order of their receipt, which is also the order in which their records are renewed.
type list struct {
	first, last *held
	len         int
}

func (l *list) add(h *held) {
	h.prev, h.next = l.last, nil
	if l.last == nil {
		l.first = h
	} else {
		l.last.next = h
	}
	l.last = h
	l.len++
}

func (l *list) remove(h *held) {
	if h.prev == nil {
		l.first = h.next
	} else {
		h.prev.next = h.next
	}
	if h.next == nil {
		l.last = h.prev
	} else {
		h.next.prev = h.prev
	}
	h.prev, h.next = nil, nil
	l.len--
}

// lease is the length of what permits the execution.
func (h *held) lease(visibility time.Duration) time.Duration {
	if h.grant.Lease > 0 {
		return h.grant.Lease
	}
	return visibility
}

// permittedUntil is the last moment at which the execution is certainly ours.
func (h *held) permittedUntil() time.Time {
	if h.grant.Lease > 0 {
		return h.leaseUntil
	}
	return h.hiddenUntil
}

// margin before the end of a lease at which a handler is told to stop: a tenth of it, and a second at least.
func margin(lease time.Duration) time.Duration { return max(time.Second, lease/10) }

// pass is what one admitted receive owes to the gates once all its messages are settled.
type pass struct {
	left int // belongs to Pool.mu
	done []func()
}

func (p *pass) pay() {
	if p == nil {
		return
	}
	for _, done := range p.done {
		done()
	}
}

// message reads what was received.
func message(m *types.Message, now time.Time) Message {
	msg := Message{
		ID:         deref(m.MessageId),
		Body:       deref(m.Body),
		Attributes: m.MessageAttributes,
		ReceivedAt: now,
		Receives:   1,
	}
	if n, ok := number(m, types.MessageSystemAttributeNameApproximateReceiveCount); ok {
		msg.Receives = int(n)
	}
	if ms, ok := number(m, types.MessageSystemAttributeNameSentTimestamp); ok {
		msg.SentAt = time.UnixMilli(ms)
	}
	msg.GroupID = m.Attributes[string(types.MessageSystemAttributeNameMessageGroupId)]
	msg.DedupID = m.Attributes[string(types.MessageSystemAttributeNameMessageDeduplicationId)]
	msg.Attempt = msg.Receives
	return msg
}

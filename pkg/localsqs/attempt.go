package localsqs

import (
	"encoding/json"
	"slices"
	"time"
)

// attemptInterval is how long a ReceiveRequestAttemptId may be repeated. Source: SQS API reference, ReceiveMessage.
const attemptInterval = 5 * time.Minute

// attempt is what a receive with a ReceiveRequestAttemptId returned.
type attempt struct {
	at     int64
	got    []delivery
	spoilt bool // it was throttled
}

// attemptWindow remembers the attempts of the last five minutes.
type attemptWindow struct {
	byID  map[string]attempt
	order []attemptRef // oldest first
}

type attemptRef struct {
	id string
	at int64
}

// remember keeps an attempt, or forgets the id's earlier one if this one has nothing.
func (w *attemptWindow) remember(id string, a attempt) {
	if len(a.got) == 0 && !a.spoilt {
		delete(w.byID, id)
		return
	}
	if w.byID == nil {
		w.byID = map[string]attempt{}
	}
	w.byID[id] = a
	w.order = append(w.order, attemptRef{id, a.at})
}

func (w *attemptWindow) expire(now int64) {
	for len(w.order) > 0 && w.order[0].at+int64(attemptInterval) <= now {
		if oldest := w.order[0]; w.byID[oldest.id].at == oldest.at {
			delete(w.byID, oldest.id)
		}
		w.order = w.order[1:]
	}
}

// retryable tells whether a receive with that attempt id may be made. An id whose messages were deleted, received again or given
// another visibility since is refused until it is forgotten. Source: SQS API reference, ReceiveMessage, ReceiveRequestAttemptId.
func (q *queue) retryable(attemptID string) error {
	a := q.attempts.byID[attemptID]
	if a.spoilt || slices.ContainsFunc(a.got, q.changed) {
		return invalidValue("ReceiveRequestAttemptId", attemptID, "The receiveRequestAttemptId is not valid anymore since the receive call is not retryable.")
	}
	return nil
}

func (q *queue) changed(d delivery) bool {
	m := q.messages[d.seq]
	return m != d.message || m.here != d.here || m.touched
}

// throttled spoils the attempt id of a receive that was throttled. Source: awslabs/amazon-sqs-java-messaging-lib, what its users were
// told by AWS.
func (s *Server) throttled(body []byte) {
	var in struct{ QueueUrl, ReceiveRequestAttemptId string }
	if json.Unmarshal(body, &in) != nil || in.ReceiveRequestAttemptId == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if q, err := s.byURL(in.QueueUrl); err == nil && q.fifo {
		q.attempts.remember(in.ReceiveRequestAttemptId, attempt{at: s.now(), spoilt: true})
	}
}

// repeat answers a receive whose attempt id was used before, unless its messages are visible again: the same messages and handles, with
// the visibility timeout starting anew.
func (q *queue) repeat(now int64, w want) ([]delivery, bool) {
	a, ok := q.attempts.byID[w.attemptID]
	if !ok || q.retryable(w.attemptID) != nil {
		return nil, false
	}
	for _, d := range a.got {
		if d.state != stateInFlight {
			return nil, false
		}
	}
	got := slices.Clone(a.got)
	for i, d := range got {
		q.hide(d.message, now+int64(w.hide))
		q.server.journal.received(q, d.message)
		got[i].repeated = true
	}
	return got, true
}

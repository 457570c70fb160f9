package localsqs

import (
	"slices"
	"time"
)

// attemptInterval is how long a ReceiveRequestAttemptId may be repeated. Source: SQS API reference, ReceiveMessage.
const attemptInterval = 5 * time.Minute

// attempt is what a receive with a ReceiveRequestAttemptId returned.
type attempt struct {
	at  int64
	got []delivery
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
	if len(a.got) == 0 {
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

// repeat answers a receive whose attempt id was used before, if nothing happened to its messages since: the same
// messages and handles, with the visibility timeout starting anew.
func (q *queue) repeat(now int64, w want) ([]delivery, bool) {
	a, ok := q.attempts.byID[w.attemptID]
	if !ok {
		return nil, false
	}
	for _, d := range a.got {
		m := q.messages[d.seq]
		if m != d.message || m.state != stateInFlight || m.here != d.here || m.touched {
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

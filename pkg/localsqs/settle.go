package localsqs

import "time"

type deleteEntry struct {
	Id            string
	ReceiptHandle string
}

type deleteInput struct {
	target
	deleteEntry
}

type visibilityEntry struct {
	Id                string
	ReceiptHandle     string
	VisibilityTimeout *int
}

type visibilityInput struct {
	target
	visibilityEntry
}

func deleteMessage(_ *Server, _ *call, q *queue, in *deleteInput, now int64) (any, error) {
	return empty{}, q.settle(&in.deleteEntry, now)
}

func changeVisibility(_ *Server, _ *call, q *queue, in *visibilityInput, now int64) (any, error) {
	return empty{}, q.changeVisibility(&in.visibilityEntry, now)
}

// lookup finds the message of a receipt handle, nil if it is gone, and whether the handle is that of its latest delivery.
func (q *queue) lookup(handle string) (m *message, latest bool, err error) {
	if handle == "" {
		return nil, false, missingParameter("ReceiptHandle")
	}
	seq, here, ok := parseHandle(handle, q.id)
	if !ok || seq > q.lastSeq {
		return nil, false, errBadHandle(handle)
	}
	m = q.messages[seq]
	return m, m != nil && m.here == here, nil
}

// settle deletes a message. A FIFO queue refuses every handle whose visibility has ended; a standard queue accepts them
// all, but one that is not the latest deletes nothing. Source: SQS API reference, DeleteMessage.
func (q *queue) settle(e *deleteEntry, _ int64) error {
	m, latest, err := q.lookup(e.ReceiptHandle)
	if err != nil || m == nil {
		return err
	}
	if q.fifo && (!latest || m.state != stateInFlight) {
		return errExpiredHandle(e.ReceiptHandle)
	}
	if latest {
		q.drop(m)
		q.flow.deleted++
		q.server.journal.dropped(q, m)
	}
	return nil
}

// changeVisibility begins a new visibility period at now, which may not reach beyond twelve hours after the receive.
// Source: SQS API reference, ChangeMessageVisibility.
func (q *queue) changeVisibility(e *visibilityEntry, now int64) error {
	if e.VisibilityTimeout == nil {
		return missingParameter("VisibilityTimeout")
	}
	seconds := *e.VisibilityTimeout
	if seconds < 0 || seconds > maxVisibility {
		return invalidValue("VisibilityTimeout", seconds, "VisibilityTimeout must be an integer between 0 and 43200.")
	}
	m, latest, err := q.lookup(e.ReceiptHandle)
	if err != nil {
		return err
	}
	if m == nil || !latest || m.state != stateInFlight {
		if q.fifo && m != nil {
			return errExpiredHandle(e.ReceiptHandle)
		}
		return errNotInFlight()
	}
	hide := time.Duration(seconds) * time.Second
	if now+int64(hide)-m.received > int64(maxVisibility*time.Second) {
		return invalidValue("VisibilityTimeout", seconds, "Total VisibilityTimeout for the message is beyond the limit [43200 seconds].")
	}
	m.touched = true
	q.hide(m, now+int64(hide))
	if hide == 0 {
		q.release(m)
	}
	q.server.journal.received(q, m)
	return nil
}

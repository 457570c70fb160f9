package localsqs

import (
	"encoding/json"
	"errors"
	"fmt"
)

// replay applies the effects of one frame to a server that serves nobody yet. It reports whether the frame ends a snapshot.
func (s *Server) replay(frame []byte) (end bool, err error) {
	d := &decoder{rest: frame}
	for len(d.rest) > 0 {
		if end {
			return end, errors.New("records after the end")
		}
		kind := effectKind(d.byte())
		if kind == effectEnd {
			end = true
			continue
		}
		if err := s.apply(kind, d.queueID(), d); err != nil {
			return end, err
		}
		if d.err != nil {
			return end, d.err
		}
	}
	return end, nil
}

func (s *Server) apply(kind effectKind, queueID uint64, d *decoder) error {
	q := s.replayed[queueID]
	if q == nil && kind != effectQueue {
		if kind == effectRemoved { // kept in snapshots for names that may not be used again yet
			s.deleted[d.string()] = d.int()
			return nil
		}
		return fmt.Errorf("record of kind %d for an unknown queue", kind)
	}
	switch kind {
	case effectQueue:
		return s.applyQueue(queueID, d)
	case effectRemoved:
		delete(s.queues, q.name)
		delete(s.replayed, queueID)
		s.deleted[d.string()] = d.int()
	case effectPurged:
		q.purged = d.int()
		q.clear()
	case effectAdded:
		return q.applyAdded(d)
	case effectState:
		return q.applyState(d)
	case effectDropped:
		// Time may have dropped it before the record could.
		if m := q.messages[d.int()]; m != nil {
			q.drop(m)
		}
	case effectDedup:
		if k, e := d.dedup(); d.err == nil {
			q.dedup.remember(k, e)
		}
	case effectAttempt:
		if id, a := d.attempt(q.messages); d.err == nil {
			q.attempts.remember(id, a)
		}
	case effectTask:
		return q.applyTask(d.string())
	default:
		return fmt.Errorf("unknown record kind %d", kind)
	}
	return nil
}

func (s *Server) applyQueue(id uint64, d *decoder) error {
	name, fifo := d.string(), d.bool()
	created, modified, purged, lastSeq := d.int(), d.int(), d.int(), d.int()
	set := settings{given: d.strings()}
	tags := d.strings()
	if d.err != nil {
		return d.err
	}
	if err := set.understand(fifo); err != nil {
		return fmt.Errorf("queue %s: %w", name, err)
	}
	q := s.replayed[id]
	if q == nil {
		q = newQueue(s, name, fifo, set)
		q.id = id
		s.queues[name], s.replayed[id] = q, q
		delete(s.deleted, name)
	}
	q.settings, q.tags = set, tags
	q.created, q.modified, q.purged, q.lastSeq = created, modified, purged, max(q.lastSeq, lastSeq)
	q.retime()
	return nil
}

func (q *queue) applyAdded(d *decoder) error {
	m := d.message()
	if d.err != nil {
		return d.err
	}
	if q.messages[m.seq] != nil {
		return fmt.Errorf("message %d was added twice", m.seq)
	}
	q.lastSeq = max(q.lastSeq, m.seq)
	q.add(m)
	return nil
}

func (q *queue) applyState(d *decoder) error {
	m := q.messages[d.int()]
	if m == nil {
		return errors.New("state of an unknown message")
	}
	q.leave(m)
	d.delivery(m)
	q.enter(m)
	return d.err
}

func (q *queue) applyTask(text string) error {
	t := &moveTask{}
	if err := json.Unmarshal([]byte(text), t); err != nil {
		return fmt.Errorf("read move task: %w", err)
	}
	for i, known := range q.tasks {
		if known.Handle == t.Handle {
			q.tasks[i] = t
			return nil
		}
	}
	q.keepTask(t)
	return nil
}

package localsqs

// deadLetterQueue returns where exhausted messages go, or nil.
func (q *queue) deadLetterQueue() *queue {
	if q.redrive == nil {
		return nil
	}
	return q.server.byARN(q.redrive.target)
}

// bury moves a message that was received too often to the dead-letter queue. It keeps its id, counts and, on standard
// queues, the start of its retention; on FIFO queues retention starts anew and the message id becomes the deduplication id.
// Source: SQS developer guide, "Setting-up dead-letter queue retention" and "Learn how to configure a dead-letter queue redrive".
func (q *queue) bury(m *message, dlq *queue, now int64) {
	dead := &message{
		id: m.id, bodyMD5: m.bodyMD5, body: m.body, attrs: m.attrs, trace: m.trace, group: m.group, dedupID: m.dedupID,
		dlqFrom: q.arn, sent: m.sent, enqueued: m.enqueued, receives: m.receives, first: m.first, state: stateReady,
	}
	if q.fifo {
		dead.enqueued, dead.dedupID = now, m.id.String()
	}
	q.drop(m)
	q.flow.buried++
	q.server.journal.dropped(q, m)
	dlq.enqueue(dead)
	q.server.touch(dlq)
}

// enqueue gives a message its place in the queue and stores it.
func (q *queue) enqueue(m *message) {
	m.seq = q.nextSeq()
	m.order = m.seq
	q.add(m)
	q.flow.sent++
	q.server.journal.added(q, m)
}

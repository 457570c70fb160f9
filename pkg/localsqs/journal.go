package localsqs

// journal records every change, so that a server with a directory can be started again. A nil journal records nothing.
type journal struct{}

func (j *journal) received(q *queue, m *message)     {}
func (j *journal) dropped(q *queue, m *message)      {}
func (j *journal) added(q *queue, m *message)        {}
func (j *journal) queueChanged(q *queue)             {}
func (j *journal) queueDeleted(q *queue)             {}
func (j *journal) purged(q *queue)                   {}
func (j *journal) taskChanged(q *queue, t *moveTask) {}

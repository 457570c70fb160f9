package localsqs

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Dump describes all queues and messages, for comparing a server with its successor.
func (s *Server) Dump() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	var b strings.Builder
	for _, q := range s.sortedQueues() {
		q.advance(now)
		fmt.Fprintln(&b, q.name, q.id, q.fifo, q.given, q.tags, q.created, q.modified, q.purged, q.counts)
		for _, seq := range slices.Sorted(maps.Keys(q.messages)) {
			m := q.messages[seq]
			fmt.Fprintln(&b, " ", m.id, m.body, m.attrs, m.trace, m.group, m.dedupID, m.dlqFrom, m.sent, m.enqueued, m.state, m.deadline, m.receives, m.here, m.first, m.received)
		}
		for _, k := range q.dedup.queue[q.dedup.head:] {
			fmt.Fprintln(&b, "  dedup", k, q.dedup.seen[k])
		}
		for _, t := range q.tasks {
			fmt.Fprintln(&b, "  task", t.Handle, t.Status, t.Moved)
		}
	}
	fmt.Fprintln(&b, s.deleted)
	return b.String()
}

// Replay feeds one frame's payload to a new server, for fuzzing.
func Replay(frame []byte) error {
	s := New(Options{})
	s.replayed = map[uint64]*queue{}
	_, err := s.replay(frame)
	return err
}

// LogName and FrameHeader let tests find their way in a log.
var LogName = logName

const FrameHeader = frameHeader

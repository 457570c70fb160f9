package localsqs

import (
	"bytes"
	"encoding/json"
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
		for _, id := range slices.Sorted(maps.Keys(q.attempts.byID)) {
			fmt.Fprint(&b, "  attempt ", id, q.attempts.byID[id].at)
			for _, d := range q.attempts.byID[id].got {
				fmt.Fprint(&b, " ", d.seq, d.receives, d.here, d.first)
			}
			fmt.Fprintln(&b)
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

// CompactAt lowers the size from which the server's log is compacted.
func (s *Server) CompactAt(bytes int64) {
	s.journal.writing.Lock()
	defer s.journal.writing.Unlock()
	s.journal.compactAt = bytes
}

// BreakJournal makes every later write fail, as a full disk would.
func (s *Server) BreakJournal() {
	s.journal.writing.Lock()
	defer s.journal.writing.Unlock()
	_ = s.journal.file.Close()
}

// LogName and FrameHeader let tests find their way in a log.
var LogName = logName

const FrameHeader = frameHeader

// Actions lists the API.
func Actions() []string { return slices.Sorted(maps.Keys(operations())) }

// SendBatch is the public face of a decoded batch.
type SendBatch struct {
	QueueUrl string
	Entries  []sendEntry
}

// DecodeSendBatch uses the one-pass decoder, DecodeSendBatchByTheBook uses encoding/json.
func DecodeSendBatch(body []byte) (SendBatch, error) {
	in := &sendBatchInput{}
	err := decodeInput(body, in)
	return SendBatch{in.QueueUrl, in.Entries}, err
}

func DecodeSendBatchByTheBook(body []byte) (out SendBatch, err error) {
	err = json.Unmarshal(body, &out)
	if out.Entries != nil && len(out.Entries) == 0 {
		out.Entries = nil
	}
	return out, err
}

// HasFoldedNames reports whether encoding/json would match a member by another case, or one that appears twice.
func HasFoldedNames(body []byte) bool {
	known := []string{"QueueUrl", "Entries", "Id", "MessageBody", "DelaySeconds", "MessageGroupId", "MessageDeduplicationId", "MessageAttributes", "MessageSystemAttributes"}
	d := json.NewDecoder(bytes.NewReader(body))
	type level struct {
		object, value bool
		seen          map[string]bool
	}
	stack := []*level{{}}
	for {
		token, err := d.Token()
		if err != nil {
			return false
		}
		top := stack[len(stack)-1]
		if name, ok := token.(string); ok && top.object && !top.value {
			folded := slices.ContainsFunc(known, func(k string) bool { return strings.EqualFold(k, name) })
			if folded && (!slices.Contains(known, name) || top.seen[name]) {
				return true
			}
			top.seen[name], top.value = true, true
			continue
		}
		top.value = false
		switch token {
		case json.Delim('{'), json.Delim('['):
			stack = append(stack, &level{object: token == json.Delim('{'), seen: map[string]bool{}})
		case json.Delim('}'), json.Delim(']'):
			stack = stack[:len(stack)-1]
		}
	}
}

var AppendQuoted = appendQuoted

package localsqs

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
)

// journal appends every change to a log file, so that a server can be started again from its directory. Changes are
// gathered under Server.mu and written, one checksummed frame per flush, before any reply tells of them. A frame holds
// whole operations, so a torn one loses nothing that was acknowledged and halves nothing. A nil journal records nothing.
type journal struct {
	dir  string
	lock *os.File // held open as long as the directory is in use

	buf []byte // the frame being gathered, room for its header first; guarded by Server.mu

	writing    sync.Mutex // guards all below; taken before Server.mu
	file       *os.File
	generation int
	size       int64  // bytes in the current log
	spare      []byte // the frame before, to be used again
	err        error  // why nothing more can be written
	compactAt  int64  // see minCompaction

	background sync.WaitGroup // writes a snapshot
	compacting atomic.Bool
	base       atomic.Int64 // bytes in the latest snapshot
}

// A frame is the payload's length, the payload's checksum, a checksum of these two, and the payload. The header's own
// checksum tells a damaged length from a frame that was cut short.
const frameHeader = 12

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal fills in the header of a frame.
func seal(frame []byte) []byte {
	payload := frame[frameHeader:]
	binary.LittleEndian.PutUint32(frame, uint32(len(payload)))
	binary.LittleEndian.PutUint32(frame[4:], crc32.Checksum(payload, castagnoli))
	binary.LittleEndian.PutUint32(frame[8:], crc32.Checksum(frame[:8], castagnoli))
	return frame
}

func logName(dir string, generation int) string {
	return filepath.Join(dir, fmt.Sprintf("%08d.log", generation))
}

func snapshotName(dir string, generation int) string {
	return filepath.Join(dir, fmt.Sprintf("%08d.snapshot", generation))
}

func (j *journal) received(q *queue, m *message) {
	if j != nil {
		j.buf = appendState(j.buf, q.id, m)
	}
}

func (j *journal) dropped(q *queue, m *message) {
	if j != nil {
		j.buf = appendInts(begin(j.buf, effectDropped, q.id), m.seq)
	}
}

func (j *journal) added(q *queue, m *message) {
	if j != nil {
		j.buf = appendMessage(j.buf, q.id, m)
	}
}

func (j *journal) remembered(q *queue, k dedupKey, e dedupEntry) {
	if j != nil {
		j.buf = appendDedup(j.buf, q.id, k, e)
	}
}

func (j *journal) attempted(q *queue, id string, a attempt) {
	if j != nil {
		j.buf = appendAttempt(j.buf, q.id, id, a)
	}
}

func (j *journal) queueChanged(q *queue) {
	if j != nil {
		j.buf = appendQueue(j.buf, q)
	}
}

func (j *journal) queueDeleted(q *queue, at int64) {
	if j != nil {
		j.buf = appendInts(appendString(begin(j.buf, effectRemoved, q.id), q.name), at)
	}
}

func (j *journal) purged(q *queue) {
	if j != nil {
		j.buf = appendInts(begin(j.buf, effectPurged, q.id), q.purged)
	}
}

func (j *journal) taskChanged(q *queue, t *moveTask) {
	if j != nil {
		j.buf = appendTask(j.buf, q.id, t)
	}
}

func appendTask(b []byte, queueID uint64, t *moveTask) []byte {
	text, _ := json.Marshal(t) // a struct of numbers and strings
	return appendString(begin(b, effectTask, queueID), string(text))
}

// persist writes everything that happened so far. It returns once that is in the log, whoever wrote it; after a failure
// it fails for ever, because memory is then ahead of the log.
func (s *Server) persist() error {
	j := s.journal
	if j == nil {
		return nil
	}
	j.writing.Lock()
	defer j.writing.Unlock()
	if j.err != nil {
		return j.err
	}
	s.mu.Lock()
	frame := j.cut()
	var im *image
	if j.worthCompacting() {
		im = s.image()
	}
	s.mu.Unlock()
	if err := j.write(frame); err != nil {
		return err
	}
	if im != nil {
		return j.turn(im)
	}
	return nil
}

// cut takes the gathered frame and begins the next.
func (j *journal) cut() []byte {
	frame := j.buf
	if cap(j.spare) < frameHeader {
		j.spare = make([]byte, frameHeader)
	}
	j.buf = j.spare[:frameHeader]
	j.spare = frame
	return frame
}

func (j *journal) write(frame []byte) error {
	if len(frame) == frameHeader {
		return nil
	}
	n, err := j.file.Write(seal(frame))
	j.size += int64(n)
	if err != nil {
		j.err = fmt.Errorf("write %s: %w", j.file.Name(), err)
	}
	if cap(j.spare) > maxRequestBytes { // do not keep the memory of a rare huge frame
		j.spare = nil
	}
	return j.err
}

var errJournalClosed = errors.New("the journal is closed")

// close waits for a snapshot that is being written, then syncs and closes the log.
func (j *journal) close() error {
	j.writing.Lock()
	defer j.writing.Unlock()
	if errors.Is(j.err, errJournalClosed) {
		return nil
	}
	j.background.Wait()
	failed := j.err
	j.err = errJournalClosed
	return errors.Join(failed, j.file.Sync(), j.file.Close(), j.lock.Close())
}

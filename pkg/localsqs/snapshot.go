package localsqs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// minCompaction is the size of a log below which it is never compacted; above, it is when it outgrew its snapshot.
const minCompaction = 64 << 20

func (j *journal) worthCompacting() bool {
	return !j.compacting.Load() && j.size > max(j.compactAt, 2*j.base.Load())
}

// image is one moment's state: small things encoded, messages as copies that share their contents.
type image struct {
	head     []byte
	messages []queuedMessages
	tail     []byte
}

type queuedMessages struct {
	queueID uint64
	all     []message
}

// image is taken under the lock and written without.
func (s *Server) image() *image {
	im := &image{}
	for _, q := range s.sortedQueues() {
		im.head = appendQueue(im.head, q)
		for _, k := range q.dedup.queue[q.dedup.head:] {
			im.head = appendDedup(im.head, q.id, k, q.dedup.seen[k])
		}
		for _, t := range q.tasks {
			im.head = appendTask(im.head, q.id, t)
		}
		copies := make([]message, 0, len(q.messages))
		for _, m := range q.messages {
			copies = append(copies, *m)
		}
		im.messages = append(im.messages, queuedMessages{q.id, copies})
		for _, ref := range q.attempts.order {
			if a := q.attempts.byID[ref.id]; a.at == ref.at {
				im.tail = appendAttempt(im.tail, q.id, ref.id, a) // behind the messages that it refers to
			}
		}
	}
	for name, at := range s.deleted {
		im.tail = appendInts(appendString(begin(im.tail, effectRemoved, 0), name), at)
	}
	im.tail = append(im.tail, byte(effectEnd))
	return im
}

// snapshotFrame is about how many bytes one frame of a snapshot holds.
const snapshotFrame = 1 << 20

func (im *image) writeTo(w io.Writer) error {
	frame := append(make([]byte, frameHeader, snapshotFrame+snapshotFrame/8), im.head...)
	flush := func() error {
		_, err := w.Write(seal(frame))
		frame = frame[:frameHeader]
		return err
	}
	for _, part := range im.messages {
		for i := range part.all {
			frame = appendMessage(frame, part.queueID, &part.all[i])
			if len(frame) < snapshotFrame {
				continue
			}
			if err := flush(); err != nil {
				return err
			}
		}
	}
	frame = append(frame, im.tail...)
	return flush()
}

// turn begins a new log and writes the snapshot before it in the background. Until that is complete, a restart reads the
// old snapshot and both logs.
func (j *journal) turn(im *image) error {
	next, err := os.OpenFile(logName(j.dir, j.generation+1), os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		j.err = fmt.Errorf("begin a new log: %w", err)
		return j.err
	}
	if err := errors.Join(j.file.Sync(), j.file.Close()); err != nil {
		j.err = fmt.Errorf("end the old log: %w", err)
		return errors.Join(j.err, next.Close())
	}
	j.file, j.size = next, 0
	j.generation++
	j.compacting.Store(true)
	generation := j.generation
	j.background.Go(func() {
		defer j.compacting.Store(false)
		// Without a snapshot the older files stay: they are needed, and the next log that grows tries again.
		if size, err := writeSnapshot(j.dir, generation, im); err == nil {
			j.base.Store(size)
			removeBefore(j.dir, generation)
		}
	})
	return nil
}

// writeSnapshot makes the snapshot appear whole or not at all.
func writeSnapshot(dir string, generation int, im *image) (size int64, err error) {
	name := snapshotName(dir, generation)
	file, err := os.OpenFile(name+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, fmt.Errorf("create snapshot: %w", err)
	}
	err = im.writeTo(file)
	if err == nil {
		size, err = file.Seek(0, io.SeekCurrent)
	}
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return 0, fmt.Errorf("write snapshot: %w", err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		return 0, fmt.Errorf("publish snapshot: %w", err)
	}
	return size, nil
}

// removeBefore deletes the files of older generations. One that stays does no harm and is tried again next time.
func removeBefore(dir string, generation int) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if g, _, ok := generationOf(e.Name()); ok && g < generation {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// generationOf reads a file name of the journal.
func generationOf(name string) (generation int, isSnapshot, ok bool) {
	number, kind, found := strings.Cut(name, ".")
	g, err := strconv.Atoi(number)
	if !found || err != nil || kind != "log" && kind != "snapshot" {
		return 0, false, false
	}
	return g, kind == "snapshot", true
}

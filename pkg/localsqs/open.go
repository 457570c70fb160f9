package localsqs

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
)

// DamageError says that a file of a server's directory cannot be trusted. Open never reads around such a place.
type DamageError struct {
	File   string
	Offset int64 // where the record begins that is damaged
	Reason string
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("damaged file %s at offset %d: %s", e.File, e.Offset, e.Reason)
}

// Open returns a server like New's that keeps its state in the directory, which is created if missing and may be used by
// one server at a time. Whatever the server acknowledged survives the death of its process, kill -9 included; after a
// power failure the last moments may be missing, because only Close waits for the disk. A last record that was cut
// short is dropped, since nobody was told of it; other damage is a *DamageError.
func Open(dir string, opts Options) (*Server, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create state directory: %w", err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	s := New(opts)
	if err := s.recover(dir); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	s.journal.lock = lock
	s.resume()
	return s, nil
}

// recover reads the newest snapshot and every log from it on, and continues the last log.
func (s *Server) recover(dir string) error {
	first, last, hasSnapshot, err := generations(dir)
	if err != nil {
		return err
	}
	s.replayed = map[uint64]*queue{}
	j := &journal{dir: dir, generation: last, buf: make([]byte, frameHeader), compactAt: minCompaction}
	if hasSnapshot {
		size, err := s.readSnapshot(snapshotName(dir, first))
		if err != nil {
			return err
		}
		j.base.Store(size)
	}
	for g := first; g <= last; g++ {
		if j.size, err = s.readLog(logName(dir, g), g == last); err != nil {
			return err
		}
	}
	s.replayed = nil
	if j.file, err = os.OpenFile(logName(dir, last), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	removeBefore(dir, first)
	s.journal = j
	return nil
}

// generations returns the newest snapshot's generation, or the first log's if there is none, and the last log's.
func generations(dir string) (first, last int, hasSnapshot bool, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, 0, false, fmt.Errorf("read state directory: %w", err)
	}
	lowest := -1
	for _, e := range entries {
		g, isSnapshot, ok := generationOf(e.Name())
		switch {
		case !ok:
		case isSnapshot:
			first, hasSnapshot = max(first, g), true
		default:
			last = max(last, g)
			if lowest < 0 || g < lowest {
				lowest = g
			}
		}
	}
	if !hasSnapshot {
		first = max(lowest, 0)
	}
	return first, max(last, first), hasSnapshot, nil
}

func (s *Server) readSnapshot(name string) (size int64, err error) {
	complete := false
	size, err = readFrames(name, func(frame []byte) (err error) {
		complete, err = s.replay(frame)
		return err
	})
	if errors.Is(err, errTorn) || err == nil && !complete {
		err = &DamageError{name, size, "the snapshot is not complete"}
	}
	return size, err
}

// readLog replays a log. What follows the last whole frame of the last log is cut off if it is the beginning of one.
func (s *Server) readLog(name string, isLast bool) (size int64, err error) {
	size, err = readFrames(name, func(frame []byte) error {
		end, err := s.replay(frame)
		if end {
			err = errors.New("a snapshot's end in a log")
		}
		return err
	})
	switch {
	case errors.Is(err, os.ErrNotExist) && isLast:
		return 0, nil // killed before the first log, or a new directory
	case errors.Is(err, errTorn) && isLast:
		return size, os.Truncate(name, size)
	case errors.Is(err, errTorn):
		return size, &DamageError{name, size, "the file ends within a record"}
	}
	return size, err
}

var errTorn = errors.New("the last record is cut short")

// readFrames calls use for each frame and returns the offset behind the last good one. It returns errTorn if what follows
// is a frame's beginning, and a *DamageError if it can be nothing that was written.
func readFrames(name string, use func(frame []byte) error) (offset int64, err error) {
	file, err := os.Open(name)
	if err != nil {
		return 0, fmt.Errorf("read state: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return 0, fmt.Errorf("read state: %w", err)
	}
	r := bufio.NewReaderSize(file, 1<<20)
	var header [frameHeader]byte
	var payload []byte
	for {
		switch _, err := io.ReadFull(r, header[:]); {
		case err == io.EOF:
			return offset, nil
		case err == io.ErrUnexpectedEOF:
			return offset, errTorn
		case err != nil:
			return offset, fmt.Errorf("read %s: %w", name, err)
		}
		if crc32.Checksum(header[:8], castagnoli) != binary.LittleEndian.Uint32(header[8:]) {
			return offset, &DamageError{name, offset, "a record's header does not match its checksum"}
		}
		size := int64(binary.LittleEndian.Uint32(header[:]))
		if offset+frameHeader+size > info.Size() {
			return offset, errTorn
		}
		if int64(cap(payload)) < size {
			payload = make([]byte, size)
		}
		payload = payload[:size]
		if _, err := io.ReadFull(r, payload); err != nil {
			return offset, fmt.Errorf("read %s: %w", name, err)
		}
		if crc32.Checksum(payload, castagnoli) != binary.LittleEndian.Uint32(header[4:]) {
			return offset, &DamageError{name, offset, "a record does not match its checksum"}
		}
		if err := use(payload); err != nil {
			return offset, &DamageError{name, offset, err.Error()}
		}
		offset += frameHeader + size
	}
}

// resume starts again what ran when the server ended.
func (s *Server) resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.queues {
		if t := q.runningTask(); t != nil {
			q.launch(t)
		}
	}
}

func lockName(dir string) string { return filepath.Join(dir, "lock") }

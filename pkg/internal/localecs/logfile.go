package localecs

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

const (
	logLimit  = 8 << 20 // bytes of one log file before it is moved to NAME.1, whose predecessor is dropped
	tailBytes = 4 << 10
	tailLines = 8
)

// logFile is a worker's output. The worker appends through its own descriptor, so the supervisor may copy and cut the file
// under it; a line written in that very moment can be lost.
type logFile struct {
	file  *os.File
	start int64 // size when this life began
}

func openLog(path string) (*logFile, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("find the end of the log: %w", err)
	}
	return &logFile{file: file, start: size}, nil
}

func (l *logFile) close() { _ = l.file.Close() }

// trim keeps the file below its limit. A failure costs disk, not work: it is tried again at the next tick.
func (l *logFile) trim() {
	if info, err := l.file.Stat(); err != nil || info.Size() < logLimit {
		return
	}
	old, err := os.Create(l.file.Name() + ".1")
	if err != nil {
		return
	}
	defer func() { _ = old.Close() }()
	if _, err := io.Copy(old, io.NewSectionReader(l.file, 0, logLimit*2)); err != nil {
		return
	}
	if l.file.Truncate(0) == nil {
		l.start = 0
	}
}

// tail returns the last lines of this life.
func (l *logFile) tail() []string {
	info, err := l.file.Stat()
	if err != nil {
		return nil
	}
	from := max(l.start, info.Size()-tailBytes)
	text, err := io.ReadAll(io.NewSectionReader(l.file, from, tailBytes))
	if err != nil {
		return nil
	}
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return nil
	}
	lines := bytes.Split(text, []byte("\n"))
	var last []string
	for _, line := range lines[max(0, len(lines)-tailLines):] {
		last = append(last, string(line))
	}
	return last
}

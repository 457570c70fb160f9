package fleet

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/stagefleet/stagefleet/pkg/blob"
)

// unfinishedAge is how long after its last byte an unfinished object has no writer any more. Workers of a killed fleet may
// still be draining; none of them is silent for so long.
const unfinishedAge = time.Hour

// ErrInUse is matched when another local fleet runs on the state directory.
var ErrInUse = errors.New("another fleet runs here")

// state is a state directory that this process has to itself.
type state struct {
	dir  string // absolute
	lock *os.File
}

// openState makes the directory and locks it. The kernel frees the lock with the process, however that ends.
func openState(dir string) (*state, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("find the state directory: %w", err)
	}
	for _, sub := range []string{"objects", "logs", "tmp"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, fmt.Errorf("make the state directory: %w", err)
		}
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the state directory: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		owner, _ := io.ReadAll(io.LimitReader(lock, 20))
		_ = lock.Close()
		return nil, fmt.Errorf("%w: process %s holds %s; stop it, or choose another directory with --state",
			ErrInUse, strings.TrimSpace(string(owner)), dir)
	}
	if err := errors.Join(lock.Truncate(0), writePID(lock)); err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("lock the state directory: %w", err)
	}
	st := &state{dir: dir, lock: lock}
	if err := st.sweepObjects(); err != nil {
		_ = lock.Close()
		return nil, err
	}
	return st, nil
}

func writePID(lock *os.File) error {
	_, err := fmt.Fprintln(lock, os.Getpid())
	return err
}

func (s *state) close() error { return s.lock.Close() }

func (s *state) path(name string) string { return filepath.Join(s.dir, name) }
func (s *state) database() string        { return "sqlite:" + s.path("fleet.db") }
func (s *state) place() string           { return (&url.URL{Scheme: "file", Path: s.path("objects")}).String() }

// sweep removes the folder of temporary files, with what the workers of a killed fleet have left. Only for when no worker runs.
func (s *state) sweep() error {
	if err := os.RemoveAll(s.path("tmp")); err != nil {
		return fmt.Errorf("remove temporary files: %w", err)
	}
	return nil
}

// sweepObjects removes what uploads to a killed fleet, and its killed workers, have left unfinished.
func (s *state) sweepObjects() error {
	objects, err := blob.NewFolder(s.path("objects"))
	if err != nil {
		return fmt.Errorf("open the objects: %w", err)
	}
	return objects.Sweep(unfinishedAge)
}

const logLimit = 8 << 20

// boundedLog is a log file that moves itself to NAME.1 at its limit; the file that was there is dropped. One writer at a
// time, which zap's lock sees to.
type boundedLog struct {
	path string
	file *os.File
	size int64
}

func openLog(path string) (*boundedLog, error) {
	l := &boundedLog{path: path}
	return l, l.open()
}

func (l *boundedLog) open() error {
	file, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		_ = file.Close()
		return fmt.Errorf("open the log: %w", err)
	}
	l.file, l.size = file, info.Size()
	return nil
}

func (l *boundedLog) Write(p []byte) (int, error) {
	if l.size+int64(len(p)) > logLimit {
		_ = l.file.Close()
		if err := errors.Join(os.Rename(l.path, l.path+".1"), l.open()); err != nil {
			return 0, err
		}
	}
	n, err := l.file.Write(p)
	l.size += int64(n)
	return n, err
}

func (l *boundedLog) close() error { return l.file.Close() }

package worker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// scratchAge is how old the folder of another worker must be before it may be
// taken for one that was left behind: making one and locking it takes two steps.
const scratchAge = time.Minute

// scratch is a worker's folder for its attempts. It stays locked while the process
// lives, so that a later worker can tell what a killed one left behind.
type scratch struct {
	path string
	lock *os.File
}

// newScratch makes the folder of a worker of the stage, and removes those of
// workers of the same stage that were killed.
func newScratch(stage string) (*scratch, error) {
	prefix := "stagefleet-" + stage + "-"
	sweep(filepath.Join(os.TempDir(), prefix+"*"), time.Now().Add(-scratchAge))
	path, err := os.MkdirTemp("", prefix)
	if err != nil {
		return nil, fmt.Errorf("make the folder for attempts: %w", err)
	}
	lock, err := locked(path)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock the folder for attempts: %w", err), os.RemoveAll(path))
	}
	return &scratch{path, lock}, nil
}

func (s *scratch) remove() error { return errors.Join(os.RemoveAll(s.path), s.lock.Close()) }

// sweep removes folders that match and that no living process holds. What cannot
// be removed is another user's, or gone already.
func sweep(pattern string, before time.Time) {
	folders, err := filepath.Glob(pattern)
	if err != nil {
		return // unreachable: the pattern is ours
	}
	for _, f := range folders {
		info, err := os.Stat(f)
		if err != nil || !info.IsDir() || info.ModTime().After(before) {
			continue
		}
		if lock, err := locked(f); err == nil {
			_ = os.RemoveAll(f)
			lock.Close()
		}
	}
}

// locked opens the folder and locks it, or fails at once.
func locked(folder string) (*os.File, error) {
	f, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

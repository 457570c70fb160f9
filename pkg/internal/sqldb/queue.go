package sqldb

import (
	"context"
	"fmt"
	"os"
	"sync"
	"syscall"
)

// writerQueue is where the processes of one SQLite file wait for their turn to write. SQLite's own wait is a
// series of sleeps of up to 100 ms, which with eight writers makes a slow tail; the kernel wakes a waiter
// of a file lock at once, and takes the lock from a process that dies. A frozen holder holds up the others, as
// it would with SQLite's lock.
type writerQueue struct {
	file *os.File
	busy sync.WaitGroup // waits that their callers have given up
}

func openWriterQueue(path string) (*writerQueue, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open writers' queue: %w", err)
	}
	return &writerQueue{file: f}, nil
}

// acquire waits for the lock; the caller must be the only one of its process. The queue is a courtesy: SQLite's own lock
// is what excludes, so nothing breaks when a wait that was given up disturbs a later one.
func (q *writerQueue) acquire(ctx context.Context) (func(), error) {
	fd := int(q.file.Fd())
	release := func() { _ = syscall.Flock(fd, syscall.LOCK_UN) }
	if syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB) == nil {
		return release, nil
	}
	got := make(chan error, 1)
	q.busy.Go(func() { got <- flock(fd) })
	select {
	case err := <-got:
		if err != nil {
			return nil, fmt.Errorf("wait for other writers: %w", err)
		}
		return release, nil
	case <-ctx.Done():
		q.busy.Go(func() {
			if <-got == nil {
				release()
			}
		})
		return nil, context.Cause(ctx)
	}
}

func flock(fd int) error {
	for {
		err := syscall.Flock(fd, syscall.LOCK_EX)
		if err != syscall.EINTR {
			return err
		}
	}
}

func (q *writerQueue) close() error {
	q.busy.Wait()
	return q.file.Close()
}

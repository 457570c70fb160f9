//go:build unix

package localsqs

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lockDir keeps a second server out of the directory until the file is closed, also by the death of the process.
func lockDir(dir string) (*os.File, error) {
	file, err := os.OpenFile(lockName(dir), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock file: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("state directory %s is in use by another server: %w", dir, err), file.Close())
	}
	return file, nil
}

//go:build !unix

package localsqs

import (
	"fmt"
	"os"
)

// lockDir does not keep a second server out on this platform.
func lockDir(dir string) (*os.File, error) {
	file, err := os.OpenFile(lockName(dir), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock file: %w", err)
	}
	return file, nil
}

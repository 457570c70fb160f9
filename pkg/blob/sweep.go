package blob

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Sweep removes what writers that were killed have left unfinished. What was written to within the given age stays: its
// writer may live. Finished objects are not looked at.
func (f *Folder) Sweep(age time.Duration) error {
	entries, err := os.ReadDir(f.tmp)
	if err != nil {
		return fmt.Errorf("look for unfinished objects: %w", err)
	}
	limit := time.Now().Add(-age)
	var errs []error
	for _, entry := range entries {
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) || err == nil && info.ModTime().After(limit) {
			continue
		}
		errs = append(errs, err, os.RemoveAll(filepath.Join(f.tmp, entry.Name())))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove unfinished objects: %w", err)
	}
	return nil
}

package blob

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestASweepRemovesOnlyUnfinishedObjectsThatNobodyHasWrittenToOfLate(t *testing.T) {
	folder, err := NewFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	put(t, folder, "a/finished", []byte("kept"))
	old := time.Now().Add(-2 * time.Hour)
	paths := map[string]bool{ // whether it stays
		folder.file("a/finished"):                 true,
		filepath.Join(folder.tmp, "object-young"): true,
		filepath.Join(folder.tmp, "object-old"):   false,
		filepath.Join(folder.tmp, "link-old"):     false,
	}
	for path := range paths {
		switch filepath.Base(path) {
		case "object-young":
			err = os.WriteFile(path, []byte("x"), 0o600)
		case "object-old":
			err = errors.Join(os.WriteFile(path, []byte("x"), 0o600), os.Chtimes(path, old, old))
		case "link-old":
			err = errors.Join(os.MkdirAll(filepath.Join(path, "object"), 0o700), os.Chtimes(path, old, old))
		default:
			err = os.Chtimes(path, old, old)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := folder.Sweep(time.Hour); err != nil {
		t.Fatal(err)
	}
	for path, stays := range paths {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) == stays {
			t.Errorf("%s: %v, want it to stay: %v", filepath.Base(path), err, stays)
		}
	}
}

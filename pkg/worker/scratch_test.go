package worker

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestFoldersOfKilledWorkersAreRemovedAndThoseOfLivingOnesKept(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	living, err := newScratch("cut")
	if err != nil {
		t.Fatal(err)
	}
	made := func(name string, age time.Duration) string {
		dir := filepath.Join(tmp, name)
		if err := os.MkdirAll(filepath.Join(dir, "attempt-1"), 0o755); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(-age)
		if err := os.Chtimes(dir, at, at); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(living.path, old, old); err != nil {
		t.Fatal(err)
	}
	killed, young := made("stagefleet-cut-1", time.Hour), made("stagefleet-cut-2", time.Second)
	foreign, other := made("stagefleet-read-1", time.Hour), made("something-cut-1", time.Hour)
	next, err := newScratch("cut")
	if err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]bool{killed: false, young: true, foreign: true, other: true, living.path: true, next.path: true} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s is there: %v, want %v", dir, err == nil, want)
		}
	}
	for _, s := range []*scratch{living, next} {
		if err := s.remove(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(s.path); err == nil {
			t.Errorf("%s is left", s.path)
		}
	}
}

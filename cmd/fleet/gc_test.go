package main

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/admin"
	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/outcome"
)

func TestGarbageIsWhatNothingRefersTo(t *testing.T) {
	s := serve(t)
	j := s.submit("talk.mp4")
	s.work(j, 1, outcome.Quarantine("bug", nil))
	path := filepath.Join(t.TempDir(), "talk.mp4")
	if err := os.WriteFile(path, []byte(secret+"talk.mp4"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text := s.fleet(exitDone, "submit --version 1", path); !strings.Contains(text, "was accepted before") {
		t.Errorf("the same content again: %s", text)
	}
	attempt := as[job.Job](s, "job", j.ID).Steps[0].History[0].ID
	left := filepath.Join(s.objects, job.Folder(j.ID, "ingest", attempt), "half")
	if err := errors.Join(os.MkdirAll(filepath.Dir(left), 0o700), os.WriteFile(left, []byte("12345"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if got := as[admin.Collected](s, "gc --dry-run"); got.Objects != 0 || !got.DryRun {
		t.Errorf("what may still be written to: %+v", got)
	}
	if _, stderr := s.says(exitUsage, "gc --older 1m"); !strings.Contains(stderr, "or more") {
		t.Errorf("%s", stderr)
	}
	// Time passes for the record.
	s.age()
	want := admin.Collected{DryRun: true, Attempts: 1, Uploads: 1, Objects: 2, Bytes: int64(5 + len(secret+"talk.mp4"))}
	if got := as[admin.Collected](s, "gc --dry-run"); got != want {
		t.Errorf("would collect %+v, want %+v", got, want)
	}
	want.DryRun = false
	if got := as[admin.Collected](s, "gc"); got != want {
		t.Errorf("collected %+v, want %+v", got, want)
	}
	if text := s.fleet(exitDone, "gc"); !strings.HasPrefix(text, "removed 0 objects") {
		t.Errorf("%q", text)
	}
	if uploads, _ := filepath.Glob(filepath.Join(s.objects, "uploads", "*", "*", "source")); len(uploads) != 1 {
		t.Errorf("uploads %v, want the one that the job refers to", uploads)
	}
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the object of the unpublished attempt: %v", err)
	}
}

// age makes the record believe that a week has passed since anything was closed or uploaded.
func (s *served) age() {
	s.t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(s.dir, "fleet.db")+"?_pragma=busy_timeout(5000)")
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	const week = 7 * 24 * int64(time.Hour/time.Microsecond)
	for _, text := range []string{"UPDATE attempt SET closed_at = closed_at - $1 WHERE closed_at > 0", "UPDATE upload SET at = at - $1"} {
		if _, err := db.ExecContext(s.t.Context(), text, week); err != nil {
			s.t.Fatal(err)
		}
	}
}

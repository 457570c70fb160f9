package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/stagefleet/stagefleet/pkg/api"
	"github.com/stagefleet/stagefleet/pkg/blob"
	"github.com/stagefleet/stagefleet/pkg/intake"
	"github.com/stagefleet/stagefleet/pkg/job"
)

// newDesk is a fleet without workers, whose API takes sheets; its address is returned.
func newDesk(t *testing.T) *front {
	t.Helper()
	dir := t.TempDir()
	s, err := job.Open(t.Context(), "sqlite:"+filepath.Join(dir, "record.db"), job.Options{Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	objects, err := blob.NewFolder(filepath.Join(dir, "objects"))
	if err != nil {
		t.Fatal(err)
	}
	first := job.Route{Stage: "ingest", Queue: "q.fifo", DLQ: "d", FIFO: true}
	f := &front{Server: httptest.NewServer(api.NewServer(api.Config{
		Record: s, Imports: s, Local: true, Objects: objects, Place: "file://" + dir, First: first, MaxUpload: 1 << 20,
		Metrics: http.NotFoundHandler(), Log: zap.NewNop(),
	}))}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- intake.Intake{Record: s, Objects: objects, First: first, MaxInput: 1 << 20, Log: zap.NewNop()}.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		f.Close()
		_ = s.Close()
	})
	return f
}

// block returns the text of README's first fenced block of a kind.
func block(t *testing.T, kind string) string {
	t.Helper()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(readme), "```"+kind+"\n")
	text, _, closed := strings.Cut(rest, "```")
	if !ok || !closed {
		t.Fatalf("README has no block of %s", kind)
	}
	return text
}

var importID = regexp.MustCompile(`import [0-9A-Za-z]{20,} `)

func TestTheImportOfTheREADMEEndsAsItSays(t *testing.T) {
	f := newDesk(t)
	dir := t.TempDir()
	name := filepath.Join(dir, "talks.csv")
	files := map[string]string{name: block(t, "csv")}
	for _, recording := range []string{"monday.mp4", "tuesday.mp4", "wednesday.mp4"} {
		files[filepath.Join(dir, recording)] = recording
	}
	for name, text := range files {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	command, want, _ := strings.Cut(block(t, "console"), "\n")
	if command != "$ fleet import talks.csv --watch" {
		t.Fatalf("README runs %q", command)
	}
	code, out, errText := f.command("import", name, "--watch")
	got := importID.ReplaceAllString(out, "import ID ")
	if code != exitDone || !strings.HasSuffix(got, want) {
		t.Errorf("exit %d\n%s%s\nREADME says\n%s", code, got, errText, want)
	}
	for line := range strings.Lines(strings.TrimSuffix(got, want)) {
		if !strings.HasPrefix(line, "import ID : ") && !strings.Contains(line, "rows settled") {
			t.Errorf("progress %q", line)
		}
	}
}

func TestRefusedRowsAreSavedAndNeverOverAnotherFile(t *testing.T) {
	f := newDesk(t)
	dir := t.TempDir()
	name := filepath.Join(dir, "t.csv")
	if err := os.WriteFile(name, []byte("source\ngone.mp4\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	code, out, errText := f.command("import", name, "--watch")
	id := strings.Fields(out)[1]
	if code != exitNoResult || !strings.Contains(out, "Every row was refused") {
		t.Fatalf("exit %d %s %s", code, out, errText)
	}
	id = strings.TrimSuffix(id, ":")
	refused := filepath.Join(dir, "mend.csv")
	if code, _, errText := f.command("imports", id, "--refused", refused); code != exitDone {
		t.Fatalf("exit %d %s", code, errText)
	}
	text, err := os.ReadFile(refused)
	if err != nil || !bytes.HasPrefix(text, []byte("target,source,title,version,reason\r\n,gone.mp4,,,There is no such file")) {
		t.Errorf("%q, %v", text, err)
	}
	if code, _, _ := f.command("imports", id, "--refused", refused); code != exitFailed {
		t.Errorf("a file was replaced: exit %d", code)
	}
	if code, out, _ := f.command("imports"); code != exitDone || !strings.Contains(out, "t.csv") || !strings.Contains(out, "failed") {
		t.Errorf("exit %d %s", code, out)
	}
	if code, _, _ := f.command("imports", id, "--cancel"); code != exitConflict {
		t.Errorf("cancelling what has ended: exit %d", code)
	}
	if code, _, _ := f.command("imports", "--cancel"); code != exitUsage {
		t.Errorf("cancelling nothing: exit %d", code)
	}
}

package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// sources copies this source tree.
func sources(t *testing.T) string {
	t.Helper()
	root, to := "../..", t.TempDir()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		inside, err := filepath.Rel(root, path)
		switch {
		case err != nil:
			return err
		case inside != "." && (d.Name()[0] == '.' && d.IsDir() || inside == "bin" || inside == "build"):
			return filepath.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, inside), 0o755)
		case !d.Type().IsRegular():
			return nil
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, inside), raw, info.Mode().Perm())
	})
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// tool runs a program in the tree and returns what it says.
func tool(t *testing.T, root string, words ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), words[0], words[1:]...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(words, " "), err, out)
	}
	return string(out)
}

func TestTwoNewStagesBuildPassTheirTestsAndTakePartInAJob(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a copy of the tree and runs the real tools")
	}
	t.Setenv("GOFLAGS", "-trimpath") // so that the copy shares what the tree has built
	root := sources(t)
	start := time.Now()
	for _, args := range [][]string{{"second-look", "--after", "highlight", "--queue", "fifo"}, {"noise-gate", "--after", "second-look", "--queue", "standard"}} {
		var stdout, stderr bytes.Buffer
		if code := run(append(append([]string{"new-stage"}, args...), "--dir", root), os.Getenv, &stdout, &stderr); code != exitDone {
			t.Fatalf("exit %d: %s", code, stderr.String())
		}
		if !strings.Contains(stdout.String(), args[0]+" ") || !strings.Contains(stdout.String(), "← new") || !strings.Contains(stdout.String(), "Left to do:") {
			t.Errorf("says\n%s", stdout.String())
		}
		t.Logf("%s", stdout.String())
	}
	if rough := tool(t, root, "gofmt", "-l", "workers", "pkg/recording"); rough != "" {
		t.Errorf("not as gofmt writes it: %s", rough)
	}
	said := tool(t, root, "make", "test", "PKG=./workers/second-look/... ./workers/noise-gate/... ./pkg/recording")
	for _, name := range []string{"second-look/handler", "noise-gate/handler"} {
		if !regexp.MustCompile(`(?m)^ok\s+\S+/workers/` + name + `\s`).MatchString(said) {
			t.Errorf("make test tells nothing of %s:\n%s", name, said)
		}
	}
	for _, name := range []string{"second-look", "noise-gate"} {
		if _, err := os.Stat(filepath.Join(root, "bin/workers", name)); err != nil {
			t.Errorf("make test has built no worker: %v", err)
		}
	}
	tool(t, root, "go", "test", "-run", "TestTheComposeFileIsWhatTheManifestSays|TestEveryStageHasALine", "./cmd/fleet")
	out := tool(t, root, "go", "test", "-count=1", "-v", "-run", "^(TestARecordingBecomesClipsInOneProcess|TestTheManifestHoldsAtBothScales)$", "./workers")
	if !strings.Contains(out, " highlight second-look noise-gate ") {
		t.Errorf("a recording went another way:\n%s", out)
	}
	took := time.Since(start)
	t.Logf("from the first new-stage to the end of a job that both stages had worked on: %v", took.Round(time.Second))
}

func TestAnInterruptedNewStageLeavesTheTreeAsItWas(t *testing.T) {
	root := sources(t)
	manifest := filepath.Join(root, "workers/stages.go")
	before, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	tools := t.TempDir()
	if err := os.WriteFile(filepath.Join(tools, "go"), []byte("#!/bin/sh\nkill -INT $PPID\nsleep 60\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", tools+":"+os.Getenv("PATH"))
	var stdout, stderr bytes.Buffer
	code := run([]string{"new-stage", "second-look", "--after", "highlight", "--dir", root}, os.Getenv, &stdout, &stderr)
	if code != exitInterrupted || stderr.String() != "fleet: interrupted\n" {
		t.Errorf("= %d %q", code, stderr.String())
	}
	if after, err := os.ReadFile(manifest); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the manifest is left changed, %v", err)
	}
	if _, err := os.Stat(filepath.Join(root, "workers/second-look")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the stage's folder is left: %v", err)
	}
}

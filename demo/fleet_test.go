package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestProcessesThatOutliveTheFleetAreCountedAndEnded(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	// The shell ends at once and leaves one process that lives and perhaps one that has ended.
	if err := exec.CommandContext(t.Context(), "/bin/sh", "-c", "sleep 600 >/dev/null 2>&1 & true & true").Run(); err != nil {
		t.Fatal(err)
	}
	if n, err := orphans(); n != 1 || err != nil {
		t.Errorf("%d processes outlived it, %v; want 1", n, err)
	}
	if n, err := orphans(); n != 0 || err != nil {
		t.Errorf("%d processes are left, %v", n, err)
	}
}

func TestTheStateOfARunningDemoIsNotRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	lock, err := os.Create(filepath.Join(dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if err := clearState(dir); err == nil || !strings.Contains(err.Error(), "another fleet runs in "+dir) {
		t.Errorf("while it runs: %v", err)
	}
	if _, err := os.Stat(lock.Name()); err != nil {
		t.Errorf("its state: %v", err)
	}
	_ = lock.Close()
	if err := clearState(dir); err != nil {
		t.Errorf("after its end: %v", err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the old state: %v", err)
	}
	if err := clearState(dir); err != nil {
		t.Errorf("without one: %v", err)
	}
}

func TestTheDemoSendsNoKeyOfAnotherFleet(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("FLEET_KEY", "another")
	if err := os.MkdirAll(stateDir, 0o755); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{
		filepath.Join(filepath.Dir(stateDir), "key"): "another",
		"fleet": "#!/bin/sh\necho key:$FLEET_KEY\ncat .stagefleet/key\n:\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	cmd, err := submission(t.Context(), film{}, ".", "127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := cmd.Output(); err != nil || string(out) != "key:\n" {
		t.Errorf("%q, %v", out, err)
	}
}

package main

import (
	"os/exec"
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

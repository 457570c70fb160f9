package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// refused runs a fleet that must not come up and returns what it says.
func refused(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "fleet"), append([]string{"up"}, args...)...)
	cmd.WaitDelay = time.Second
	said, err := cmd.CombinedOutput()
	if err == nil || cmd.ProcessState.ExitCode() != 1 || strings.Count(string(said), "\n") != 1 {
		t.Errorf("fleet up %v: %v\n%s", args, err, said)
	}
	return string(said)
}

func TestAFleetThatCannotComeUpSaysWhyInOneSentence(t *testing.T) {
	state := t.TempDir()
	f := up(t, state)
	if said := refused(t, "--state", state, "--addr", "127.0.0.1:0"); !strings.Contains(said, "another fleet") || !strings.Contains(said, "--state") {
		t.Errorf("second fleet on one state directory: %s", said)
	}
	if said := refused(t, "--state", t.TempDir(), "--addr", f.addr); !strings.Contains(said, "--addr") {
		t.Errorf("second fleet on one address: %s", said)
	}
	if said := refused(t, "--state", t.TempDir(), "--addr", "0.0.0.0:0"); !strings.Contains(said, "loopback") {
		t.Errorf("a fleet for everybody: %s", said)
	}
}

func TestASecondSignalDoesNotWaitForTheDrain(t *testing.T) {
	t.Parallel()
	r := drawn(t)
	f := up(t, t.TempDir())
	j := f.submit(r.file)
	f.reaches(j.ID, "transcribe runs", running("transcribe"))
	family := f.descendants()
	_ = f.process.Process.Signal(syscall.SIGINT)
	eventually(t, 5*time.Second, "the fleet drains", func() bool { return strings.Contains(f.out.String(), "once more") })
	_ = f.process.Process.Signal(syscall.SIGINT)
	select {
	case <-f.exited:
	case <-time.After(5 * time.Second):
		t.Fatal("still there five seconds after the second signal")
	}
	f.noneOf(family)
	if code := f.process.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit code %d, want 130: it was not let drain", code)
	}
}

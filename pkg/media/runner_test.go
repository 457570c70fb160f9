package media

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// parentOf makes this test binary a parent that can be killed: it starts a tool, says the tool's number and waits.
const parentOf = "MEDIA_TEST_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(parentOf) != "" {
		_, _ = Runner{}.Run(context.Background(), "sh", "-c", "echo $$ >&3; exec sleep 60 3>&-")
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// shell runs a script as a tool and returns what it printed.
func shell(t *testing.T, r Runner, script string) (string, error) {
	t.Helper()
	out, err := r.Run(t.Context(), "sh", "-c", script)
	return strings.TrimSpace(string(out.Stdout)), err
}

// awaitDeath fails unless a process ends within ten seconds.
func awaitDeath(t *testing.T, pid int) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 10_000)
	if n != 1 {
		t.Fatalf("process %d still runs: %v", pid, err)
	}
}

func TestAToolReportsWhatItPrinted(t *testing.T) {
	out, err := Runner{}.Run(t.Context(), "sh", "-c", "echo result; echo one >&2; echo two >&2")
	if err != nil || string(out.Stdout) != "result\n" || string(out.Stderr) != "one\ntwo\n" || out.StderrLines != 2 {
		t.Fatalf("got %+v, %v", out, err)
	}
}

func TestAFailureIsTypedAndKeepsTheToolsWordsOutOfItsText(t *testing.T) {
	_, err := shell(t, Runner{}, "echo secret words; echo secret words >&2; exit 3")
	var exit *ExitError
	if !errors.As(err, &exit) || exit.Code != 3 || exit.Signal != 0 || exit.Tool != "sh" {
		t.Fatalf("got %v", err)
	}
	if strings.Contains(err.Error(), "secret") || errors.Is(err, ErrLimit) || exit.Reason() != "sh_exit_3" {
		t.Fatalf("got %q", err)
	}
}

func TestAMissingToolIsNotTheInputsFault(t *testing.T) {
	if _, err := (Runner{}).Run(t.Context(), "no-such-tool-anywhere"); !errors.Is(err, ErrMissing) {
		t.Fatalf("got %v", err)
	}
	for want, e := range map[string]interface{ Reason() string }{
		"ffmpeg_missing": missing{"ffmpeg"}, "ffmpeg_signal_11": &ExitError{Tool: "ffmpeg", Signal: 11, Code: -1},
		"ffmpeg_limit": &ExitError{Tool: "ffmpeg", overCPU: true}, "ffmpeg_disk_full": &ExitError{Tool: "ffmpeg", fullDisk: true},
	} {
		if e.Reason() != want {
			t.Errorf("reason %q, want %q", e.Reason(), want)
		}
	}
}

func TestAToolSeesNoTerminalNoCredentialsAndLowPriority(t *testing.T) {
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	got, err := shell(t, Runner{}, "wc -c; env | grep -c AWS; cut -d' ' -f19 /proc/self/stat")
	if err != nil || got != fmt.Sprintf("0\n0\n%d", min(own(t)+Niceness, lowest)) {
		t.Fatalf("got %q, %v", got, err)
	}
}

// own is the niceness of the calling thread.
func own(t *testing.T) int {
	raw, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		t.Error(err)
	}
	return niceness(raw)
}

func TestOurOwnPriorityStaysAsItWas(t *testing.T) {
	before := own(t)
	for range 10 {
		if _, err := shell(t, Runner{}, "true"); err != nil {
			t.Fatal(err)
		}
	}
	// Ten goroutines that hold a thread each: were threads of finished runs used again, one of them would be slow.
	const threads = 10
	after := make(chan int, threads)
	release := make(chan struct{})
	for range threads {
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			after <- own(t)
			<-release
		}()
	}
	for range threads {
		if n := <-after; n != before {
			t.Errorf("a thread of ours has niceness %d, was %d", n, before)
		}
	}
	close(release)
}

func TestAToolRunsInTheGivenFolder(t *testing.T) {
	dir := t.TempDir()
	if got, err := shell(t, Runner{Dir: dir}, "pwd -P"); err != nil || got != dir {
		t.Fatalf("got %q, %v", got, err)
	}
}

func TestEveryRunIsRecordedWithItsCost(t *testing.T) {
	var tools []string
	r := Runner{Record: func(tool string, start, end time.Time, cpu time.Duration) {
		tools = append(tools, tool)
		if !end.After(start) || cpu <= 0 || cpu > end.Sub(start)+time.Second {
			t.Errorf("%s ran from %v to %v with %v of CPU", tool, start, end, cpu)
		}
	}}
	_, _ = shell(t, r, "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done")
	_, _ = shell(t, r, "exit 1")
	if len(tools) != 2 {
		t.Fatalf("recorded %v", tools)
	}
}

func TestTheEndOfTheContextEndsTheWholeGroup(t *testing.T) {
	cause := errors.New("the reason")
	dir := t.TempDir()
	ctx, cancel := context.WithCancelCause(t.Context())
	fifo := filepath.Join(dir, "ready")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := Runner{Dir: dir}.Run(ctx, "sh", "-c", "sleep 60 & echo $$ $! > ready; wait")
		ended <- err
	}()
	ready, err := os.ReadFile(fifo)
	if err != nil {
		t.Fatal(err)
	}
	cancel(cause)
	if err := <-ended; !errors.Is(err, cause) {
		t.Fatalf("got %v", err)
	}
	for field := range strings.FieldsSeq(string(ready)) {
		pid, _ := strconv.Atoi(field)
		awaitDeath(t, pid)
	}
}

func TestAToolThatIgnoresThePoliteSignalIsKilled(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := Runner{}.Run(ctx, "sh", "-c", "trap '' TERM; while :; do sleep 60; done")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
	if took := time.Since(start); took < KillGrace {
		t.Fatalf("killed after %v, before its grace of %v was over", took, KillGrace)
	}
}

func TestWhatAToolLeavesRunningDiesWithIt(t *testing.T) {
	got, err := shell(t, Runner{}, "sleep 60 >/dev/null 2>&1 & echo $!")
	if err != nil {
		t.Fatal(err)
	}
	pid, _ := strconv.Atoi(got)
	awaitDeath(t, pid)
}

func TestNothingRunsAfterTheContextHasEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	if _, err := (Runner{Dir: dir}).Run(ctx, "touch", "trace"); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "trace")); err == nil {
		t.Fatal("the tool ran")
	}
}

func TestAToolDiesWithAKilledParent(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	// The pipe is number 3 in the parent and, since the parent does not close it for its children, in the tool.
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentOf+"=1")
	parent.ExtraFiles = []*os.File{w}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	tool, _ := strconv.Atoi(strings.TrimSpace(line))
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	awaitDeath(t, tool)
}

func TestLimitsEndATool(t *testing.T) {
	for name, c := range map[string]struct {
		limits Limits
		script string
	}{
		"processor time":         {Limits{CPU: time.Second}, "while :; do :; done"},
		"processor time, caught": {Limits{CPU: time.Second}, "trap 'exit 7' XCPU; while :; do :; done"},
		"file size":              {Limits{File: 4096}, "exec dd if=/dev/zero of=big bs=1024 count=64"},
	} {
		t.Run(name, func(t *testing.T) {
			var spent time.Duration
			r := Runner{Dir: t.TempDir(), Limits: c.limits, Record: func(_ string, _, _ time.Time, cpu time.Duration) { spent = cpu }}
			if _, err := shell(t, r, c.script); !errors.Is(err, ErrLimit) {
				t.Fatalf("got %v after %v of CPU", err, spent)
			}
		})
	}
}

func TestAStandingLimitIsNotExceeded(t *testing.T) {
	for standing, want := range map[uint64]uint64{unix.RLIM_INFINITY: 100, 101: 100, 99: 99} {
		if got := within(unix.Rlimit{Max: standing}, 100); got != want {
			t.Errorf("under %d: got %d", standing, got)
		}
	}
}

func TestMemoryIsBounded(t *testing.T) {
	r := Runner{Limits: Limits{Memory: 64 << 20}}
	if _, err := shell(t, r, "exec dd if=/dev/zero of=/dev/null bs=256M count=1"); err == nil {
		t.Fatal("a tool took 256 MB of 64")
	}
	if _, err := shell(t, r, "exec dd if=/dev/zero of=/dev/null bs=1M count=1"); err != nil {
		t.Fatal(err)
	}
}

func TestAnEndlessAnswerIsCutOffAndReported(t *testing.T) {
	out, err := Runner{}.Run(t.Context(), "head", "-c", strconv.Itoa(MaxStdout+1), "/dev/zero")
	if !errors.Is(err, ErrOutput) || len(out.Stdout) != MaxStdout {
		t.Fatalf("kept %d bytes, %v", len(out.Stdout), err)
	}
}

func TestALongLogIsCutOffAndCounted(t *testing.T) {
	out, err := Runner{}.Run(t.Context(), "sh", "-c", "yes | head -n 600000 >&2")
	if err != nil || len(out.Stderr) != MaxStderr || out.StderrLines != 600000 {
		t.Fatalf("kept %d bytes and %d lines, %v", len(out.Stderr), out.StderrLines, err)
	}
}

func TestAToolHasNoNetworkWhereTheMachinePermitsTakingItAway(t *testing.T) {
	if _, err := shell(t, Runner{}, "true"); err != nil {
		t.Fatal(err)
	}
	if noIsolation.Load() {
		t.Skip("this machine permits no network namespaces")
	}
	got, err := shell(t, Runner{}, "grep -c : /proc/net/dev")
	if err != nil || got != "1" {
		t.Fatalf("the tool sees %q interfaces, wanted the idle loopback alone: %v", got, err)
	}
}

func TestWithoutThePermissionToolsRunAllTheSame(t *testing.T) {
	before := noIsolation.Swap(true)
	t.Cleanup(func() { noIsolation.Store(before) })
	if got, err := shell(t, Runner{}, "echo works"); err != nil || got != "works" {
		t.Fatalf("got %q, %v", got, err)
	}
}

func TestOnlyRefusalsCountAsMissingPermission(t *testing.T) {
	for err, refused := range map[error]bool{syscall.EPERM: true, syscall.ENOSPC: true, syscall.ENOENT: false, syscall.EAGAIN: false} {
		if got := isRefused(&os.PathError{Op: "fork/exec", Err: err}); got != refused {
			t.Errorf("%v: refused %v", err, got)
		}
	}
}

func TestAFileNameCannotBeAnOptionOrAnAddress(t *testing.T) {
	r := Runner{Dir: "/private"}
	for name, want := range map[string]string{"-y": "file:/private/-y", "http://x/y": "file:/private/http:/x/y", "/abs/a:b": "file:/abs/a:b"} {
		if got := r.Local(name); got != want {
			t.Errorf("%q became %q", name, got)
		}
	}
}

// Package media runs the media tools (ffmpeg, ffprobe, tesseract, pocketsphinx, aubio) on files that nobody
// vouches for, and reads their answers.
//
// A tool runs without a terminal, without network where the machine permits taking it away, niced, in a
// process group of its own, under limits of CPU, memory and file size; it dies with the context, and with the
// process that started it even if that is killed. A tool's exit code is not taken as proof: functions that
// make a file look at the file. What is not promised: a sandbox for files; a tool can read what its user can,
// so callers name the input format (see [Probe]) and never pass on names they were given. Errors never
// contain a tool's output. Stage handlers and package provider are the callers.
package media

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Limits of one run of a tool. A zero field takes the default.
type Limits struct {
	CPU    time.Duration // processor time, rounded up to whole seconds; DefaultCPU
	Memory int64         // address space in bytes; DefaultMemory
	File   int64         // largest file the tool may write, in bytes; DefaultFile
}

// Defaults of Limits, and what is fixed for every run.
const (
	DefaultCPU    = 30 * time.Minute
	DefaultMemory = 2 << 30
	DefaultFile   = 4 << 30

	Niceness  = 10              // steps below the process that beats and settles
	KillGrace = 2 * time.Second // from SIGTERM to SIGKILL when the context ends
	MaxStdout = 64 << 20        // bytes; a tool that prints more is stopped with ErrOutput
	MaxStderr = 1 << 20         // bytes; more is counted and dropped
)

// cpuShare is the part of the time until a deadline that tools may compute: the rest is for fetching, keeping and
// a busy machine.
const cpuShare = 0.8

// Within returns limits that so many tools reach before ctx's deadline even if they share one core, so that a
// costly input ends with ErrLimit and not with a time-out that would be tried again. Without a deadline, and
// beyond DefaultCPU, the defaults hold.
func Within(ctx context.Context, tools int) Limits {
	deadline, ok := ctx.Deadline()
	if !ok {
		return Limits{}
	}
	share := time.Duration(cpuShare * float64(time.Until(deadline)) / float64(tools))
	return Limits{CPU: min(DefaultCPU, max(time.Second, share))}
}

// Errors to match with errors.Is. Use errors.As with *ExitError for a tool that ran and failed.
var (
	ErrMissing = errors.New("tool is not installed")
	ErrLimit   = errors.New("tool exceeded its limits")
	ErrOutput  = error(badOutput{})
	ErrMachine = errors.New("tool was stopped by the machine or a person")
)

// ExitError is a tool that ran and failed. It matches ErrLimit when one of its limits ended it, and
// ErrMachine when it was killed from outside or its disk was full; either way its input may be sound.
type ExitError struct {
	Tool   string
	Code   int            // exit code; -1 when a signal ended it
	Signal syscall.Signal // 0 when it exited

	overCPU, fullDisk bool
}

// Error implements error.
func (e *ExitError) Error() string {
	if e.Signal != 0 {
		return fmt.Sprintf("%s ended by signal %d", e.Tool, int(e.Signal))
	}
	return fmt.Sprintf("%s exited with %d", e.Tool, e.Code)
}

// Reason names the end for a record (package outcome): the tool, and its exit code, its signal or what stopped it.
func (e *ExitError) Reason() string {
	switch {
	case e.limited():
		return e.Tool + "_limit"
	case e.fullDisk:
		return e.Tool + "_disk_full"
	case e.Signal != 0:
		return fmt.Sprintf("%s_signal_%d", e.Tool, int(e.Signal))
	default:
		return fmt.Sprintf("%s_exit_%d", e.Tool, e.Code)
	}
}

type badOutput struct{}

func (badOutput) Error() string  { return "tool's answer cannot be used" }
func (badOutput) Reason() string { return "tool_output" }

// missing is a tool that is not installed.
type missing struct{ tool string }

func (m missing) Error() string  { return ErrMissing.Error() + ": " + m.tool }
func (m missing) Unwrap() error  { return ErrMissing }
func (m missing) Reason() string { return m.tool + "_missing" }

// Is tells limits and the machine apart from what the tool made of its input.
func (e *ExitError) Is(target error) bool {
	switch target {
	case ErrLimit:
		return e.limited()
	case ErrMachine:
		return !e.limited() && (e.killed() || e.fullDisk)
	}
	return false
}

// limited: the kernel sends a signal at a limit, but some tools catch the one for CPU time and exit.
func (e *ExitError) limited() bool {
	return e.overCPU || e.Signal == syscall.SIGXCPU || e.Signal == syscall.SIGXFSZ
}

// crashes are the signals that a tool brings upon itself; all others are sent.
var crashes = []syscall.Signal{syscall.SIGSEGV, syscall.SIGABRT, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGILL, syscall.SIGTRAP, syscall.SIGSYS}

// signalled is what ffmpeg exits with after a signal that it caught (its source, ffmpeg.c, main).
const signalled = 255

func (e *ExitError) killed() bool {
	return e.Signal != 0 && !slices.Contains(crashes, e.Signal) || e.Tool == "ffmpeg" && e.Code == signalled
}

// GaveUp reports a tool that ended by itself over its input, by failing or by crashing: it would do so again.
// What it wrote until then may be of use.
func GaveUp(err error) bool {
	var exit *ExitError
	return errors.As(err, &exit) && !exit.limited() && !errors.Is(exit, ErrMachine)
}

// Runner starts tools. The zero value runs in the current folder with the default limits. It may be copied,
// and used from several goroutines if Record may.
type Runner struct {
	Dir    string // working folder of the tools; their outputs and the names in filters are relative to it
	Limits Limits
	// Record, if set, is told of every run that started, when it ended.
	Record func(tool string, start, end time.Time, cpu time.Duration)
}

// Output is what a run left behind, also when it failed.
type Output struct {
	Stdout      []byte
	Stderr      []byte // the first MaxStderr bytes
	StderrLines int    // all of them
	StderrCut   bool   // there was more
}

// Run runs a tool to its end. When ctx ends the tool is stopped and the error is ctx's cause.
func (r Runner) Run(ctx context.Context, tool string, args ...string) (Output, error) {
	if err := context.Cause(ctx); err != nil {
		return Output{}, fmt.Errorf("run %s: %w", tool, err)
	}
	path, err := exec.LookPath(tool)
	if err != nil {
		return Output{}, missing{tool}
	}
	prlimit, err := exec.LookPath("prlimit")
	if err != nil {
		return Output{}, missing{"prlimit"}
	}
	command := r.Limits.wrap(prlimit, path, args)
	done := make(chan ran, 1)
	go func() {
		// The parent-death signal is tied to the thread that starts the child, and niceness to the thread it is
		// set on: this goroutine keeps its thread until the child has ended, and takes the thread with it.
		runtime.LockOSThread()
		done <- r.run(ctx, tool, command)
	}()
	end := <-done
	return end.out, end.err
}

type ran struct {
	out Output
	err error
}

func (r Runner) run(ctx context.Context, tool string, command []string) ran {
	lowerPriority()
	out := capture{max: MaxStdout}
	errs := capture{max: MaxStderr}
	start := time.Now()
	cmd, err := startIsolated(func() *exec.Cmd {
		return &exec.Cmd{Path: command[0], Args: command, Dir: r.Dir, Env: environment(), Stdout: &out, Stderr: &errs}
	})
	if err != nil {
		return ran{err: fmt.Errorf("start %s: %w", tool, err)}
	}
	stop := stopWith(ctx, cmd.Process.Pid)
	awaitExit(cmd.Process.Pid)
	stop()
	// The leader is dead but not reaped, so its number cannot be another group's yet.
	killGroup(cmd.Process.Pid, syscall.SIGKILL)
	err = cmd.Wait()
	if r.Record != nil {
		r.Record(tool, start, time.Now(), cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
	}
	result := Output{Stdout: out.kept, Stderr: errs.kept, StderrLines: errs.lines, StderrCut: errs.dropped}
	switch {
	case ctx.Err() != nil && err != nil:
		return ran{result, fmt.Errorf("run %s: %w", tool, context.Cause(ctx))}
	case out.dropped:
		return ran{result, fmt.Errorf("%w: %s printed more than %d bytes", ErrOutput, tool, MaxStdout)}
	case err != nil:
		return ran{result, r.exitError(tool, cmd.ProcessState, err)}
	}
	return ran{out: result}
}

func (r Runner) exitError(tool string, state *os.ProcessState, err error) error {
	status, ok := state.Sys().(syscall.WaitStatus)
	if !ok || state.Success() {
		return fmt.Errorf("run %s: %w", tool, err) // its pipes broke
	}
	exit := &ExitError{Tool: tool, Code: status.ExitStatus()} // -1 for a signal
	if status.Signaled() {
		exit.Signal = status.Signal()
	}
	limit := orDefault(r.Limits.CPU, DefaultCPU)
	exit.fullDisk = isFull(r.Dir)
	exit.overCPU = state.UserTime()+state.SystemTime() >= limit*3/4 // the kernel limits by a coarser account than it reports
	return exit
}

// leastSpace is more than a tool buffers: a disk with less left may have failed its last write.
const leastSpace = 1 << 20

// isFull asks the disk rather than the tool: what a tool says may be a file's own words.
func isFull(dir string) bool {
	var disk unix.Statfs_t
	if dir == "" {
		dir = "."
	}
	return unix.Statfs(dir, &disk) == nil && int64(disk.Bavail)*disk.Bsize < leastSpace
}

// environment is all that tools see of ours: no credentials, one thread where a tool would take all cores.
func environment() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "HOME=/nonexistent", "OMP_THREAD_LIMIT=1", "FONTCONFIG_PATH=/etc/fonts"}
}

// Local is the name under which ffmpeg and ffprobe may be given a file: with a prefix that rules out every
// other protocol, and absolute, so that no name can be taken for an option.
func (r Runner) Local(name string) string {
	if filepath.IsAbs(name) {
		return "file:" + name
	}
	return "file:" + filepath.Join(r.Dir, name)
}

// lowerPriority nices the current thread; children inherit it. Refusal is no reason not to work.
func lowerPriority() {
	raw, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err == nil {
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, min(niceness(raw)+Niceness, lowest))
	}
}

const lowest = 19 // the priority that nothing is below

// niceness undoes the shift that keeps the system call's result positive (getpriority(2)).
func niceness(raw int) int { return 20 - raw }

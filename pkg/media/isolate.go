package media

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// noIsolation remembers that this machine does not permit network namespaces, so that it is asked once.
var noIsolation atomic.Bool

// startIsolated starts a command in a group of its own that dies with the calling thread, without network if
// the machine permits that. The caller must keep its thread until the command has ended.
func startIsolated(command func() *exec.Cmd) (*exec.Cmd, error) {
	if !noIsolation.Load() {
		cmd := command()
		cmd.SysProcAttr = withoutNetwork(base())
		err := cmd.Start()
		if err == nil || !isRefused(err) {
			return cmd, err
		}
	}
	cmd := command()
	cmd.SysProcAttr = base()
	err := cmd.Start()
	if err == nil {
		noIsolation.Store(true)
	}
	return cmd, err
}

func base() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// withoutNetwork puts the child into an empty network namespace; without privileges that takes a user
// namespace as well, in which the user stays who it is.
func withoutNetwork(attr *syscall.SysProcAttr) *syscall.SysProcAttr {
	attr.Cloneflags = syscall.CLONE_NEWNET
	if os.Geteuid() != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
	}
	return attr
}

func isRefused(err error) bool {
	for _, refusal := range []error{syscall.EPERM, syscall.EACCES, syscall.EINVAL, syscall.ENOSYS, syscall.ENOSPC, syscall.EUSERS} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}

// wrap returns the command that runs a tool under the limits: prlimit (util-linux) sets them for itself and then becomes the
// tool. Limits that are set from here on a running process come late when the machine is busy.
func (l Limits) wrap(prlimit, path string, args []string) []string {
	cpu := within(hard(unix.RLIMIT_CPU), uint64((orDefault(l.CPU, DefaultCPU)+time.Second-1)/time.Second))
	return append([]string{
		prlimit,
		fmt.Sprintf("--cpu=%d:%d", cpu, within(hard(unix.RLIMIT_CPU), cpu+1)), // SIGXCPU first, SIGKILL for a tool that ignores it
		fmt.Sprintf("--as=%d", within(hard(unix.RLIMIT_AS), uint64(orDefault(l.Memory, DefaultMemory)))),
		fmt.Sprintf("--fsize=%d", within(hard(unix.RLIMIT_FSIZE), uint64(orDefault(l.File, DefaultFile)))),
		"--core=0", "--", path,
	}, args...)
}

// hard is the limit that this process lives under and may not be able to raise.
func hard(resource int) unix.Rlimit {
	var limit unix.Rlimit
	if unix.Getrlimit(resource, &limit) != nil {
		limit.Max = unix.RLIM_INFINITY
	}
	return limit
}

// within keeps a limit below the one that stands already: asking for more would fail, and look like the tool's failure.
func within(standing unix.Rlimit, wanted uint64) uint64 { return min(wanted, standing.Max) }

func orDefault[T ~int64](v, def T) T {
	if v == 0 {
		return def
	}
	return v
}

// stopWith stops the group when ctx ends: first politely, then for certain. The returned function ends the
// watch and returns when nothing more will be sent.
func stopWith(ctx context.Context, pid int) func() {
	ended, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		select {
		case <-ended:
			return
		case <-ctx.Done():
			killGroup(pid, syscall.SIGTERM)
		}
		grace := time.NewTimer(KillGrace)
		defer grace.Stop()
		select {
		case <-ended:
		case <-grace.C:
			killGroup(pid, syscall.SIGKILL)
			<-ended
		}
	}()
	return func() { close(ended); <-gone }
}

// awaitExit returns when the process has ended, and leaves it to be reaped.
func awaitExit(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

func killGroup(pid int, signal syscall.Signal) { _ = syscall.Kill(-pid, signal) }

// capture keeps the first max bytes that are written to it and counts lines.
type capture struct {
	max     int
	kept    []byte
	lines   int
	dropped bool
}

func (c *capture) Write(p []byte) (int, error) {
	for _, b := range p {
		if b == '\n' {
			c.lines++
		}
	}
	keep := min(len(p), c.max-len(c.kept))
	c.kept = append(c.kept, p[:keep]...)
	c.dropped = c.dropped || keep < len(p)
	return len(p), nil
}

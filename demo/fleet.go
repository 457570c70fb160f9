package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stagefleet/stagefleet/pkg/api"
	"github.com/stagefleet/stagefleet/pkg/job"
)

const (
	startTime = 30 * time.Second // until every stage has a worker
	stopTime  = 60 * time.Second // a drain takes less
	pollTime  = 100 * time.Millisecond
)

// throughFleet runs a whole fleet for one recording and returns what came of it. Nothing of the fleet is left
// when it returns.
func throughFleet(ctx context.Context, f film, bin string) (result, error) {
	// Whatever a dying process of the fleet leaves behind becomes a child of this one, where it can be counted.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return result{}, fmt.Errorf("adopt orphans: %w", err)
	}
	if err := clearState(stateDir); err != nil {
		return result{}, err
	}
	addr, err := freeAddr(ctx)
	if err != nil {
		return result{}, err
	}
	before := childrenCPU()
	up, err := start(bin, addr)
	if err != nil {
		return result{}, err
	}
	r, err := submit(ctx, f, bin, addr)
	stopErr := up.stop()
	if err := errors.Join(err, stopErr); err != nil {
		return result{}, fmt.Errorf("%w (the fleet's own words are in %s)", err, up.log)
	}
	if r.orphans, err = orphans(); err != nil {
		return result{}, err
	}
	r.cpu = childrenCPU() - before
	return r, r.open()
}

// clearState removes the state of an earlier demo, but not that of one that still runs: its fleet holds the lock file.
func clearState(dir string) error {
	lock, err := os.Open(filepath.Join(dir, "lock"))
	if err == nil {
		defer lock.Close()
		if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			return fmt.Errorf("another fleet runs in %s; let it end, or stop it", dir)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look for another demo: %w", err)
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the state of the last demo: %w", err)
	}
	return nil
}

func freeAddr(ctx context.Context) (string, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// process is the running fleet.
type process struct {
	cmd *exec.Cmd
	log string
}

// start runs fleet up in a process group of its own, so that Ctrl-C reaches it through us and only once.
func start(bin, addr string) (*process, error) {
	if err := os.MkdirAll(stateDir, 0o755); err != nil {
		return nil, fmt.Errorf("make the state folder: %w", err)
	}
	p := &process{log: filepath.Join(stateDir, "up.log")}
	out, err := os.Create(p.log)
	if err != nil {
		return nil, fmt.Errorf("make the log: %w", err)
	}
	defer out.Close()
	p.cmd = exec.Command(filepath.Join(bin, "fleet"), "up", "--state", stateDir, "--addr", addr)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the fleet: %w", err)
	}
	return p, nil
}

// stop drains the fleet; one that does not end in time is killed.
func (p *process) stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop the fleet: %w", err)
	}
	late := time.AfterFunc(stopTime, func() { _ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) })
	defer late.Stop()
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("stop the fleet: %w", err)
	}
	return nil
}

// submit hands the recording in with the operator's own command, which shows the progress, and reads the
// ended job with its attempts.
func submit(ctx context.Context, f film, bin, addr string) (result, error) {
	client := api.NewClient(addr)
	defer client.Close()
	if err := ready(ctx, client); err != nil {
		return result{}, err
	}
	fmt.Println()
	var r result
	cmd, err := submission(ctx, f, bin, addr)
	if err != nil {
		return result{}, err
	}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	r.start = time.Now()
	err = cmd.Run()
	r.end = time.Now()
	if err != nil {
		return result{}, fmt.Errorf("submit the recording: %w", err)
	}
	page, err := client.Jobs(ctx, job.Filter{})
	if err != nil {
		return result{}, fmt.Errorf("list the jobs: %w", err)
	}
	if len(page.Jobs) != 1 {
		return result{}, fmt.Errorf("the fleet has %d jobs, want 1", len(page.Jobs))
	}
	if r.job, err = client.Job(ctx, page.Jobs[0].ID); err != nil {
		return result{}, fmt.Errorf("read the job: %w", err)
	}
	return r, nil
}

// submission is the command that hands the recording in. It sends no key: one in the environment or in this folder is
// another fleet's, and the demo's has none.
func submission(ctx context.Context, f film, bin, addr string) (*exec.Cmd, error) {
	command, err := filepath.Abs(filepath.Join(bin, "fleet"))
	if err != nil {
		return nil, fmt.Errorf("find the fleet command: %w", err)
	}
	cmd := exec.CommandContext(ctx, command, "submit", f.path, "--wait", "--addr", addr)
	cmd.Dir, cmd.Env = stateDir, append(os.Environ(), "FLEET_KEY=")
	return cmd, nil
}

// ready waits until every stage has a worker.
func ready(ctx context.Context, client *api.Client) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTime, fmt.Errorf("not every stage has a worker after %v", startTime))
	defer cancel()
	tick := time.NewTicker(pollTime)
	defer tick.Stop()
	for {
		if stages, err := client.Stages(ctx); err == nil && len(stages) > 0 {
			missing := 0
			for _, s := range stages {
				if s.Workers == 0 {
					missing++
				}
			}
			if missing == 0 {
				return nil
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("start the fleet: %w", context.Cause(ctx))
		}
	}
}

// orphans ends what the fleet left behind and returns how many processes that were.
func orphans() (int, error) {
	left, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, fmt.Errorf("look for processes: %w", err)
	}
	count := 0
	for _, path := range left {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue // ended meanwhile
		}
		// "pid (name) state parent ...": the name may hold anything, so the fields count from its end.
		fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil || len(fields) < 2 || fields[1] != strconv.Itoa(os.Getpid()) {
			continue
		}
		if fields[0] != "Z" {
			count++
			_ = syscall.Kill(pid, syscall.SIGKILL) // gone already is as good
		}
		_, _ = syscall.Wait4(pid, nil, 0, nil)
	}
	return count, nil
}

func readJSON(path string, v any) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read a part of the result: %w", err)
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return fmt.Errorf("read %s: %w", filepath.Base(path), err)
	}
	return nil
}

package localecs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

const (
	lifelineFD = 3               // where the worker finds the pipe from its parent
	trimEvery  = 5 * time.Second // how often the size of the log is looked at
	arnPrefix  = "arn:aws:ecs:us-east-1:000000000000:task/local/"
)

// task is one process. Fields from expires on are guarded by Cluster.mu; the rest is fixed once it runs.
type task struct {
	service  *service
	slot     *slot
	token    string
	pid      int
	started  time.Time
	command  *exec.Cmd
	lifeline *os.File // our end; never written, its closing is the message
	exited   chan error

	expires time.Time   // protected until then; zero: not protected
	expiry  *time.Timer // looks again for surplus tasks when protection runs out
}

func newTask(s *service, place *slot) *task {
	return &task{service: s, slot: place, token: rand.Text(), exited: make(chan error, 1)}
}

func (t *task) arn() string { return arnPrefix + t.token }

// start launches the binary in a process group of its own, so that a Ctrl-C on the terminal reaches the supervisor alone.
// Output goes straight to a file: through a pipe, the death of the supervisor would kill a draining worker by SIGPIPE.
func (t *task) start(binary string, env []string, output *os.File) error {
	theirs, ours, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("open the lifeline of %s: %w", t.slot.name, err)
	}
	defer func() { _ = theirs.Close() }()
	t.command = exec.Command(binary)
	t.command.Env = env
	t.command.Stdout, t.command.Stderr = output, output
	t.command.ExtraFiles = []*os.File{theirs}
	t.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := t.command.Start(); err != nil {
		_ = ours.Close()
		return fmt.Errorf("start %s: %w", t.slot.name, err)
	}
	t.lifeline, t.pid, t.started = ours, t.command.Process.Pid, time.Now()
	go func() { t.exited <- t.command.Wait() }() // ends with the process, which wait below outlives
	return nil
}

// errOverdue is how a process ended that had to be killed at its stop timeout.
var errOverdue = errors.New("did not stop in time and was killed")

// wait returns when the process is gone. The end of ctx stops it; tick is called now and then while it lives.
func (t *task) wait(ctx context.Context, stopTimeout time.Duration, tick func()) error {
	defer func() { _ = t.lifeline.Close() }()
	ticker := time.NewTicker(trimEvery)
	defer ticker.Stop()
	stop := ctx.Done()
	var tooLong <-chan time.Time
	var overdue error
	for {
		select {
		case err := <-t.exited:
			return errors.Join(overdue, err)
		case <-ticker.C:
			tick()
		case <-stop:
			stop = nil
			_ = t.command.Process.Signal(syscall.SIGTERM) // an error means that it is gone, which the next turn sees
			tooLong = time.After(stopTimeout)
		case <-tooLong:
			overdue = errOverdue
			t.kill()
		}
	}
}

func (t *task) kill() { _ = t.command.Process.Kill() }

// protected tells whether scale-in must leave the task alone.
func (t *task) protected(now time.Time) bool { return now.Before(t.expires) }

// protect sets or ends protection; expired is called when it runs out.
func (t *task) protect(until time.Time, now time.Time, expired func()) {
	t.forget()
	t.expires = until
	if !until.IsZero() {
		t.expiry = time.AfterFunc(until.Sub(now), expired)
	}
}

func (t *task) forget() {
	if t.expiry != nil {
		t.expiry.Stop()
	}
	t.expires, t.expiry = time.Time{}, nil
}

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/admin"
	"github.com/stagefleet/stagefleet/pkg/api"
	"github.com/stagefleet/stagefleet/pkg/job"
)

const (
	startLimit = 30 * time.Second
	stopLimit  = 60 * time.Second // beyond the workers' stop timeout
	jobLimit   = 4 * time.Minute
)

// fleet is one `fleet up`.
type fleet struct {
	*api.Client
	t       *testing.T
	addr    string
	state   string
	process *exec.Cmd
	out     *output
	exited  chan struct{} // closed when the process is gone
	err     error         // of the process; read after exited
}

// output collects what a process prints.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// up starts a fleet on the state directory and waits until its API answers. The test stops it at its end, if it has not.
func up(t *testing.T, state string, args ...string) *fleet {
	t.Helper()
	return upWith(t, nil, state, args...)
}

// upWith adds settings, NAME=value, to the fleet's environment.
func upWith(t *testing.T, settings []string, state string, args ...string) *fleet {
	t.Helper()
	f := &fleet{t: t, state: state, out: &output{}, exited: make(chan struct{})}
	f.process = exec.Command(filepath.Join(bin, "fleet"), append([]string{"up", "--state", state, "--addr", "127.0.0.1:0"}, args...)...)
	f.process.Env = append(os.Environ(), settings...)
	f.process.Stdout, f.process.Stderr = f.out, f.out
	// Work of the tests must not outlive them, whatever happens to this process.
	f.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := f.process.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		f.err = f.process.Wait()
		close(f.exited)
	}()
	t.Cleanup(f.stop)
	eventually(t, startLimit, "the API answers", func() bool {
		select {
		case <-f.exited:
			t.Fatalf("fleet up ended: %v\n%s", f.err, f.out)
		default:
		}
		match := regexp.MustCompile(`API +http://(\S+)`).FindStringSubmatch(f.out.String())
		if match != nil {
			f.addr = match[1]
		}
		return match != nil
	})
	f.Client = api.NewClient(f.addr)
	t.Cleanup(f.Close)
	return f
}

// stop drains the fleet and checks that it leaves nothing. A stopped fleet stays stopped.
func (f *fleet) stop() {
	f.t.Helper()
	select {
	case <-f.exited:
		return
	default:
	}
	children := f.descendants()
	_ = f.process.Process.Signal(syscall.SIGTERM)
	select {
	case <-f.exited:
	case <-time.After(stopLimit):
		_ = f.process.Process.Kill()
		f.t.Errorf("fleet up was not done %v after SIGTERM\n%s", stopLimit, f.out)
		return
	}
	if f.err != nil {
		f.t.Errorf("fleet up ended with %v\n%s", f.err, f.out)
	}
	f.noneOf(children)
	if f.t.Failed() {
		f.t.Logf("fleet up said:\n%s", f.out)
		f.logs()
	}
}

// logs shows the ends of the fleet's logs.
func (f *fleet) logs() {
	files, _ := filepath.Glob(filepath.Join(f.state, "logs", "*.log"))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		f.t.Logf("%s:\n%s", filepath.Base(file), text[max(0, len(text)-3000):])
	}
}

// noneOf checks that the processes are gone.
func (f *fleet) noneOf(pids []process) {
	f.t.Helper()
	eventually(f.t, 5*time.Second, "no process of the fleet is left", func() bool {
		return !slices.ContainsFunc(pids, process.alive)
	})
}

// process is one that is told apart from later ones of its number by when it started.
type process struct {
	pid, parent int
	started     string
	command     string
}

func (p process) alive() bool {
	now, ok := look(p.pid)
	return ok && now.started == p.started
}

// look reads one process from /proc. Zombies do not count.
func look(pid int) (process, bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, false
	}
	end := bytes.LastIndexByte(stat, ')')
	fields := strings.Fields(string(stat[end+1:]))
	if len(fields) < 20 || fields[0] == "Z" {
		return process{}, false
	}
	parent, _ := strconv.Atoi(fields[1])
	command, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	return process{pid: pid, parent: parent, started: fields[19], command: filepath.Base(command)}, true
}

// descendants lists the fleet's workers and the tools under them.
func (f *fleet) descendants() []process {
	entries, _ := os.ReadDir("/proc")
	var all []process
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil {
			if p, ok := look(pid); ok {
				all = append(all, p)
			}
		}
	}
	family := map[int]bool{f.process.Process.Pid: true}
	var found []process
	for grown := true; grown; {
		grown = false
		for _, p := range all {
			if family[p.parent] && !family[p.pid] {
				family[p.pid] = true
				found = append(found, p)
				grown = true
			}
		}
	}
	return found
}

// worker returns the process that runs a stage, if it runs.
func (f *fleet) worker(stage string) (process, bool) {
	for _, p := range f.descendants() {
		if p.command == stage && p.parent == f.process.Process.Pid {
			return p, true
		}
	}
	return process{}, false
}

// command runs one client command against the fleet.
func (f *fleet) command(args ...string) (stdout string, code int) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), jobLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "fleet"), append(args, "--addr", f.addr)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		f.t.Fatalf("fleet %v: %v", args, err)
	}
	if errs.Len() > 0 {
		f.t.Logf("fleet %s: %s", args[0], strings.TrimSpace(errs.String()))
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

// submit hands a file in by the command and returns its job.
func (f *fleet) submit(file string, args ...string) job.Job {
	f.t.Helper()
	stdout, code := f.command(append([]string{"submit", file, "--json"}, args...)...)
	var j job.Job
	if err := json.Unmarshal([]byte(stdout), &j); err != nil || code != 0 {
		f.t.Fatalf("submit = %d %q", code, stdout)
	}
	return j
}

// ended waits for a job's end.
func (f *fleet) ended(id string) job.Job {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), jobLimit)
	defer cancel()
	j, err := f.Watch(ctx, id, func(job.Job) {})
	if err != nil {
		f.t.Fatalf("job %s has not ended: %v\n%s", id, err, describe(j))
	}
	return j
}

// reaches waits until the job is in the given condition.
func (f *fleet) reaches(id, what string, holds func(job.Job) bool) job.Job {
	f.t.Helper()
	var j job.Job
	eventually(f.t, jobLimit, what, func() bool {
		var err error
		if j, err = f.Job(f.t.Context(), id); err != nil {
			f.t.Fatal(err)
		}
		if j.State.Ended() && !holds(j) {
			f.t.Fatalf("the job ended before %s:\n%s", what, describe(j))
		}
		return holds(j)
	})
	return j
}

// deadLetters fails the test when a dead-letter queue goes on holding a message. Queues put one there when the worker of a
// step was killed more than once; the sweeper takes it out at its next look.
func (f *fleet) deadLetters() {
	f.t.Helper()
	eventually(f.t, 10*time.Second, "the dead-letter queues are empty", func() bool {
		stdout, _ := f.command("stages", "--json")
		var stages []admin.Stage
		if err := json.Unmarshal([]byte(stdout), &stages); err != nil || len(stages) != 7 {
			f.t.Fatalf("stages: %v\n%s", err, stdout)
		}
		return !slices.ContainsFunc(stages, func(s admin.Stage) bool { return s.DLQ != 0 })
	})
}

// running tells whether a stage of the job is being executed.
func running(stage string) func(job.Job) bool {
	return func(j job.Job) bool {
		return slices.ContainsFunc(j.Steps, func(s job.Step) bool { return s.Stage == stage && s.State == job.Running })
	}
}

// describe shows a job for a failed test's log.
func describe(j job.Job) string {
	text, _ := json.MarshalIndent(j, "", " ")
	return string(text)
}

// eventually waits for a condition that other processes bring about.
func eventually(t *testing.T, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(limit)
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("after %v still not: %s", limit, what)
		}
	}
}

package localecs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The test binary plays the worker: the variable tells it which one.
const roleVar = "LOCALECS_TEST_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVar); role != "" {
		play(role)
	}
	goleak.VerifyTestMain(m)
}

// play never returns. Each role ends by itself when its parent is gone, so that a failed test leaves nothing behind.
func play(role string) {
	parentGone := make(chan struct{})
	go func() {
		fd, _ := strconv.Atoi(os.Getenv("FLEET_PARENT_FD"))
		_, _ = io.Copy(io.Discard, os.NewFile(uintptr(fd), "lifeline"))
		close(parentGone)
	}()
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	switch role {
	case "worker":
		fmt.Println("up")
		select {
		case <-terminated:
			fmt.Println("drained by signal")
		case <-parentGone:
			fmt.Println("drained by parent's death")
		}
	case "stubborn":
		fmt.Println("up")
		<-parentGone
	case "broken":
		fmt.Println("cannot find its settings")
		os.Exit(3)
	case "environment":
		fmt.Println(strings.Join(os.Environ(), "\n"))
		<-terminated
	case "supervisor":
		supervise()
	}
	os.Exit(0)
}

// supervise runs a cluster of one until it is killed.
func supervise() {
	c, err := New(Config{Services: []Service{service1("worker", 1)}, LogDir: os.Getenv("LOG_DIR"), TempDir: os.Getenv("LOG_DIR")})
	if err != nil {
		panic(err)
	}
	_ = c.Run(context.Background())
}

func service1(role string, count int) Service {
	return Service{Name: "clip", Binary: os.Args[0], Env: []string{roleVar + "=" + role}, Count: count, StopTimeout: 5 * time.Second}
}

type bundle struct {
	*Cluster
	dir  string
	stop func() error // asks for the end and waits for it

	mu     sync.Mutex
	deaths []Death
}

func setup(t *testing.T, services ...Service) *bundle {
	t.Helper()
	b := &bundle{dir: t.TempDir()}
	c, err := New(Config{Services: services, LogDir: b.dir, TempDir: t.TempDir(), Died: func(d Death) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.deaths = append(b.deaths, d)
	}})
	if err != nil {
		t.Fatal(err)
	}
	b.Cluster = c
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	b.stop = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() { _ = b.stop() })
	return b
}

func (b *bundle) seenDeaths() []Death {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.deaths)
}

func (b *bundle) log(t *testing.T, task string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(b.dir, task+".log"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(text)
}

// eventually waits for a condition that other processes bring about.
func eventually(t *testing.T, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
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

func (b *bundle) waitForTasks(t *testing.T, n int) []Task {
	t.Helper()
	eventually(t, 10*time.Second, fmt.Sprintf("%d tasks run and have spoken", n), func() bool {
		tasks := b.Tasks()
		return len(tasks) == n && !slices.ContainsFunc(tasks, func(task Task) bool { return b.log(t, task.Name) == "" })
	})
	tasks := b.Tasks()
	slices.SortFunc(tasks, func(x, y Task) int { return strings.Compare(x.Name, y.Name) })
	return tasks
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

func TestAKilledWorkerIsReplacedWithinTwoSecondsTwice(t *testing.T) {
	b := setup(t, service1("worker", 1))
	for range 2 {
		old := b.waitForTasks(t, 1)[0]
		killed := time.Now()
		if err := syscall.Kill(old.PID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		eventually(t, 2*time.Second, "another process runs", func() bool {
			tasks := b.Tasks()
			return len(tasks) == 1 && tasks[0].PID != old.PID
		})
		t.Logf("replaced after %v", time.Since(killed))
	}
	deaths := b.seenDeaths()
	if len(deaths) != 2 || deaths[0].Task != "clip-1" || deaths[1].InARow != 2 || deaths[0].Restart != firstWait || deaths[1].Restart != 2*firstWait {
		t.Fatalf("deaths = %+v", deaths)
	}
}

func TestAWorkerThatKeepsDyingIsReportedWithItsLastLines(t *testing.T) {
	b := setup(t, service1("broken", 1))
	eventually(t, 5*time.Second, "two deaths", func() bool { return len(b.seenDeaths()) >= 2 })
	second := b.seenDeaths()[1]
	if !slices.Equal(second.Tail, []string{"cannot find its settings"}) {
		t.Errorf("tail = %q, want this life's line only", second.Tail)
	}
	var exit *exec.ExitError
	if !errors.As(second.Cause, &exit) || exit.ExitCode() != 3 {
		t.Errorf("cause = %v, want exit status 3", second.Cause)
	}
}

func TestRestartsSlowDownToHalfAMinute(t *testing.T) {
	for deaths, want := range map[int]time.Duration{1: 500 * time.Millisecond, 2: time.Second, 3: 2 * time.Second, 6: 16 * time.Second, 7: 30 * time.Second, 1000: 30 * time.Second} {
		if got := restartWait(deaths); got != want {
			t.Errorf("wait after death %d = %v, want %v", deaths, got, want)
		}
	}
}

func TestStopDrainsWorkersBySignalAndLeavesNone(t *testing.T) {
	b := setup(t, service1("worker", 3))
	tasks := b.waitForTasks(t, 3)
	if err := b.stop(); err != nil {
		t.Errorf("Run: %v", err)
	}
	for _, task := range tasks {
		if alive(task.PID) {
			t.Errorf("%s still runs", task.Name)
		}
		if log := b.log(t, task.Name); !strings.Contains(log, "drained by signal") {
			t.Errorf("%s wrote %q", task.Name, log)
		}
	}
	if deaths := b.seenDeaths(); len(deaths) != 0 {
		t.Errorf("a stop was reported as %d deaths", len(deaths))
	}
}

func TestAWorkerThatIgnoresTheStopIsKilledAtItsTimeout(t *testing.T) {
	s := service1("stubborn", 1)
	s.StopTimeout = 300 * time.Millisecond
	b := setup(t, s)
	task := b.waitForTasks(t, 1)[0]
	asked := time.Now()
	if err := b.stop(); !errors.Is(err, errOverdue) || !strings.Contains(err.Error(), "clip-1") {
		t.Errorf("Run: %v, want it to name the task", err)
	}
	if took := time.Since(asked); took < s.StopTimeout || took > 10*s.StopTimeout {
		t.Errorf("stopped after %v, want shortly after %v", took, s.StopTimeout)
	}
	if alive(task.PID) {
		t.Error("the worker still runs")
	}
}

func TestKillEndsWorkersThatDrain(t *testing.T) {
	b := setup(t, service1("stubborn", 2))
	b.waitForTasks(t, 2)
	asked := time.Now()
	go func() { _ = b.stop() }()
	eventually(t, time.Second, "no task runs", func() bool { b.Kill(); return len(b.Tasks()) == 0 })
	if err := b.stop(); err != nil {
		t.Errorf("Run: %v", err)
	}
	if took := time.Since(asked); took > 2*time.Second {
		t.Errorf("took %v in spite of the kill", took)
	}
}

func TestWorkersDrainWhenTheSupervisorIsKilled(t *testing.T) {
	dir := t.TempDir()
	supervisor := exec.Command(os.Args[0])
	supervisor.Env = []string{roleVar + "=supervisor", "LOG_DIR=" + dir}
	if err := supervisor.Start(); err != nil {
		t.Fatal(err)
	}
	log := func() string { text, _ := os.ReadFile(filepath.Join(dir, "clip-1.log")); return string(text) }
	eventually(t, 10*time.Second, "the worker is up", func() bool { return log() != "" })
	if err := supervisor.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = supervisor.Wait()
	eventually(t, 5*time.Second, "the worker drained", func() bool { return strings.Contains(log(), "drained by parent's death") })
}

func TestAWorkerGetsExactlyTheEnvironmentOfItsTask(t *testing.T) {
	t.Setenv("FLEET_STRAY", "of the parent")
	b := setup(t, service1("environment", 1))
	b.waitForTasks(t, 1)
	var names []string
	lines := bufio.NewScanner(strings.NewReader(b.log(t, "clip-1")))
	for lines.Scan() {
		name, _, _ := strings.Cut(lines.Text(), "=")
		names = append(names, name)
	}
	slices.Sort(names)
	want := []string{"ECS_AGENT_URI", "ECS_CONTAINER_METADATA_URI_V4", "FLEET_PARENT_FD", roleVar, "TMPDIR"}
	if !slices.Equal(names, want) {
		t.Errorf("environment = %v, want %v", names, want)
	}
}

func TestTemporaryFilesGoWithTheProcess(t *testing.T) {
	b := setup(t, service1("environment", 1))
	victim := b.waitForTasks(t, 1)[0]
	_, after, _ := strings.Cut(b.log(t, "clip-1"), "TMPDIR=")
	temp, _, _ := strings.Cut(after, "\n")
	if err := os.WriteFile(filepath.Join(temp, "half a clip"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(victim.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, 5*time.Second, "the folder is gone", func() bool { _, err := os.Stat(temp); return errors.Is(err, os.ErrNotExist) })
}

func TestScaleInStopsTheNewestUnprotectedTasks(t *testing.T) {
	b := setup(t, service1("worker", 3))
	tasks := b.waitForTasks(t, 3)
	b.put(t, "clip-3", `{"ProtectionEnabled":true}`)
	if err := b.Scale("clip", 1); err != nil {
		t.Fatal(err)
	}
	left := b.waitForTasks(t, 1)
	if left[0].Name != "clip-3" || left[0].PID != tasks[2].PID {
		t.Fatalf("left = %+v, want the protected clip-3", left)
	}
	if err := b.Scale("clip", 0); err != nil {
		t.Fatal(err)
	}
	if got := b.waitForTasks(t, 1); got[0].PID != tasks[2].PID {
		t.Fatalf("the protected task was stopped: %+v", got)
	}
	b.put(t, "clip-3", `{"ProtectionEnabled":false}`)
	b.waitForTasks(t, 0)
	if err := b.Scale("clip", 2); err != nil {
		t.Fatal(err)
	}
	b.waitForTasks(t, 2)
}

// put speaks to the agent as the named task does.
func (b *bundle) put(t *testing.T, name, body string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.Cluster.mu.Lock()
	url := ""
	for token, task := range b.tasks {
		if task.slot.name == name {
			url = b.agent + "/api/" + token + "/task-protection/v1/state"
		}
	}
	b.Cluster.mu.Unlock()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if text, _ := io.ReadAll(response.Body); response.StatusCode != http.StatusOK || strings.Contains(string(text), "failure") {
		t.Fatalf("PUT %s = %d %s", body, response.StatusCode, text)
	}
}

func TestServicesThatCannotWorkAreRefused(t *testing.T) {
	good := service1("worker", 1)
	for name, change := range map[string]func(*Service){
		"name":         func(s *Service) { s.Name = "" },
		"count":        func(s *Service) { s.Count = MaxCount + 1 },
		"stop timeout": func(s *Service) { s.StopTimeout = 0 },
		"binary":       func(s *Service) { s.Binary = "/nowhere/clip" },
	} {
		bad := good
		change(&bad)
		if _, err := New(Config{Services: []Service{bad}}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("error for a bad %s = %v", name, err)
		}
	}
	if _, err := New(Config{Services: []Service{good, good}}); err == nil {
		t.Error("two services of one name were accepted")
	}
}

func TestALogIsMovedAsideAtItsLimit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "clip-1.log")
	if err := os.WriteFile(path, make([]byte, logLimit-1), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := openLog(path)
	if err != nil {
		t.Fatal(err)
	}
	defer log.close()
	log.trim()
	if _, err := os.Stat(path + ".1"); err == nil {
		t.Fatal("moved below the limit")
	}
	_, _ = log.file.WriteString("x")
	log.trim()
	_, _ = log.file.WriteString("after\n")
	if text, _ := os.ReadFile(path); string(text) != "after\n" {
		t.Errorf("log = %d bytes, want the new line only", len(text))
	}
	if old, err := os.Stat(path + ".1"); err != nil || old.Size() != logLimit {
		t.Errorf("old log: %v %v", old, err)
	}
	if tail := log.tail(); !slices.Equal(tail, []string{"after"}) {
		t.Errorf("tail = %q", tail)
	}
}

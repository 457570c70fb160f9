package fleet

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stagefleet/stagefleet/pkg/api"
	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/localsqs"
	"github.com/stagefleet/stagefleet/pkg/stage"
)

// The test binary plays the workers: links to it stand in the folder of binaries.
const roleVar = "FLEET_LOG_LEVEL" // a variable that a local fleet passes on

func TestMain(m *testing.M) {
	switch os.Getenv(roleVar) {
	case "idle":
		terminated := make(chan os.Signal, 1)
		signal.Notify(terminated, syscall.SIGTERM)
		<-terminated
		os.Exit(0)
	case "stubborn":
		terminated := make(chan os.Signal, 1)
		signal.Notify(terminated, syscall.SIGTERM)
		_, _ = os.Stderr.WriteString("ready\n")
		<-terminated
		_, _ = os.Stderr.WriteString("not yet\n")
		select {}
	case "broken":
		_, _ = os.Stderr.WriteString("cannot work\n")
		os.Exit(3)
	}
	goleak.VerifyTestMain(m)
}

var pipeline = stage.Pipeline{
	{Name: "ingest", Summary: "probe", Next: "clip", Profile: stage.Profile{MaxTasks: 4}},
	{Name: "clip", Summary: "cut", Queue: stage.Standard},
}

// screen is what the person sees.
type screen struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// running is a local fleet of links to this test.
type running struct {
	addr, state string
	screen      *screen
	stop        func() error
}

func local(t *testing.T, state, role string) Local {
	t.Helper()
	binaries := t.TempDir()
	for _, s := range pipeline {
		if err := os.Symlink(os.Args[0], filepath.Join(binaries, s.Name)); err != nil {
			t.Fatal(err)
		}
	}
	return Local{
		Pipeline: pipeline.Scaled(stage.LocalScale), State: state, Addr: "127.0.0.1:0", Tasks: map[string]int{"ingest": 2, "clip": 1},
		Binaries: binaries, Environ: []string{roleVar + "=" + role}, Out: &screen{}, Kill: make(chan struct{}),
	}
}

func run(t *testing.T, l Local) *running {
	t.Helper()
	r := &running{state: l.State, screen: l.Out.(*screen)}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	r.stop = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() { _ = r.stop() })
	eventually(t, "the API answers", func() bool {
		_, after, found := strings.Cut(r.screen.String(), "API      http://")
		r.addr, _, _ = strings.Cut(after, "\n")
		return found && strings.Contains(after, "\n")
	})
	return r
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(20 * time.Second)
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not in time: %s", what)
		}
	}
}

func TestAStoppedFleetKeepsItsRecordQueuesAndObjectsUnderAnyName(t *testing.T) {
	state := filepath.Join(t.TempDir(), `a b%20?c#d&é"`)
	first := run(t, local(t, state, "idle"))
	client := api.NewClient(first.addr)
	defer client.Close()
	j, err := client.Submit(t.Context(), api.Request{Name: "talk.mp4"}, strings.NewReader("bytes"))
	if err != nil {
		t.Fatal(err)
	}
	if err := first.stop(); err != nil {
		t.Fatalf("stop: %v", err)
	}
	if uploads, _ := filepath.Glob(filepath.Join(glob(state), "objects", "uploads", "local", "*", "source")); len(uploads) != 1 {
		t.Errorf("uploads: %v", uploads)
	}
	if _, err := os.Stat(filepath.Join(state, "tmp")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("temporary files are left: %v", err)
	}

	second := run(t, local(t, state, "idle"))
	again := api.NewClient(second.addr)
	defer again.Close()
	if kept, err := again.Job(t.Context(), j.ID); err != nil || kept.State != job.Queued {
		t.Errorf("job = %+v, %v", kept, err)
	}
	stages, err := again.Stages(t.Context())
	if err != nil || stages[0].Visible != 1 || stages[0].OldestAgeSeconds <= 0 {
		t.Errorf("stages = %+v, %v", stages, err)
	}
}

// glob quotes a folder for filepath.Glob.
func glob(dir string) string {
	return strings.NewReplacer("?", `\?`, "*", `\*`, "[", `\[`).Replace(dir)
}

func TestAFleetWhoseQueuesWereThrownAwaySendsUnfinishedWorkAgain(t *testing.T) {
	state := t.TempDir()
	first := run(t, local(t, state, "idle"))
	client := api.NewClient(first.addr)
	defer client.Close()
	if _, err := client.Submit(t.Context(), api.Request{Name: "talk.mp4"}, strings.NewReader("bytes")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(first.stop(), os.RemoveAll(filepath.Join(state, "queues"))); err != nil {
		t.Fatal(err)
	}
	second := run(t, local(t, state, "idle"))
	again := api.NewClient(second.addr)
	defer again.Close()
	eventually(t, "the step has a message again", func() bool {
		stages, err := again.Stages(t.Context())
		return err == nil && stages[0].Visible == 1
	})
}

func TestDamagedQueuesAreNamedWithTheWayOut(t *testing.T) {
	state := t.TempDir()
	if err := run(t, local(t, state, "idle")).stop(); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(state, "queues", "*"))
	for _, file := range files {
		if filepath.Base(file) != "lock" {
			if err := os.WriteFile(file, []byte(strings.Repeat("damage", 100)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	err := local(t, state, "idle").Run(t.Context())
	if _, damaged := errors.AsType[*localsqs.DamageError](err); !damaged || !strings.Contains(err.Error(), filepath.Join(state, "queues")) {
		t.Errorf("error = %v", err)
	}
}

func TestTwoFleetsNeverShareAStateDirectory(t *testing.T) {
	state := t.TempDir()
	first := run(t, local(t, state, "idle"))
	err := local(t, state, "idle").Run(t.Context())
	if !errors.Is(err, ErrInUse) || strings.Contains(err.Error(), "\n") {
		t.Errorf("second: %v", err)
	}
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	if err := run(t, local(t, state, "idle")).stop(); err != nil {
		t.Errorf("after the first is gone: %v", err)
	}
}

func TestWorkersThatKeepDyingAreShownWithTheirLastWords(t *testing.T) {
	r := run(t, local(t, t.TempDir(), "broken"))
	eventually(t, "the second death is told", func() bool { return strings.Contains(r.screen.String(), "2 deaths in a row") })
	if text := r.screen.String(); !strings.Contains(text, "    cannot work\n") || !strings.Contains(text, "(exit status 3); it starts again in 1s") {
		t.Errorf("screen:\n%s", text)
	}
	if err := r.stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
}

func TestAnAddressThatCannotBeHadStopsEverything(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for addr, want := range map[string]string{taken.Addr().String(): "--addr", "0.0.0.0:0": "loopback", "nonsense": "host:port"} {
		l := local(t, t.TempDir(), "idle")
		l.Addr = addr
		if err := l.Run(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want it to say %s", addr, err, want)
		}
	}
}

func TestAFleetThatWasNotLetDrainFails(t *testing.T) {
	kill := make(chan struct{})
	l := local(t, t.TempDir(), "stubborn")
	l.Kill = kill
	r := run(t, l)
	said := func(words string) func() bool {
		return func() bool {
			text, _ := os.ReadFile(filepath.Join(l.State, "logs", "clip-1.log"))
			return strings.Contains(string(text), words)
		}
	}
	eventually(t, "a worker runs", said("ready"))
	ended := make(chan error, 1)
	go func() { ended <- r.stop() }()
	eventually(t, "the worker is told to stop", said("not yet"))
	close(kill)
	if err := <-ended; !errors.Is(err, ErrKilled) {
		t.Errorf("error = %v", err)
	}
}

func TestOnlyProgramsOfThisMachineReachTheQueues(t *testing.T) {
	r := run(t, local(t, t.TempDir(), "idle"))
	_, after, _ := strings.Cut(r.screen.String(), "queues   ")
	endpoint, _, _ := strings.Cut(after, " ")
	for name, c := range map[string]struct {
		host, origin string
		refused      bool
	}{
		"a program":               {"", "", false},
		"a name that leads here":  {"evil.example", "", true},
		"a page of another place": {"", "https://evil.example", true},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, endpoint, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("X-Amz-Target", "AmazonSQS.ListQueues")
		request.Header.Set("Content-Type", "application/x-amz-json-1.0")
		request.Host = c.host
		if c.origin != "" {
			request.Header.Set("Origin", c.origin)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if refused := response.Header.Get("Content-Type") == "application/problem+json" && response.StatusCode == http.StatusForbidden; refused != c.refused {
			t.Errorf("%s: %s", name, response.Status)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestAStartRemovesWhatAKilledUploadHasLeft(t *testing.T) {
	state := t.TempDir()
	left := filepath.Join(state, "objects", ".tmp", "object-1")
	old := time.Now().Add(-unfinishedAge - time.Minute)
	if err := errors.Join(os.MkdirAll(filepath.Dir(left), 0o700), os.WriteFile(left, []byte("half"), 0o600), os.Chtimes(left, old, old)); err != nil {
		t.Fatal(err)
	}
	run(t, local(t, state, "idle"))
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
}

func TestMissingWorkersAreNamed(t *testing.T) {
	l := local(t, t.TempDir(), "idle")
	l.Binaries = t.TempDir()
	if err := l.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "service ingest") {
		t.Errorf("error = %v", err)
	}
}

func TestCountsOfTasksAreCheckedAgainstTheManifest(t *testing.T) {
	for text, want := range map[string]map[string]int{
		"":                 {"ingest": 1, "clip": 1},
		"ingest=4":         {"ingest": 4, "clip": 1},
		"clip=0, ingest=2": {"ingest": 2, "clip": 0},
	} {
		got, err := ParseTasks(text, pipeline)
		if err != nil || len(got) != 2 || got["ingest"] != want["ingest"] || got["clip"] != want["clip"] {
			t.Errorf("%q = %v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{"ingest=5": "0 to 4", "ingest=-1": "0 to 4", "ingest": "0 to 4", "ingest=two": "0 to 4", "none=1": `no stage "none"`, ",": `no stage ""`} {
		if _, err := ParseTasks(text, pipeline); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want it to say %s", text, err, want)
		}
	}
}

func TestWorkersInheritNothingOfAnotherFleetOrACloud(t *testing.T) {
	got := inherited([]string{"PATH=/bin", "HOME=/root", "FLEET_ADDR=x", "FLEET_DATABASE_URL=x", "AWS_PROFILE=x", "ECS_AGENT_URI=x", "TMPDIR=/x",
		"FLEET_LOG_LEVEL=debug", "FLEET_SPEECH_URL=http://speech"})
	if want := []string{"PATH=/bin", "HOME=/root", "FLEET_LOG_LEVEL=debug", "FLEET_SPEECH_URL=http://speech"}; !slices.Equal(got, want) {
		t.Errorf("inherited = %v, want %v", got, want)
	}
}

func TestTheServersLogMovesAsideAtItsLimit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fleet.log")
	if err := os.WriteFile(path, make([]byte, logLimit-3), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := openLog(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.close() }()
	for _, line := range []string{"in\n", "over\n"} {
		if _, err := io.WriteString(l, line); err != nil {
			t.Fatal(err)
		}
	}
	if text, _ := os.ReadFile(path); string(text) != "over\n" {
		t.Errorf("log = %d bytes", len(text))
	}
	if old, _ := os.Stat(path + ".1"); old == nil || old.Size() != logLimit {
		t.Errorf("old log = %v", old)
	}
}

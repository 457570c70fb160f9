package worker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/stagefleet/stagefleet/pkg/admin"
	"github.com/stagefleet/stagefleet/pkg/internal/outbound"
	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/localsqs"
	"github.com/stagefleet/stagefleet/pkg/localsqs/sqsclient"
	"github.com/stagefleet/stagefleet/pkg/stage"
	"github.com/stagefleet/stagefleet/pkg/worker"
)

// asWorker makes this test binary a worker process.
const asWorker = "STAGEFLEET_TEST_WORKER"

func TestMain(m *testing.M) {
	if os.Getenv(asWorker) != "" {
		worker.Main("cut", func(worker.Deps) (worker.Handler[string, string], error) {
			return worker.Func[string, string](obey), nil
		})
	}
	os.Exit(m.Run())
}

// obey does what its input says.
func obey(ctx context.Context, t worker.Task[string]) (string, error) {
	what, folder, _ := strings.Cut(t.Input, " ")
	if err := os.WriteFile(filepath.Join(folder, t.Job+fmt.Sprint(t.Attempt)), nil, 0o600); err != nil {
		return "", err
	}
	switch what {
	case "wait":
		<-ctx.Done()
		return "", context.Cause(ctx)
	case "once": // hangs for ever in its first execution
		if matches, _ := filepath.Glob(filepath.Join(folder, "hung")); len(matches) == 0 {
			if err := os.WriteFile(filepath.Join(folder, "hung"), nil, 0o600); err != nil {
				return "", err
			}
			select {}
		}
	}
	return "done", nil
}

// scene is a queue server, a record and the environment of a worker process.
type scene struct {
	t      *testing.T
	stages stage.Pipeline
	record *job.Store
	queue  *sqs.Client
	env    []string
	folder string // where the handler notes that it has started
}

func newScene(t *testing.T) *scene {
	t.Helper()
	t.Parallel()
	if testing.Short() {
		t.Skip("starts processes")
	}
	server := localsqs.New(localsqs.Options{})
	front := httptest.NewServer(server)
	t.Cleanup(func() { _ = server.Close(); front.Close() })
	folder := t.TempDir()
	database := "sqlite:" + filepath.Join(folder, "fleet.db")
	record, err := job.Open(t.Context(), database, job.Options{Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{t: t, record: record, queue: sqsclient.New(server), folder: folder, stages: stage.Pipeline{{
		Name: "cut", Summary: "s", Queue: stage.Standard,
		Durations: stage.Durations{Visibility: 4 * time.Second, Beat: time.Second, Poll: time.Second, Drain: 2 * time.Second, Grace: time.Second, Settle: 2 * time.Second},
	}}}
	if err := admin.CreateQueues(t.Context(), s.queue, s.stages, "test"); err != nil {
		t.Fatal(err)
	}
	settings, err := s.stages.Settings("test", "cut")
	if err != nil {
		t.Fatal(err)
	}
	vars, err := settings.Env()
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range vars {
		s.env = append(s.env, v.String())
	}
	s.env = append(s.env, asWorker+"=1", "PATH="+os.Getenv("PATH"), "TMPDIR="+folder,
		worker.EnvDatabase+"="+database, worker.EnvBlob+"=file://"+filepath.Join(folder, "objects"),
		"AWS_ENDPOINT_URL_SQS="+front.URL, "AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=x", "AWS_SECRET_ACCESS_KEY=x", "AWS_EC2_METADATA_DISABLED=true")
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var relay sync.WaitGroup
	relay.Go(func() { _ = record.Relay(ctx, outbound.New(s.queue)) })
	t.Cleanup(func() {
		cancel()
		relay.Wait()
		if err := record.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// process is a worker process of a scene.
type process struct {
	*exec.Cmd
	t      *testing.T
	parent *os.File // closing it is the parent's death
	output *output
	exited chan struct{}
}

func (s *scene) start(env ...string) *process {
	s.t.Helper()
	theirs, ours, err := os.Pipe()
	if err != nil {
		s.t.Fatal(err)
	}
	defer theirs.Close()
	p := &process{Cmd: exec.Command(os.Args[0]), t: s.t, parent: ours, output: &output{}, exited: make(chan struct{})}
	p.Env = append(append([]string{worker.EnvParentFD + "=3"}, s.env...), env...)
	p.ExtraFiles = []*os.File{theirs}
	p.Stderr = p.output
	if err := p.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() { defer close(p.exited); _ = p.Wait() }() // the exit code is read from the state
	s.t.Cleanup(func() {
		_ = p.Process.Kill()
		<-p.exited
		ours.Close()
	})
	return p
}

// code waits for the process to end and returns its exit code.
func (p *process) code() int {
	p.t.Helper()
	select {
	case <-p.exited:
		return p.ProcessState.ExitCode()
	case <-time.After(time.Minute):
		p.t.Fatalf("the worker does not end:\n%s", p.output)
		return 0
	}
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

func (s *scene) submit(input string) string {
	s.t.Helper()
	first, err := s.stages.First("test")
	if err != nil {
		s.t.Fatal(err)
	}
	raw, _ := json.Marshal(input + " " + s.folder)
	j, err := s.record.Submit(s.t.Context(), job.Submission{Tenant: "tenant", Target: "talk", Digest: strings.Repeat("0", 64), Input: raw, First: job.Route(first)})
	if err != nil {
		s.t.Fatal(err)
	}
	return j.ID
}

func (s *scene) until(what string, condition func() bool) {
	s.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); !condition(); <-tick.C {
		if time.Now().After(end) {
			s.t.Fatalf("not within a minute: %s", what)
		}
	}
}

func (s *scene) started(id string, attempt int) {
	s.t.Helper()
	s.until("the handler starts", func() bool {
		_, err := os.Stat(filepath.Join(s.folder, id+fmt.Sprint(attempt)))
		return err == nil
	})
}

func (s *scene) job(id string) job.Job {
	s.t.Helper()
	j, err := s.record.Job(s.t.Context(), "tenant", id)
	if err != nil {
		s.t.Fatal(err)
	}
	return j
}

func (s *scene) completed(id string) {
	s.t.Helper()
	s.until("the job is completed", func() bool { return s.job(id).State == job.Completed })
}

func TestAWorkerDrainsWhenToldToAndItsWorkGoesOnElsewhere(t *testing.T) {
	for name, stop := range map[string]func(*process){
		"by SIGTERM":               func(p *process) { p.signal(syscall.SIGTERM) },
		"by the end of its parent": func(p *process) { p.parent.Close() },
		"by SIGINT of a terminal":  func(p *process) { p.signal(os.Interrupt) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			id := s.submit("wait")
			p := s.start()
			s.started(id, 1)
			stop(p)
			if code := p.code(); code != worker.ExitDone {
				t.Errorf("exit code %d\n%s", code, p.output)
			}
			j := s.job(id)
			if j.State != job.Queued || j.Steps[0].Attempts != 0 {
				t.Errorf("job %s with %d attempts, want queued with 0", j.State, j.Steps[0].Attempts)
			}
			if left, _ := filepath.Glob(filepath.Join(s.folder, "stagefleet-*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
			if url, err := s.queue.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: &[]string{"stagefleet-test-cut"}[0]}); err == nil {
				out, err := s.queue.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: url.QueueUrl, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll}})
				if err != nil || out.Attributes["ApproximateNumberOfMessagesNotVisible"] != "0" {
					t.Errorf("hidden messages: %v, %v", out.Attributes, err)
				}
			}
		})
	}
}

func TestASecondSignalEndsAWorkerAtOnce(t *testing.T) {
	s := newScene(t)
	id := s.submit("once")
	p := s.start()
	s.started(id, 1)
	p.signal(syscall.SIGTERM)
	s.until("the first signal is seen", func() bool { return strings.Contains(p.output.String(), "draining") })
	p.signal(syscall.SIGTERM)
	if code := p.code(); code != worker.ExitSignal {
		t.Errorf("exit code %d", code)
	}
}

func TestAHandlerThatIgnoresTheDrainIsLeftBehindAndSaidSo(t *testing.T) {
	s := newScene(t)
	id := s.submit("once")
	p := s.start()
	s.started(id, 1)
	p.signal(syscall.SIGTERM)
	if code := p.code(); code != worker.ExitAbandoned {
		t.Errorf("exit code %d\n%s", code, p.output)
	}
	s.start()
	s.completed(id)
}

func TestTheWorkOfAKilledWorkerIsDoneByTheNext(t *testing.T) {
	s := newScene(t)
	id := s.submit("once")
	p := s.start()
	s.started(id, 1)
	p.signal(syscall.SIGKILL)
	p.code()
	s.start()
	s.completed(id)
	if step := s.job(id).Steps[0]; step.Attempts != 1 || step.Crashes != 1 {
		t.Errorf("%d attempts and %d crashes, want 1 and 1", step.Attempts, step.Crashes)
	}
}

func TestABusyWorkerIsProtectedAndAStoppingOneMakesNoCalls(t *testing.T) {
	s := newScene(t)
	var mu sync.Mutex
	var calls []string
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		calls = append(calls, r.Method+" "+r.URL.Path+" "+string(body))
		fmt.Fprint(w, `{"protection":{"ProtectionEnabled":true,"ExpirationDate":"2030-01-01T00:00:00Z"}}`)
	}))
	t.Cleanup(agent.Close)
	id := s.submit("wait")
	p := s.start("ECS_AGENT_URI=" + agent.URL + "/api/task")
	s.started(id, 1)
	p.signal(syscall.SIGTERM)
	p.code()
	mu.Lock()
	defer mu.Unlock()
	if want := `[PUT /api/task/task-protection/v1/state {"ProtectionEnabled":true,"ExpiresInMinutes":120}]`; fmt.Sprint(calls) != want {
		t.Errorf("calls %v, want %s", calls, want)
	}
}

// output keeps what a process writes.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/admin"
	"github.com/stagefleet/stagefleet/pkg/api"
	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/workers"
)

// front answers as a fleet's API does, with what the test has put there.
type front struct {
	*httptest.Server
	jobs   []job.Job // the states that one job goes through
	form   map[string]string
	refuse *api.Problem
}

func newFront(t *testing.T, jobs ...job.Job) *front {
	t.Helper()
	f := &front{jobs: jobs, form: map[string]string{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/jobs", f.submit)
	mux.HandleFunc("GET /v1/jobs", func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(api.Page{Jobs: jobs}) })
	mux.HandleFunc("GET /v1/jobs/{id}", func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(jobs[0]) })
	mux.HandleFunc("GET /v1/jobs/{id}/events", func(w http.ResponseWriter, _ *http.Request) {
		for _, j := range jobs {
			text, _ := json.Marshal(j)
			fmt.Fprintf(w, "id: %d\nevent: job\ndata: %s\n\n", j.Seq, text)
		}
	})
	mux.HandleFunc("GET /v1/jobs/{id}/webhooks", func(w http.ResponseWriter, r *http.Request) {
		hooks := []job.Hook{}
		if r.PathValue("id") == "j1" {
			hooks = append(hooks, job.Hook{ID: "w1", State: job.HookGivenUp, Failures: 10, CreatedAt: *at(0)}, job.Hook{ID: "w2", State: job.HookSent, Failures: 1, CreatedAt: *at(1), NextAt: at(2)})
		}
		_ = json.NewEncoder(w).Encode(hooks)
	})
	for method, secret := range map[string]string{"GET": "whsec_one", "POST": "whsec_two"} {
		mux.HandleFunc(method+" /v1/webhook-secret", func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode(map[string]string{"secret": secret})
		})
	}
	mux.HandleFunc("GET /v1/stages", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode([]admin.Stage{{Name: "compile", Queue: "q", Visible: 3, DLQ: 1, OldestAgeSeconds: 61.2, Breaker: "open", Paused: true}})
	})
	f.Server = httptest.NewServer(mux)
	t.Cleanup(f.Close)
	return f
}

func (f *front) submit(w http.ResponseWriter, r *http.Request) {
	parts, _ := r.MultipartReader()
	for part, err := parts.NextPart(); err == nil; part, err = parts.NextPart() {
		text, _ := io.ReadAll(part)
		f.form[part.FormName()] = string(text)
	}
	if f.refuse != nil {
		w.WriteHeader(f.refuse.Status)
		_ = json.NewEncoder(w).Encode(f.refuse)
		return
	}
	w.WriteHeader(http.StatusAccepted)
	_ = json.NewEncoder(w).Encode(f.jobs[0])
}

// command runs one command line against the front.
func (f *front) command(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(args, func(name string) string { return map[string]string{addrVar: f.Listener.Addr().String()}[name] }, &out, &errs)
	return code, out.String(), errs.String()
}

func at(seconds int) *time.Time {
	moment := time.Date(2026, 1, 2, 3, 4, seconds, 0, time.UTC)
	return &moment
}

// life is a job that goes through its states to the given end.
func life(end job.State) []job.Job {
	first := job.Step{Stage: "ingest", State: job.Running, CreatedAt: *at(0)}
	done := first
	done.State, done.EndedAt, done.Attempts = job.Completed, at(4), 1
	j := job.Job{ID: "j1", Target: "talk.mp4", Version: 2, State: job.Running, CreatedAt: *at(0), Seq: 1, Steps: []job.Step{first}}
	ended := j
	ended.Seq, ended.State, ended.EndedAt = 2, end, at(9)
	ended.Steps = []job.Step{done, {Stage: "transcribe", State: end, Attempts: 2, CreatedAt: *at(4), EndedAt: at(9)}}
	switch end {
	case job.Completed, job.CompletedWithGaps:
		ended.Result = &job.Result{Dir: "/state/objects/jobs/j1/a", Index: "/state/objects/jobs/j1/a/index.html"}
	default:
		ended.Reason = &job.Reason{Code: "why", Sentence: "The recording holds\x1b[2J nothing."}
	}
	return []job.Job{j, ended}
}

func recordingFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "talk.mp4")
	if err := os.WriteFile(path, []byte("bytes"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSubmitSendsTheFileAndPrintsTheJob(t *testing.T) {
	f := newFront(t, life(job.Completed)...)
	code, stdout, stderr := f.command("submit", recordingFile(t), "--target", "Monday", "--version", "7", "--webhook", "https://example.org/hook")
	if code != exitDone || !strings.Contains(stdout, "job j1") || !strings.Contains(stderr, "fleet watch j1") {
		t.Errorf("= %d\n%s%s", code, stdout, stderr)
	}
	if f.form["file"] != "bytes" || f.form["target"] != "Monday" || f.form["version"] != "7" || f.form["webhook"] != "https://example.org/hook" {
		t.Errorf("form = %v", f.form)
	}
}

func TestReportsAreListedAndTheirSecretIsPrintedAlone(t *testing.T) {
	f := newFront(t, life(job.Completed)...)
	code, stdout, _ := f.command("webhooks", "ls", "j1")
	lines := strings.Split(stdout, "\n")
	if code != exitDone || len(lines) != 4 || !strings.Contains(lines[1], "given up") || !strings.HasSuffix(lines[1], "-") || !strings.Contains(lines[2], "sent") {
		t.Errorf("= %d\n%s", code, stdout)
	}
	if code, stdout, stderr := f.command("webhooks", "ls", "j2"); code != exitDone || stdout != "" || !strings.Contains(stderr, "j2") {
		t.Errorf("none = %d %q %q", code, stdout, stderr)
	}
	var hooks []job.Hook
	if _, stdout, _ := f.command("webhooks", "ls", "j1", "--json"); json.Unmarshal([]byte(stdout), &hooks) != nil || len(hooks) != 2 || hooks[0].State != job.HookGivenUp {
		t.Errorf("JSON = %s", stdout)
	}
	for line, want := range map[string]string{"secret": "whsec_one\n", "rotate": "whsec_two\n", "secret --json": `{"secret":"whsec_one"}` + "\n"} {
		if code, stdout, stderr := f.command(append([]string{"webhooks"}, strings.Fields(line)...)...); code != exitDone || stdout != want || stderr != "" {
			t.Errorf("%s = %d %q %q", line, code, stdout, stderr)
		}
	}
}

func TestAWebhookThatCannotBeIsAMistakeOfTheCommandLine(t *testing.T) {
	f := newFront(t, life(job.Completed)...)
	f.refuse = &api.Problem{Status: http.StatusBadRequest, Code: "webhook", Detail: "The webhook's address must begin with https://."}
	if code, _, stderr := f.command("submit", recordingFile(t), "--webhook", "ftp://x"); code != exitUsage || !strings.Contains(stderr, "https://") {
		t.Errorf("= %d %s", code, stderr)
	}
}

func TestWaitEndsWithTheExitCodeOfTheJobsEnd(t *testing.T) {
	for end, want := range map[job.State]int{
		job.Completed: 0, job.CompletedWithGaps: 0, job.Rejected: 3, job.Failed: 3, job.Cancelled: 3, job.Superseded: 3,
	} {
		f := newFront(t, life(end)...)
		for _, args := range [][]string{{"submit", recordingFile(t), "--wait"}, {"submit", recordingFile(t), "--wait", "--json"}, {"watch", "j1"}, {"watch", "j1", "--json"}} {
			if code, stdout, stderr := f.command(args...); code != want {
				t.Errorf("%s %v = %d, want %d\n%s%s", end, args, code, want, stdout, stderr)
			}
		}
	}
}

func TestAJobWhoseEndWasNotSeenIsNotPrintedAsEnded(t *testing.T) {
	running := life(job.Completed)[0]
	for want, err := range map[int]error{
		exitUnreachable: fmt.Errorf("%w: connection refused", api.ErrUnreachable),
		exitFailed:      &api.Problem{Status: http.StatusNotFound, Detail: "There is no such job."},
	} {
		var out bytes.Buffer
		root := newRoot(func(string) string { return "" })
		root.SetOut(&out)
		if code := exitCode(printEnd(root, running, err)); code != want || out.Len() != 0 {
			t.Errorf("%v = %d, want %d; printed %q", err, code, want, out.String())
		}
	}
}

func TestProgressInAPipeIsALinePerChangeThenTheOutcome(t *testing.T) {
	f := newFront(t, life(job.Completed)...)
	_, stdout, _ := f.command("watch", "j1")
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	want := []string{"ingest       running", "ingest       completed              4s", "transcribe   completed              5s, 2 attempts",
		"completed after 9s", "  folder    /state/objects/jobs/j1/a", "  open      /state/objects/jobs/j1/a/index.html"}
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d:\n%s", len(lines), len(want), stdout)
	}
	for i := range want {
		if !strings.HasSuffix(lines[i], want[i]) {
			t.Errorf("line %d = %q, want %q at its end", i, lines[i], want[i])
		}
	}
}

func TestASubmittersTextCannotMoveTheCursor(t *testing.T) {
	f := newFront(t, life(job.Rejected)...)
	_, stdout, _ := f.command("watch", "j1")
	if strings.Contains(stdout, "\x1b") || !strings.Contains(stdout, "refused after 9s: The recording holds?[2J nothing.") {
		t.Errorf("%q", stdout)
	}
}

func TestJSONIsTheWholeAnswerOnStdout(t *testing.T) {
	f := newFront(t, life(job.Completed)...)
	for name, c := range map[string]struct {
		args []string
		want any
	}{
		"submit":        {[]string{"submit", recordingFile(t), "--json"}, f.jobs[0]},
		"submit --wait": {[]string{"submit", recordingFile(t), "--json", "--wait"}, f.jobs[1]},
		"job":           {[]string{"job", "j1", "--json"}, f.jobs[0]},
		"jobs":          {[]string{"jobs", "--json"}, f.jobs},
		"stages": {[]string{"stages", "--json"}, []admin.Stage{{Name: "compile", Queue: "q", Visible: 3, DLQ: 1,
			OldestAgeSeconds: 61.2, Breaker: "open", Paused: true}}},
	} {
		want, _ := json.Marshal(c.want)
		if code, stdout, stderr := f.command(c.args...); code != 0 || stdout != string(want)+"\n" || stderr != "" {
			t.Errorf("%s = %d\n%s%s\nwant %s", name, code, stdout, stderr, want)
		}
	}
	_, stdout, _ := f.command("watch", "j1", "--json")
	if lines := strings.Split(strings.TrimSpace(stdout), "\n"); len(lines) != 2 || !json.Valid([]byte(lines[0])) || !json.Valid([]byte(lines[1])) {
		t.Errorf("watch --json:\n%s", stdout)
	}
}

func TestListsForPeople(t *testing.T) {
	f := newFront(t, life(job.CompletedWithGaps)[1])
	for noun, want := range map[string][]string{
		"jobs":   {"j1", "talk.mp4", "completed with gaps"},
		"stages": {"compile", "1m1s", "open", "yes"},
		"job j1": {"version 2 of talk.mp4", "transcribe", "2 attempts", "open      /state/objects/jobs/j1/a/index.html"},
	} {
		_, stdout, _ := f.command(strings.Fields(noun)...)
		for _, text := range want {
			if !strings.Contains(stdout, text) {
				t.Errorf("%s does not say %q:\n%s", noun, text, stdout)
			}
		}
	}
}

func TestOnlyRegularFilesAreSubmitted(t *testing.T) {
	dir := t.TempDir()
	file, link, pipe := recordingFile(t), filepath.Join(dir, "link"), filepath.Join(dir, "pipe")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	f := newFront(t, life(job.Completed)...)
	for path, want := range map[string]string{
		dir: "a folder", link: "a symbolic link", pipe: "a named pipe", os.DevNull: "a device", filepath.Join(dir, "none"): "no such file",
	} {
		code, stdout, stderr := f.command("submit", path)
		if code != exitFailed || stdout != "" || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("submit of %s = %d\n%s%s", want, code, stdout, stderr)
		}
	}
	if len(f.form) != 0 {
		t.Error("something was sent")
	}
}

func TestWhatTheFleetRefusesIsToldInItsOwnWords(t *testing.T) {
	f := newFront(t, life(job.Completed)...)
	for status, want := range map[int]int{http.StatusConflict: exitConflict, http.StatusTooManyRequests: exitFailed} {
		f.refuse = &api.Problem{Status: status, Detail: "This version exists."}
		if code, _, stderr := f.command("submit", recordingFile(t)); code != want || stderr != "fleet: This version exists.\n" {
			t.Errorf("%d = %d %q", status, code, stderr)
		}
	}
}

func TestCommandLinesThatCannotBeUnderstood(t *testing.T) {
	f := newFront(t, life(job.Completed)...)
	for _, line := range []string{"bogus", "submit", "submit a b", "watch", "job", "jobs x", "stages --colour", "jobs --limit 0", "jobs --limit 501", "jobs --state done", "jobs --target x --state Failed",
		"submit x --version -1", "up now", "up --workers compile=99", "up --workers none=1", "up --workers compile", "up --beat 20s", "up --lease 1500ms"} {
		if code, _, stderr := f.command(strings.Fields(line)...); code != exitUsage || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q = %d %q", line, code, stderr)
		}
	}
}

func TestAFleetThatIsAwayHasAnExitCodeAndAdvice(t *testing.T) {
	f := newFront(t, life(job.Completed)...)
	f.Close()
	for _, line := range []string{"jobs", "stages", "job j1", "submit " + recordingFile(t)} {
		if code, _, stderr := f.command(strings.Fields(line)...); code != exitUnreachable || !strings.Contains(stderr, "fleet up") {
			t.Errorf("%q = %d %q", line, code, stderr)
		}
	}
}

func TestMigrateBringsARecordUpToDateTwice(t *testing.T) {
	f := newFront(t, life(job.Completed)...)
	database := "sqlite:" + filepath.Join(t.TempDir(), "fleet.db")
	for range 2 {
		code, stdout, stderr := f.command("migrate", "--database", database)
		if code != 0 || stdout != "The schema is up to date.\n" {
			t.Errorf("= %d %s%s", code, stdout, stderr)
		}
	}
	if code, _, stderr := f.command("migrate", "--database", "mysql://db"); code != exitFailed || strings.Count(stderr, "\n") != 1 {
		t.Errorf("another database: %d %q", code, stderr)
	}
}

func TestLeaseAndBeatReplaceTheScaledDurations(t *testing.T) {
	for _, c := range []struct{ lease, beat, wantLease, wantBeat time.Duration }{
		{0, 0, 21 * time.Second, 9 * time.Second},
		{7 * time.Second, 0, 7 * time.Second, 3 * time.Second},
		{0, 2 * time.Second, 21 * time.Second, 2 * time.Second},
		{10 * time.Second, 5 * time.Second, 10 * time.Second, 5 * time.Second},
	} {
		p, err := durations(workers.Stages, c.lease, c.beat)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range p {
			if d := s.Durations; d.Lease != c.wantLease || d.Visibility != c.wantLease || d.Beat != c.wantBeat {
				t.Errorf("lease %v beat %v: %s has %v %v %v", c.lease, c.beat, s.Name, d.Visibility, d.Lease, d.Beat)
			}
		}
	}
}

func TestEveryNounExplainsItself(t *testing.T) {
	for _, noun := range newRoot(func(string) string { return "" }).Commands() {
		if noun.Name() == "help" || noun.Name() == "completion" {
			continue
		}
		if noun.Short == "" || noun.Long == "" || !strings.HasPrefix(noun.Example, "  fleet "+noun.Name()) {
			t.Errorf("%s: short, long or example is missing", noun.Name())
		}
	}
}

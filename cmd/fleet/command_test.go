package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/stagefleet/stagefleet/pkg/api"
	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/outcome"
	"github.com/stagefleet/stagefleet/pkg/setting"
)

func TestAMistakeInTheCommandLineIsToldWithWhatMendsIt(t *testing.T) {
	f := newFront(t, life(job.Completed)...)
	for line, wants := range map[string][]string{
		"submit":                           {"fleet submit needs FILE"},
		"watch":                            {"fleet watch needs JOB"},
		"submit a b":                       {"takes FILE", "quote"},
		"dlq discard":                      {"fleet dlq discard needs ID"},
		"jobs x":                           {"no argument", `"x"`},
		"sumbit talk.mp4":                  {`"sumbit"`, "did you mean submit?"},
		"dlq redriv x":                     {`"redriv"`, "did you mean redrive?"},
		"submit x --target=":               {"--target"},
		"submit x --version one":           {"--version", "it takes a number", "fleet submit --help"},
		"submit x --wait=so":               {"--wait", "it takes true or false", "fleet submit --help"},
		"submit x --wiat":                  {"--wiat", "fleet submit --help"},
		"migrate":                          {"--database", "FLEET_DATABASE_URL"},
		"serve --env e --objects file:///": {"--database", "FLEET_DATABASE_URL"},
		"serve --database sqlite:x --objects file:///":                              {"--env", "FLEET_ENV"},
		"serve --database sqlite:x --env e":                                         {"--objects", "FLEET_BLOB_URL"},
		"serve --database sqlite:x --env e --objects file:/// --hard-limit some":    {"--hard-limit", "FLEET_HARD_LIMIT", "some"},
		"serve --database sqlite:x --env e --objects file:/// --trusted-proxies lb": {"--trusted-proxies", "FLEET_TRUSTED_PROXIES", "lb"},
		"size --arrivals inf --rate 1":                                              {"--arrivals", "--rate"},
		"up --soft-limit 9 --hard-limit 8":                                          {"--soft-limit", "--hard-limit"},
		"up --lease 1s":                                                             {"--lease 1s"},
		"up --beat 20s":                                                             {"--beat 20s"},
	} {
		code, _, stderr := f.command(strings.Fields(line)...)
		if code != exitUsage || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q = %d %q, want %d and one line", line, code, stderr, exitUsage)
		}
		for _, want := range wants {
			if !strings.Contains(stderr, want) {
				t.Errorf("%q: %q does not say %q", line, stderr, want)
			}
		}
	}
}

func TestANameThatNoListCouldShowIsRefused(t *testing.T) {
	f := newFront(t, life(job.Completed)...)
	for _, name := range []string{"two\nlines.mp4", "red\x1b[31m.mp4", "latin-\xe9.mp4"} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, noun := range []string{"submit", "import"} {
			if code, _, stderr := f.command(noun, path); code != exitUsage || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "name") || strings.Contains(stderr, "\x1b") {
				t.Errorf("%s %q = %d %q", noun, name, code, stderr)
			}
		}
	}
}

func TestAFileThatIsNotThereIsNamed(t *testing.T) {
	f := newFront(t, life(job.Completed)...)
	for _, line := range []string{"submit gone.mp4", "import gone.mp4"} {
		if code, _, stderr := f.command(strings.Fields(line)...); code != exitFailed || stderr != "fleet: \"gone.mp4\": no such file or directory\n" {
			t.Errorf("%s = %d %q", line, code, stderr)
		}
	}
}

// full is a disk without space.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, unix.ENOSPC }

func TestAnAnswerThatCannotBePrintedIsAFailure(t *testing.T) {
	f := newFront(t, life(job.Completed)...)
	path := filepath.Join(t.TempDir(), "talk.mp4")
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, words := range [][]string{{"submit", path, "--wait"}, {"submit", path}, {"submit", path, "--wait", "--json"}, {"watch", "j1"}, {"jobs"}} {
		var stderr bytes.Buffer
		code := run(append(words, "--addr", f.URL), func(string) string { return "" }, full{}, &stderr)
		if code != exitFailed || !strings.Contains(stderr.String(), "no space left") {
			t.Errorf("%v = %d %q", words, code, stderr.String())
		}
	}
}

func TestTheVersionIsThatOfTheBuild(t *testing.T) {
	f := newFront(t, life(job.Completed)...)
	if code, stdout, _ := f.command("--version"); code != exitDone || !strings.HasPrefix(stdout, "fleet version ") || !strings.Contains(stdout, "go1.") {
		t.Errorf("= %d %q", code, stdout)
	}
}

func TestAMisspeltSettingStopsTheServerAndIsNamed(t *testing.T) {
	t.Setenv("FLEET_SPECH_URL", "http://secret.test")
	f := newFront(t, life(job.Completed)...)
	for _, line := range []string{"up", "serve", "env"} {
		code, _, stderr := f.command(line)
		if code != exitUsage || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "FLEET_SPECH_URL") || !strings.Contains(stderr, "FLEET_SPEECH_URL") || strings.Contains(stderr, "secret") {
			t.Errorf("%s = %d %q", line, code, stderr)
		}
	}
}

func TestEverySettingIsShownAndNoSecret(t *testing.T) {
	env := map[string]string{"FLEET_SPEECH_API_KEY": "canary", "FLEET_DATABASE_URL": "postgres://u:canary@db/x", "FLEET_ADDR": "127.0.0.1:1"}
	var out, errs bytes.Buffer
	if code := run([]string{"env"}, func(name string) string { return env[name] }, &out, &errs); code != exitDone {
		t.Fatalf("= %d %s", code, errs.String())
	}
	for _, s := range setting.All {
		if !strings.Contains(out.String(), s.Name) || !strings.Contains(out.String(), s.Meaning) {
			t.Errorf("%s is not told", s.Name)
		}
	}
	if strings.Contains(out.String(), "canary") || !strings.Contains(out.String(), "127.0.0.1:1") {
		t.Errorf("%s", out.String())
	}
	out.Reset()
	var all []shown
	if code := run([]string{"env", "--json"}, func(name string) string { return env[name] }, &out, &errs); code != exitDone {
		t.Fatalf("= %d", code)
	}
	if err := json.Unmarshal(out.Bytes(), &all); err != nil || len(all) != len(setting.All) || strings.Contains(out.String(), "canary") {
		t.Errorf("%d settings, %v\n%s", len(all), err, out.String())
	}
}

// silent is a fleet that takes a job and then never says anything of it; what it is asked is told.
func silent(t *testing.T, asked func()) *api.Client {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/jobs", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_ = json.NewEncoder(w).Encode(job.Job{ID: "j1"})
	})
	mux.HandleFunc("GET /v1/jobs/{id}/events", func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		asked()
		<-r.Context().Done()
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	client := api.NewClient(server.URL)
	t.Cleanup(client.Close)
	return client
}

func TestAPersonWhoStopsWaitingIsToldThatTheJobGoesOn(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		client := silent(t, cancel)
		var out, errs bytes.Buffer
		root := newRoot(func(string) string { return "" })
		root.SetOut(&out)
		root.SetErr(&errs)
		file, err := os.Open(recordingFile(t))
		if err != nil {
			t.Fatal(err)
		}
		if err := submit(ctx, root, client, api.Request{Name: "talk.mp4"}, file, asJSON, true); err == nil {
			t.Error("the job was not waited for, and there is no error")
		}
		_ = file.Close()
		if !strings.Contains(errs.String(), "The job goes on. Watch it with: fleet watch j1\n") {
			t.Errorf("json %v: %q", asJSON, errs.String())
		}
	}
}

func TestWatchSaysWhenItLostTheFleetAndWhenItHearsItAgain(t *testing.T) {
	states := life(job.Completed)
	var calls atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/jobs/{id}/events", func(w http.ResponseWriter, _ *http.Request) {
		text, _ := json.Marshal(states[min(calls.Add(1)-1, 1)])
		fmt.Fprintf(w, "event: job\ndata: %s\n\n", text)
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	for _, args := range [][]string{{"watch", "j1"}, {"watch", "j1", "--json"}} {
		calls.Store(0)
		var out, errs bytes.Buffer
		code := run(args, func(name string) string { return map[string]string{addrVar: server.URL}[name] }, &out, &errs)
		if want := linkText(false) + "\n" + linkText(true) + "\n"; code != exitDone || errs.String() != want {
			t.Errorf("%v = %d %q, want %q", args, code, errs.String(), want)
		}
	}
}

// terminal returns both ends of a pseudo-terminal: what a person types and sees, and what the command has.
func terminal(t *testing.T) (person, command *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = person.Close() })
	if err := unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	command, err = os.OpenFile(filepath.Join("/dev/pts", fmt.Sprint(n)), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Close() })
	return person, command
}

func TestThePersonAtTheTerminalDecidesWhetherAStageIsRedriven(t *testing.T) {
	s := serve(t)
	s.work(s.submit("a.mp4"), 1, outcome.Quarantine("bug", nil))
	for _, c := range []struct {
		typed string
		code  int
		says  string
	}{
		{"\n", exitFailed, "nothing was done"},
		{"no\n", exitFailed, "nothing was done"},
		{"Y\n", exitDone, "1 of 1 jobs go on"},
	} {
		person, command := terminal(t)
		if _, err := person.WriteString(c.typed); err != nil {
			t.Fatal(err)
		}
		var out, errs bytes.Buffer
		root := newRoot(func(name string) string { return map[string]string{addrVar: s.addr}[name] })
		root.SetArgs([]string{"dlq", "redrive", "--stage", "ingest"})
		root.SetIn(command)
		root.SetOut(&out)
		root.SetErr(&errs)
		err := root.Execute()
		if text := fmt.Sprint(err, out.String()); exitCode(err) != c.code || !strings.Contains(text, c.says) {
			t.Errorf("typed %q: %d %s", c.typed, exitCode(err), text)
		}
		if !strings.HasPrefix(errs.String(), "Redrive 1 jobs with 1 dead steps of ingest? [y/N] ") {
			t.Errorf("asked %q", errs.String())
		}
	}
}

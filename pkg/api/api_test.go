package api_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/stagefleet/stagefleet/pkg/admin"
	"github.com/stagefleet/stagefleet/pkg/api"
	"github.com/stagefleet/stagefleet/pkg/blob"
	"github.com/stagefleet/stagefleet/pkg/job"
)

// record answers for jobs from memory, so that a test can put them into any state; the rest is a real one's.
type record struct {
	*job.Store
	mu        sync.Mutex
	jobs      map[string]job.Job
	submitted []job.Submission
	filters   []job.Filter
	err       error // of every call
}

func (r *record) Submit(_ context.Context, s job.Submission) (job.Job, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return job.Job{}, r.err
	}
	r.submitted = append(r.submitted, s)
	j := job.Job{ID: fmt.Sprintf("j%d", len(r.submitted)), Tenant: s.Tenant, Steps: []job.Step{}, Target: s.Target, Version: max(s.Version, 1), State: job.Queued, Seq: 1}
	r.jobs[j.ID] = j
	return j, nil
}

func (r *record) Uploaded(context.Context, string) error { return nil }

func (r *record) Job(_ context.Context, tenant, id string) (job.Job, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	j, ok := r.jobs[id]
	if !ok || tenant != api.Tenant {
		return job.Job{}, job.ErrNotFound
	}
	return j, r.err
}

func (r *record) Seq(ctx context.Context, tenant, id string) (int64, error) {
	j, err := r.Job(ctx, tenant, id)
	return j.Seq, err
}

func (r *record) Changes(_ context.Context, watched []job.Watched, _ []string) (job.Changed, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var changed job.Changed
	for _, w := range watched {
		if j, ok := r.jobs[w.ID]; ok && j.Seq != w.Seq {
			changed.Jobs = append(changed.Jobs, j)
		}
	}
	return changed, r.err
}

func (r *record) Jobs(_ context.Context, f job.Filter) ([]job.Job, string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.filters = append(r.filters, f)
	var list []job.Job
	for _, j := range r.jobs {
		list = append(list, j)
	}
	return list, "next", r.err
}

func (r *record) Ping(context.Context) error { return r.err }

// set changes a job as a worker's commit does.
func (r *record) set(id string, change func(*job.Job)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	j := r.jobs[id]
	j.ID, j.Tenant, j.Steps, j.State = id, api.Tenant, []job.Step{}, cmp.Or(j.State, job.Queued)
	change(&j)
	j.Seq++
	r.jobs[id] = j
}

type overview struct{}

func (overview) Stages(context.Context) ([]admin.Stage, error) {
	return []admin.Stage{{Name: "ingest", Queue: "q.fifo", Breaker: "closed", Alarms: []string{}}}, nil
}

const maxUpload = 1 << 20

type bundle struct {
	inbox *job.Store
	*record
	server *httptest.Server
	client *api.Client
	folder string
	logs   *observer.ObservedLogs
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{record: &record{Store: open(t, "sqlite", job.Options{}), jobs: map[string]job.Job{}}, inbox: events(t), folder: t.TempDir()}
	objects, err := blob.NewFolder(b.folder)
	if err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zap.DebugLevel)
	b.logs = logs
	b.server = httptest.NewServer(conforming(t, api.NewServer(api.Config{
		Record: b.record, Events: b.inbox, Providers: providers(t), Objects: objects, Place: "file://" + b.folder, Overview: overview{},
		First: job.Route{Stage: "ingest", Queue: "q.fifo", FIFO: true}, MaxUpload: maxUpload, Metrics: http.NotFoundHandler(), Log: zap.New(core),
	})))
	t.Cleanup(b.server.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	b.client = api.NewClient(b.server.URL)
	t.Cleanup(b.client.Close)
	return b
}

func (b *bundle) objects(t *testing.T) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(b.folder, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// field is one part of a form; one with a file name is a file.
type field struct{ name, file, text string }

func form(t testing.TB, fields ...field) (string, io.Reader) {
	t.Helper()
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	for _, f := range fields {
		var part io.Writer
		var err error
		if f.file != "" {
			part, err = w.CreateFormFile(f.name, f.file)
		} else {
			part, err = w.CreateFormField(f.name)
		}
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(part, f.text)
	}
	_ = w.Close()
	return w.FormDataContentType(), &body
}

func (b *bundle) post(t *testing.T, fields ...field) (*http.Response, map[string]any) {
	t.Helper()
	contentType, body := form(t, fields...)
	response, err := http.Post(b.server.URL+"/v1/jobs", contentType, body)
	if err != nil {
		t.Fatal(err)
	}
	return response, decode(t, response)
}

func decode(t *testing.T, response *http.Response) map[string]any {
	t.Helper()
	defer response.Body.Close()
	var body map[string]any
	if err := json.NewDecoder(response.Body).Decode(&body); err != nil {
		t.Fatalf("%s: %v", response.Status, err)
	}
	return body
}

func TestOtherAddressesAndMethodsAreProblems(t *testing.T) {
	b := setup(t)
	for _, c := range []struct {
		method, path string
		status       int
	}{
		{http.MethodGet, "/", 404}, {http.MethodGet, "/v1/nothing", 404}, {http.MethodGet, "/v1/jobs/unknown", 404},
		{http.MethodGet, "/v1/jobs/unknown/events", 404}, {http.MethodDelete, "/v1/jobs", 405}, {http.MethodPost, "/v1/stages", 405},
		{http.MethodGet, "/v1/jobs?limit=0", 400}, {http.MethodGet, "/v1/jobs?limit=501", 400}, {http.MethodGet, "/v1/jobs?state=done", 400},
		{http.MethodGet, "/v1/jobs?target=a&state=Completed", 400}, {http.MethodPost, "/v1/jobs", 415},
	} {
		request, _ := http.NewRequestWithContext(t.Context(), c.method, b.server.URL+c.path, nil)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if body := decode(t, response); response.StatusCode != c.status || body["status"] != float64(c.status) || body["detail"] == "" {
			t.Errorf("%s %s = %d %v, want %d", c.method, c.path, response.StatusCode, body, c.status)
		}
		if c.status == 405 && response.Header.Get("Allow") == "" {
			t.Errorf("%s %s: no Allow", c.method, c.path)
		}
	}
}

func TestPagesInABrowserCannotReachTheFleet(t *testing.T) {
	b := setup(t)
	for name, change := range map[string]func(*http.Request){
		"by a name that leads here": func(r *http.Request) { r.Host = "evil.example:80" },
		"by a form of another site": func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
	} {
		contentType, body := form(t, field{"file", "a", "x"})
		request, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, b.server.URL+"/v1/jobs", body)
		request.Header.Set("Content-Type", contentType)
		change(request)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if p := decode(t, response); response.StatusCode != http.StatusForbidden || p["code"] == nil || p["detail"] == nil || len(b.submitted) != 0 {
			t.Errorf("%s: %d %v", name, response.StatusCode, p)
		}
	}
}

func TestResultsAreNamedByWhereTheyCanBeOpened(t *testing.T) {
	b := setup(t)
	b.set("j", func(j *job.Job) {
		j.State = job.Completed
		j.Result = &job.Result{Dir: "jobs/j/a", Manifest: "jobs/j/a/manifest.json", Index: "jobs/j/a/index.html"}
	})
	j, err := b.client.Job(t.Context(), "j")
	if err != nil {
		t.Fatal(err)
	}
	if want := (job.Result{Dir: b.folder + "/jobs/j/a", Manifest: b.folder + "/jobs/j/a/manifest.json", Index: b.folder + "/jobs/j/a/index.html"}); *j.Result != want {
		t.Errorf("result = %+v, want %+v", *j.Result, want)
	}
	if kept := b.jobs["j"].Result.Dir; kept != "jobs/j/a" {
		t.Errorf("the record's own value was changed to %s", kept)
	}
}

func TestListsPassTheFilterOnForTheCallersOwnTenant(t *testing.T) {
	b := setup(t)
	b.set("j", func(*job.Job) {})
	page, err := b.client.Jobs(t.Context(), job.Filter{Tenant: "other", Target: "a b", State: job.Completed, Limit: 7})
	if err != nil || len(page.Jobs) != 1 || page.Cursor == "" || page.Cursor == "next" {
		t.Fatalf("page = %+v, %v", page, err)
	}
	if _, err := b.client.Jobs(t.Context(), job.Filter{Cursor: page.Cursor}); err != nil {
		t.Fatal(err)
	}
	if want := (job.Filter{Tenant: api.Tenant, Target: "a b", State: job.Completed, Limit: 7}); b.filters[0] != want || b.filters[1].Cursor != "next" {
		t.Errorf("filters = %+v", b.filters)
	}
}

func TestStagesAndHealth(t *testing.T) {
	b := setup(t)
	stages, err := b.client.Stages(t.Context())
	if err != nil || len(stages) != 1 || stages[0].Name != "ingest" {
		t.Errorf("stages = %+v, %v", stages, err)
	}
	for want, ill := range map[int]error{200: nil, 503: errors.New("ill")} {
		b := setup(t) // one server asks its record once a second
		b.err = ill
		response, err := http.Get(b.server.URL + "/healthz")
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("health with %v = %d", ill, response.StatusCode)
		}
	}
}

func TestLogsNeverHoldWhatWasSubmitted(t *testing.T) {
	b := setup(t)
	b.err = errors.New("ill")
	b.post(t, field{"file", "canary-name.mp4", "canary-bytes"}, field{"target", "", "canary-target"})
	entries := b.logs.All()
	if len(entries) != 1 {
		t.Fatalf("%d log entries, want the one of the failure", len(entries))
	}
	if text := fmt.Sprint(entries[0].Message, entries[0].ContextMap()); strings.Contains(text, "canary") {
		t.Errorf("log: %s", text)
	}
}

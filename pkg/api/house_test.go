package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/stagefleet/stagefleet/pkg/admin"
	"github.com/stagefleet/stagefleet/pkg/api"
	"github.com/stagefleet/stagefleet/pkg/blob"
	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/stage"
)

// house is the real server on a real record, reached over the wire.
type house struct {
	t       testing.TB
	store   *job.Store
	objects *blob.Folder
	url     string
	metrics *prometheus.Registry
	client  *http.Client
	asked   atomic.Int64 // requests

	mu      sync.Mutex
	waiting []job.Watched // submitted and not completed; guarded by mu
}

const housePrice = 5

var houseStages = []stage.Stage{{Name: "ingest", Durations: stage.Durations{Retention: 96 * time.Hour}}, {Name: "publish", Durations: stage.Durations{Retention: 96 * time.Hour}}}

func newHouse(t testing.TB, kind string) *house {
	t.Helper()
	return newHouseOf(t, kind, maxUpload)
}

// newHouseOf takes recordings of up to the given size.
func newHouseOf(t testing.TB, kind string, largest int64) *house {
	t.Helper()
	h := &house{t: t, metrics: prometheus.NewRegistry(), client: &http.Client{Transport: &http.Transport{}}}
	h.store = open(t, kind, job.Options{Registerer: h.metrics})
	folder := t.TempDir()
	objects, err := blob.NewFolder(folder)
	if err != nil {
		t.Fatal(err)
	}
	h.objects = objects
	server := httptest.NewServer(conforming(t, api.NewServer(api.Config{
		Record: h.store, Imports: h.store, Objects: objects, Operator: &admin.Operator{Stages: houseStages, Record: h.store, Letters: &admin.Sweeper{Record: h.store}, Objects: objects},
		Place: "file://" + folder, Overview: overview{}, Stages: []string{"ingest", "publish"},
		First: job.Route{Stage: "ingest", Queue: "q.fifo", DLQ: "dlq.fifo", FIFO: true}, MaxUpload: largest, Price: housePrice, Local: true, Events: h.store, Providers: providers(t),
		Proxies: []netip.Prefix{netip.MustParsePrefix("10.9.0.0/16"), netip.MustParsePrefix("2001:db8:9::/48")},
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		}), Log: zap.NewNop(),
	})))
	t.Cleanup(server.Close)
	t.Cleanup(h.client.CloseIdleConnections)
	h.url = server.URL
	return h
}

// key makes an account, if there is none, and a key of it.
func (h *house) key(tenant string, perMinute int64, scopes ...job.Scope) string {
	h.t.Helper()
	unlimited := true
	if _, err := h.store.CreateAccount(h.t.Context(), tenant, job.Limits{Unlimited: &unlimited}, "test"); err != nil {
		h.t.Fatal(err)
	}
	k, err := h.store.CreateKey(h.t.Context(), job.KeyRequest{Tenant: tenant, Scopes: scopes, PerMinute: perMinute}, "test")
	if err != nil {
		h.t.Fatal(err)
	}
	return k.Secret
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	text   string
	body   map[string]any // of a JSON object
}

// ask sends a request; a body without a content type is JSON.
func (h *house) ask(key, method, path string, body io.Reader, headers ...string) answer {
	h.t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), method, h.url+path, body)
	if err != nil {
		h.t.Fatal(err)
	}
	r.Header.Set(from, fmt.Sprintf("192.0.2.%d:1", h.asked.Add(1)%250)) // who guesses keys is a test of its own
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := h.client.Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	a := answer{status: response.StatusCode, header: response.Header, text: string(text)}
	_ = json.Unmarshal(text, &a.body)
	return a
}

func (h *house) json(key, method, path, body string) answer {
	h.t.Helper()
	if body == "" {
		return h.ask(key, method, path, nil)
	}
	return h.ask(key, method, path, strings.NewReader(body))
}

// submit hands in a recording as a form.
func (h *house) submit(key, target, bytes string, headers ...string) answer {
	h.t.Helper()
	contentType, body := form(h.t, field{"target", "", target}, field{"file", "talk.mp4", bytes})
	a := h.ask(key, http.MethodPost, "/v1/jobs", body, append(headers, "Content-Type", contentType)...)
	if a.status == http.StatusAccepted {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.waiting = append(h.waiting, job.Watched{Tenant: a.body["tenant"].(string), ID: a.body["id"].(string)})
	}
	return a
}

// complete runs the only step of every job that was submitted and publishes a result with these files, as workers do.
func (h *house) complete(files map[string]string) {
	h.t.Helper()
	ctx := h.t.Context()
	h.mu.Lock()
	waiting := h.waiting
	h.waiting = nil
	h.mu.Unlock()
	for _, w := range waiting {
		j, err := h.store.Job(ctx, w.Tenant, w.ID)
		if err != nil {
			h.t.Fatal(err)
		}
		c, err := h.store.Claim(ctx, job.ClaimRequest{Step: j.Steps[0].ID, Tenant: w.Tenant, Emission: 1, Stage: "ingest", Worker: "w", Lease: time.Minute})
		if err != nil {
			h.t.Fatal(err)
		}
		dir := "jobs/" + c.Job + "/" + c.Key
		for name, text := range files {
			object, err := h.objects.Create(ctx, dir+"/"+name)
			if err != nil {
				h.t.Fatal(err)
			}
			_, _ = io.Copy(object, strings.NewReader(text))
			if _, err := object.Commit(); err != nil {
				h.t.Fatal(err)
			}
		}
		now := time.Now()
		published, err := h.store.Publish(ctx, job.Publication{
			Claim: c, Output: json.RawMessage(`{}`), Result: &job.Result{Dir: dir, Manifest: dir + "/manifest.json", Index: dir + "/index.html"},
			Timings: job.Timings{ReceivedAt: now, StartedAt: now.Add(-2 * time.Second), EndedAt: now},
		})
		if err != nil || !published.Accepted {
			h.t.Fatalf("publish: %+v, %v", published, err)
		}
	}
}

package api_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/stagefleet/stagefleet/pkg/api"
	"github.com/stagefleet/stagefleet/pkg/job"
)

// events reads a stream's ids and states to its end.
func (b *bundle) events(t *testing.T, id, lastEventID string, each func(n int)) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	request, _ := http.NewRequestWithContext(ctx, http.MethodGet, b.server.URL+"/v1/jobs/"+id+"/events", nil)
	if lastEventID != "" {
		request.Header.Set("Last-Event-ID", lastEventID)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if got := response.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Fatalf("content type %q", got)
	}
	var ids []string
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if eventID, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
			ids = append(ids, eventID)
			each(len(ids))
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return ids
}

func TestEventsTellTheStateNowAndEveryChangeUntilTheEnd(t *testing.T) {
	b := setup(t)
	b.set("j", func(j *job.Job) { j.State = job.Queued })
	ids := b.events(t, "j", "", func(n int) {
		b.set("j", func(j *job.Job) {
			if j.State = job.Running; n == 3 {
				j.State = job.Completed
			}
		})
	})
	if want := []string{"1", "2", "3", "4"}; !slices.Equal(ids, want) {
		t.Errorf("events = %v, want %v", ids, want)
	}
}

func TestAReconnectGetsWhatItMissedAndNothingTwice(t *testing.T) {
	b := setup(t)
	for range 4 {
		b.set("j", func(j *job.Job) { j.State = job.Running })
	}
	end := func(int) { b.set("j", func(j *job.Job) { j.State = job.Completed }) }
	if ids := b.events(t, "j", "2", end); !slices.Equal(ids, []string{"4", "5"}) {
		t.Errorf("after missing two: %v", ids)
	}
	b.set("k", func(j *job.Job) { j.State = job.Running })
	timer := time.AfterFunc(300*time.Millisecond, func() { b.set("k", func(j *job.Job) { j.State = job.Failed }) })
	defer timer.Stop()
	if ids := b.events(t, "k", "1", func(int) {}); !slices.Equal(ids, []string{"2"}) {
		t.Errorf("after missing none: %v", ids)
	}
}

func TestAnEndedJobsStreamEndsAtOnceWhateverWasSeen(t *testing.T) {
	b := setup(t)
	b.set("j", func(j *job.Job) { j.State = job.Rejected })
	if ids := b.events(t, "j", "1", func(int) {}); !slices.Equal(ids, []string{"1"}) {
		t.Errorf("events = %v", ids)
	}
}

func TestWatchFollowsAJobOverARestartOfTheServer(t *testing.T) {
	b := setup(t)
	b.set("j", func(j *job.Job) { j.State = job.Running })
	cfg := api.Config{Record: b.record, Log: zap.NewNop()}
	address, stop := serve(t, cfg, "127.0.0.1:0")
	client := api.NewClient(address)
	t.Cleanup(client.Close)
	var seen []int64
	last, err := client.Watch(t.Context(), "j", func(j job.Job) {
		seen = append(seen, j.Seq)
		if len(seen) == 1 {
			stop() // while the stream is open: a server that waited for it would hang here
			b.set("j", func(j *job.Job) { j.State = job.Completed })
			_, stop = serve(t, cfg, address)
		}
	})
	stop()
	if err != nil || last.State != job.Completed || !slices.Equal(seen, []int64{1, 2}) {
		t.Errorf("last = %s, seen = %v, %v", last.State, seen, err)
	}
}

// serve runs a server until stop is called.
func serve(t *testing.T, cfg api.Config, address string) (string, func()) {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- api.NewServer(cfg).Run(ctx, listener, 5*time.Second) }()
	return listener.Addr().String(), func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

func TestWatchOfAnUnknownJobFailsAtOnce(t *testing.T) {
	b := setup(t)
	_, err := b.client.Watch(t.Context(), "unknown", func(job.Job) { t.Error("saw a job") })
	var p *api.Problem
	if !errors.As(err, &p) || p.Status != http.StatusNotFound {
		t.Errorf("error = %v", err)
	}
}

func TestWatchEndsWithItsContext(t *testing.T) {
	b := setup(t)
	b.set("j", func(j *job.Job) { j.State = job.Running })
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	_, err := b.client.Watch(ctx, "j", func(job.Job) { cancel(enough) })
	if !errors.Is(err, enough) {
		t.Errorf("error = %v", err)
	}
}

func TestAHeadOfAStreamHasNoEnd(t *testing.T) {
	b := setup(t)
	b.set("j", func(*job.Job) {})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for range 2 { // the second goes by the connection of the first
		request, _ := http.NewRequestWithContext(ctx, http.MethodHead, b.server.URL+"/v1/jobs/j/events", nil)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.Header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("header %v", response.Header)
		}
	}
}

// late answers the first look at changes with what a job was before it was redriven.
type late struct {
	*record
	looks int
}

func (l *late) Changes(ctx context.Context, watched []job.Watched, keys []string) (job.Changed, error) {
	if l.looks++; l.looks == 1 {
		return job.Changed{Jobs: []job.Job{{ID: "j", Tenant: api.Tenant, Seq: 1, State: job.Failed, Steps: []job.Step{}}}}, nil
	}
	l.set("j", func(j *job.Job) { j.State = job.Completed })
	return l.record.Changes(ctx, watched, keys)
}

func TestAStreamNeverGoesBack(t *testing.T) {
	b := setup(t)
	b.set("j", func(j *job.Job) { j.Seq = 6 })
	server := httptest.NewServer(api.NewServer(api.Config{Record: &late{record: b.record}, Log: zap.NewNop()}))
	defer server.Close()
	client := api.NewClient(server.URL)
	defer client.Close()
	var seen []int64
	if _, err := client.Watch(t.Context(), "j", func(j job.Job) { seen = append(seen, j.Seq) }); err != nil || !slices.Equal(seen, []int64{7, 8}) {
		t.Errorf("seen %v, %v", seen, err)
	}
}

func TestAFleetThatAsksForPatienceIsAskedAgain(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch n := asked.Add(1); {
		case n == 1:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			fmt.Fprint(w, `{"status":429,"code":"rate","detail":"Too often."}`)
		case n == 2:
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, `{"status":503,"code":"x","detail":"Not now."}`)
		case strings.HasSuffix(r.URL.Path, "/events"):
			fmt.Fprint(w, "data: {\"id\":\"j\",\"seq\":3,\"state\":\"completed\"}\n\n")
		default:
			fmt.Fprint(w, `{"id":"i","state":"completed"}`)
		}
	}))
	defer server.Close()
	client := api.NewClient(server.URL)
	defer client.Close()
	if i, err := client.WatchImport(t.Context(), "i", func(job.Import) {}); err != nil || i.State != job.ImportCompleted {
		t.Errorf("import: %+v, %v", i, err)
	}
	asked.Store(0)
	if j, err := client.Watch(t.Context(), "j", func(job.Job) {}); err != nil || j.State != job.Completed {
		t.Errorf("job: %+v, %v", j, err)
	}
}

func TestAFleetThatIsNotThereIsUnreachable(t *testing.T) {
	b := setup(t)
	b.server.Close()
	if _, err := b.client.Stages(t.Context()); !errors.Is(err, api.ErrUnreachable) {
		t.Errorf("closed: %v", err)
	}
	other, _ := net.Listen("tcp", "127.0.0.1:0")
	stranger := &http.Server{Handler: http.NotFoundHandler()}
	go func() { _ = stranger.Serve(other) }()
	defer func() { _ = stranger.Close() }()
	client := api.NewClient(other.Addr().String())
	defer client.Close()
	if _, err := client.Stages(t.Context()); !errors.Is(err, api.ErrUnreachable) {
		t.Errorf("another server: %v", err)
	}
}

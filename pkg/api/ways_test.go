package api_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/stagefleet/stagefleet/pkg/api"
	"github.com/stagefleet/stagefleet/pkg/intake"
	"github.com/stagefleet/stagefleet/pkg/job"
)

// importing carries imports out until the test ends.
func (h *house) importing() {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	in := intake.Intake{Record: h.store, Objects: h.objects, First: job.Route{Stage: "ingest", Queue: "q.fifo", DLQ: "dlq.fifo", FIFO: true}, MaxInput: maxUpload, Log: zap.NewNop()}
	go func() { done <- in.Run(ctx) }()
	h.t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			h.t.Error(err)
		}
	})
}

// keep puts an object into the inbox of the local tenant.
func (h *house) keep(name string) {
	h.t.Helper()
	object, err := h.objects.Create(h.t.Context(), "inbox/local/"+name)
	if err != nil {
		h.t.Fatal(err)
	}
	_, _ = object.Write([]byte(name))
	if _, err := object.Commit(); err != nil {
		h.t.Fatal(err)
	}
}

func TestEveryWayOfSubmittingHasItsEndReported(t *testing.T) {
	const address = "https://example.org/hook"
	onBoth(t, func(t *testing.T, kind string) {
		h := newHouse(t, kind)
		h.importing()
		h.keep("one.mp4")
		h.keep("two.mp4")
		file := filepath.Join(t.TempDir(), "three.mp4")
		if err := os.WriteFile(file, []byte("three"), 0o600); err != nil {
			t.Fatal(err)
		}
		contentType, body := form(t, field{"webhook", "", address}, field{"file", "form.mp4", "form"})
		made := map[string]answer{"a form": h.ask("", "POST", "/v1/jobs", body, "Content-Type", contentType)}
		begun := h.json("", "POST", "/v1/uploads", `{"name":"pieces.mp4","size":6}`)
		h.ask("", "PUT", begun.header.Get("Location"), strings.NewReader("pieces"), "Content-Type", "application/octet-stream")
		for way, order := range map[string]string{
			"an upload": fmt.Sprintf(`"upload":%q`, begun.body["id"]), "an object": `"object":"one.mp4"`, "a local file": fmt.Sprintf(`"file":%q`, file),
		} {
			made[way] = h.json("", "POST", "/v1/jobs", fmt.Sprintf(`{%s,"webhook":%q}`, order, address))
		}
		contentType, body = form(t, field{"webhook", "", address}, field{"file", "sheet.csv", "source\nobject:two.mp4\n"})
		imported := h.ask("", "POST", "/v1/imports", body, "Content-Type", contentType)
		eventually(t, "the import is over", func() bool {
			return h.json("", "GET", imported.header.Get("Location"), "").body["state"] == "completed"
		})
		rows := h.json("", "GET", imported.header.Get("Location")+"/rows", "").body["rows"].([]any)
		row := rows[0].(map[string]any)
		if row["target"] != "two.mp4" {
			t.Errorf("the row's target is %v", row["target"])
		}
		made["an import's row"] = h.json("", "GET", "/v1/jobs/"+row["job"].(string), "")
		for way, a := range made {
			id, _ := a.body["id"].(string)
			if id == "" {
				t.Errorf("%s = %d %s", way, a.status, a.text)
				continue
			}
			at := "/v1/jobs/" + id + "/webhooks"
			if before := h.json("", "GET", at, ""); before.text != "[]\n" {
				t.Errorf("%s has a report before its end: %s", way, before.text)
			}
			h.want(200, "cancelled", "POST", "/v1/jobs/"+id+"/cancel", `{}`)
			if after := h.json("", "GET", at, ""); strings.Count(after.text, `"state":"pending"`) != 1 {
				t.Errorf("%s has no report of its end: %s", way, after.text)
			}
		}
		due, err := h.store.DueHooks(t.Context(), 100, nil)
		for tries := 0; len(due) < len(made) && err == nil && tries < 5; tries++ { // of one tenant a few at once
			var more []job.DueHook
			more, err = h.store.DueHooks(t.Context(), 100, nil)
			due = append(due, more...)
		}
		if len(due) != len(made) || err != nil {
			t.Errorf("%d reports are due, %v", len(due), err)
		}
		for _, hook := range due {
			if hook.URL != address || !strings.Contains(string(hook.Body), `"job.cancelled"`) {
				t.Errorf("%+v", hook)
			}
		}
	})
}

func TestTheSameImportSentTwiceIsMadeOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, kind string) {
		h := newHouse(t, kind)
		other := h.key("other", 100_000, job.ScopeSubmit)
		mine := h.key("acme", 100_000, job.ScopeSubmit)
		send := func(key, idempotency, text string, fields ...field) answer {
			contentType, body := form(t, append(fields, field{"file", "sheet.csv", text})...)
			return h.ask(key, "POST", "/v1/imports", body, "Content-Type", contentType, "Idempotency-Key", idempotency)
		}
		first := send(mine, "k", "source\na\n")
		again := send(mine, "k", "source\na\n")
		if first.status != 202 || again.status != 200 || first.body["id"] != again.body["id"] || again.header.Get("Location") != first.header.Get("Location") {
			t.Errorf("twice = %d, then %d %s", first.status, again.status, again.text)
		}
		for what, a := range map[string]answer{
			"another sheet":   send(mine, "k", "source\nb\n"),
			"another webhook": send(mine, "k", "source\na\n", field{"webhook", "", "https://example.org/"}),
			"a job":           h.submit(mine, "talk", "bytes", "Idempotency-Key", "k"),
		} {
			if a.status != http.StatusUnprocessableEntity || a.body["code"] != "idempotency_mismatch" {
				t.Errorf("%s with the same key = %d %s", what, a.status, a.text)
			}
		}
		if a := send(other, "k", "source\na\n"); a.status != 202 || a.body["id"] == first.body["id"] {
			t.Errorf("another tenant's = %d %s", a.status, a.text)
		}
		if a, b := send(mine, "", "source\na\n"), send(mine, "", "source\na\n"); a.body["id"] == b.body["id"] {
			t.Error("without a key, two requests made one import")
		}
	})
}

// A watcher loses its connection after every event, and the job changes before, while and after it connects again.
func TestKilledConnectionsLoseNoChangeAndRepeatNone(t *testing.T) {
	onBoth(t, func(t *testing.T, kind string) {
		h := newHouse(t, kind)
		id := h.submit("", "talk", "bytes").body["id"].(string)
		j, err := h.store.Job(t.Context(), "local", id)
		if err != nil {
			t.Fatal(err)
		}
		c, err := h.store.Claim(t.Context(), job.ClaimRequest{Step: j.Steps[0].ID, Tenant: "local", Emission: 1, Stage: "ingest", Worker: "w", Lease: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		change := func(n int64) {
			if err := h.store.Progress(t.Context(), c, job.Progress{Unit: "clips", Done: n, Total: 12}); err != nil {
				t.Error(err)
			}
		}
		last, seen := "", int64(-1)
		for n := int64(1); n <= 12; n++ {
			if n%3 == 0 {
				change(n) // while nobody is connected
			}
			number, done := h.oneEvent(id, last, func() {
				if n%3 != 0 {
					change(n) // while it connects, or later
				}
			}, n)
			if done != n || number <= seen {
				t.Fatalf("connection %d with Last-Event-ID %q: event %d says %d of 12, the one before was %d", n, last, number, done, seen)
			}
			last, seen = fmt.Sprint(number), number
		}
	})
}

// oneEvent connects, has the job change, and kills the connection after the first event that says that so much is done.
func (h *house) oneEvent(id, last string, change func(), want int64) (number, done int64) {
	h.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(h.url, "http://"))
	if err != nil {
		h.t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	header := ""
	if last != "" {
		header = "Last-Event-ID: " + last + "\r\n"
	}
	fmt.Fprintf(conn, "GET /v1/jobs/%s/events HTTP/1.1\r\nHost: localhost\r\n%s\r\n", id, header)
	change()
	for stream := bufio.NewReader(conn); ; {
		line, err := stream.ReadString('\n')
		if err != nil {
			h.t.Fatalf("waiting for %d of 12 after event %s: %v", want, last, err)
		}
		if text, ok := strings.CutPrefix(line, "id: "); ok {
			_, _ = fmt.Sscan(text, &number)
			if text = strings.TrimSpace(text); text == last {
				h.t.Errorf("event %s came again", last)
			}
		}
		if _, rest, ok := strings.Cut(line, `"done":`); ok {
			if _, _ = fmt.Sscan(rest, &done); done >= want {
				return number, done
			}
		}
	}
}

func TestAForecastSaysWhenAJobOfAKnownPipelineWouldBeginAndEnd(t *testing.T) {
	onBoth(t, func(t *testing.T, kind string) {
		h := newHouse(t, kind)
		// Six jobs of two seconds at each of the two stages, then four more that wait for the two slots of the first.
		for _, stage := range []string{"ingest", "publish"} {
			if err := h.store.ReportWorker(t.Context(), job.WorkerStatus{ID: "w-" + stage, Stage: stage, Slots: 2, Breaker: "closed"}); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 6 {
			h.submit("", fmt.Sprint("done ", i), "bytes")
		}
		h.completeBoth(2 * time.Second)
		for i := range 4 {
			h.submit("", fmt.Sprint("open ", i), "bytes")
		}
		asked := time.Now()
		a := h.json("", "POST", "/v1/quotes", `{"size":1000}`)
		f := a.body["forecast"].(map[string]any)
		at := func(name string) time.Duration {
			text, _ := f[name].(string)
			moment, err := time.Parse(time.RFC3339, text)
			if err != nil {
				t.Fatalf("%s of %s: %v", name, a.text, err)
			}
			return moment.Sub(asked)
		}
		// Four before it on two slots: two rounds of 2 s, then its own 2 s, then publish.
		for name, want := range map[string]time.Duration{"start_at": 4 * time.Second, "end_at": 8 * time.Second, "late_end_at": 8 * time.Second} {
			if got := at(name); got < want-100*time.Millisecond || got > want+3*time.Second {
				t.Errorf("%s is %v from now, want %v", name, got, want)
			}
		}
		if f["position"] != 4.0 || f["executions"] != 12.0 || f["unknown"] != nil || a.body["price"] != 5.0 || a.body["accepted"] != true || a.body["in_flight"] != 4.0 {
			t.Errorf("quote = %s", a.text)
		}
	})
}

// completeBoth runs both steps of every job that was submitted, each for so long by the worker's clock.
func (h *house) completeBoth(took time.Duration) {
	h.t.Helper()
	h.mu.Lock()
	waiting := h.waiting
	h.waiting = nil
	h.mu.Unlock()
	for _, w := range waiting {
		for _, stage := range []string{"ingest", "publish"} {
			j, err := h.store.Job(h.t.Context(), w.Tenant, w.ID)
			if err != nil {
				h.t.Fatal(err)
			}
			c, err := h.store.Claim(h.t.Context(), job.ClaimRequest{Step: j.Steps[len(j.Steps)-1].ID, Tenant: w.Tenant, Emission: 1, Stage: stage, Worker: "w", Lease: time.Minute})
			if err != nil {
				h.t.Fatal(err)
			}
			now := time.Now()
			p := job.Publication{Claim: c, Output: []byte(`{}`), Timings: job.Timings{ReceivedAt: now.Add(-took), StartedAt: now.Add(-took), EndedAt: now}}
			if stage == "ingest" {
				p.Next = &job.Route{Stage: "publish", Queue: "p.fifo", DLQ: "pd.fifo", FIFO: true}
			}
			if got, err := h.store.Publish(h.t.Context(), p); err != nil || !got.Accepted {
				h.t.Fatalf("publish: %+v, %v", got, err)
			}
		}
	}
}

func TestAHeaderThatIsTooLongIsRefused(t *testing.T) {
	address, stop := serve(t, api.Config{Record: memory(), Log: zap.NewNop()}, "127.0.0.1:0")
	defer stop()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: %s\r\n\r\n", strings.Repeat("x", 100<<10))
	if line, _ := bufio.NewReader(conn).ReadString('\n'); !strings.Contains(line, "431") {
		t.Errorf("= %q", line)
	}
}

func TestRangesThatAskForTooMuchGetTheFileOrARefusal(t *testing.T) {
	h := newHouse(t, "sqlite")
	id := h.submit("", "talk", "bytes").body["id"].(string)
	h.complete(map[string]string{"index.html": "0123456789"})
	for value, want := range map[string]string{
		"bytes=-100": "206 0123456789", "bytes=5-100": "206 56789", "bytes=0-0": "206 0", "bytes=10-": "416", "bytes=3-2": "416",
		"bytes=99999999999999999999-": "416", "items=0-1": "416", "bytes=" + strings.Repeat("0-,", 500) + "0-": "200 0123456789",
	} {
		a := h.ask("", "GET", "/v1/jobs/"+id+"/result/", nil, "Range", value)
		got := fmt.Sprint(a.status)
		if a.status != 416 {
			got += " " + a.text
		}
		if got != want {
			t.Errorf("%.40s = %s, want %s", value, got, want)
		}
	}
	if a := h.ask("", "GET", "/v1/jobs/"+id+"/result/", nil, "Range", "bytes=0-1,4-5"); a.status != 206 || !strings.HasPrefix(a.header.Get("Content-Type"), "multipart/byteranges") {
		t.Errorf("two ranges = %d %v", a.status, a.header)
	}
}

func TestOnlyTheLocalOperatorNamesAddressesOfThisMachine(t *testing.T) {
	h := newHouse(t, "sqlite")
	acme := h.key("acme", 100_000, job.AllScopes()...)
	local := h.key("local", 100_000, job.AllScopes()...)
	for key, want := range map[string]int{acme: http.StatusBadRequest, local: http.StatusAccepted} {
		contentType, body := form(t, field{"webhook", "", "http://127.0.0.1:9/hook"}, field{"file", "a.mp4", "x"})
		if a := h.ask(key, "POST", "/v1/jobs", body, "Content-Type", contentType); a.status != want {
			t.Errorf("= %d %s, want %d", a.status, a.text, want)
		}
		contentType, body = form(t, field{"webhook", "", "https://169.254.169.254/latest"}, field{"file", "a.csv", "source\na\n"})
		if a := h.ask(key, "POST", "/v1/imports", body, "Content-Type", contentType); a.status != want {
			t.Errorf("an import = %d %s, want %d", a.status, a.text, want)
		}
	}
}

package api_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/stagefleet/stagefleet/pkg/api"
	"github.com/stagefleet/stagefleet/pkg/blob"
	"github.com/stagefleet/stagefleet/pkg/job"
)

func TestAnUploadGoesOnWhereItBrokeOff(t *testing.T) {
	h := newHouse(t, "sqlite")
	whole := strings.Repeat("0123456789", 5000)
	sum := sha256.Sum256([]byte(whole))
	begun := h.json("", "POST", "/v1/uploads", fmt.Sprintf(`{"name":"talk.mp4","size":%d,"sha256":"%x"}`, len(whole), sum))
	at := begun.header.Get("Location")
	if begun.status != http.StatusCreated || begun.header.Get("Upload-Offset") != "0" {
		t.Fatalf("begin = %d %s", begun.status, begun.text)
	}
	breakOff(t, h.url, at, whole, 20_000)
	var offset int64
	eventually(t, "what came is kept", func() bool {
		head := h.ask("", http.MethodHead, at, nil)
		_, err := fmt.Sscan(head.header.Get("Upload-Offset"), &offset)
		return err == nil && offset > 0
	})
	if offset > 20_000 {
		t.Fatalf("the upload stands at %d", offset)
	}
	send := func(first int64, last int, body string) answer {
		return h.ask("", http.MethodPut, at, strings.NewReader(body), "Content-Type", "application/octet-stream", "Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, len(whole)))
	}
	if a := send(offset+1, len(whole)-1, whole[offset+1:]); a.status != http.StatusConflict || a.header.Get("Upload-Offset") != fmt.Sprint(offset) {
		t.Errorf("a gap = %d %s", a.status, a.text)
	}
	if a := h.json("", "POST", "/v1/jobs", fmt.Sprintf(`{"upload":%q}`, begun.body["id"])); a.status != http.StatusConflict {
		t.Errorf("submitting half = %d %s", a.status, a.text)
	}
	if a := send(offset, len(whole)-1, whole[offset:]); a.status != 200 || a.body["complete"] != true {
		t.Fatalf("the rest = %d %s", a.status, a.text)
	}
	for _, want := range []int{http.StatusAccepted, http.StatusOK} { // the same key: the same job
		a := h.ask("", "POST", "/v1/jobs", strings.NewReader(fmt.Sprintf(`{"upload":%q}`, begun.body["id"])), "Idempotency-Key", "k")
		if a.status != want || a.body["target"] != "talk.mp4" || a.body["version"] != 1.0 {
			t.Errorf("submit = %d %s", a.status, a.text)
		}
	}
	if a := h.ask("", "POST", "/v1/jobs", strings.NewReader(fmt.Sprintf(`{"upload":%q,"target":"x"}`, begun.body["id"])), "Idempotency-Key", "k"); a.status != http.StatusUnprocessableEntity {
		t.Errorf("the same key for something else = %d", a.status)
	}
	kept, err := h.objects.Open(t.Context(), "uploads/local/"+begun.body["id"].(string)+"/source")
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	if got, _ := io.ReadAll(kept); string(got) != whole {
		t.Error("the object is not what was sent")
	}
}

// breakOff sends the head of an upload and the first n bytes of its body, and hangs up.
func breakOff(t *testing.T, url, path, body string, n int) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "PUT %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body[:n])
	conn.Close()
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

func TestUploadsThatCannotBeAreRefusedWithTheBound(t *testing.T) {
	h := newHouse(t, "sqlite")
	for body, want := range map[string]int{
		fmt.Sprintf(`{"name":"a","size":%d}`, maxUpload+1): 413, `{"name":"a","size":0}`: 422, `{"name":"","size":1}`: 422, `{"name":"a","size":1,"sha256":"x"}`: 422,
	} {
		a := h.json("", "POST", "/v1/uploads", body)
		if a.status != want || want == 413 && !strings.Contains(a.text, fmt.Sprint(maxUpload)) {
			t.Errorf("%s = %d %s", body, a.status, a.text)
		}
	}
	at := h.json("", "POST", "/v1/uploads", `{"name":"a","size":4,"sha256":"`+strings.Repeat("0", 64)+`"}`).header.Get("Location")
	for _, wrong := range []string{"bytes 0-4/4", "bytes 0-3/5", "bytes 3-1/4", "bytes */4", "items 0-3/4", "bytes 0-0/4"} {
		a := h.ask("", "PUT", at, strings.NewReader("abcd"), "Content-Type", "application/octet-stream", "Content-Range", wrong)
		if a.status != 400 || a.body["code"] != "content_range" {
			t.Errorf("%s = %d %s", wrong, a.status, a.text)
		}
	}
	if a := h.ask("", "PUT", at, strings.NewReader("abcd")); a.status != http.StatusUnsupportedMediaType {
		t.Errorf("bytes as JSON = %d %s", a.status, a.text)
	}
	a := h.ask("", "PUT", at, strings.NewReader("abcd"), "Content-Type", "application/octet-stream")
	if a.status != 422 || a.body["code"] != "checksum" || h.ask("", "HEAD", at, nil).header.Get("Upload-Offset") != "0" {
		t.Errorf("other bytes than announced = %d %s", a.status, a.text)
	}
}

func TestWhatIsLongerThanAnnouncedIsNotCutOffInSilence(t *testing.T) {
	h := newHouse(t, "sqlite")
	for name, body := range map[string]io.Reader{"with a length": strings.NewReader("abcdef"), "without one": struct{ io.Reader }{strings.NewReader("abcdef")}} {
		at := h.json("", "POST", "/v1/uploads", `{"name":"a","size":4}`).header.Get("Location")
		a := h.ask("", "PUT", at, body, "Content-Type", "application/octet-stream")
		if a.status != 400 || a.body["code"] != "long_upload" || a.header.Get("Upload-Offset") != "0" {
			t.Errorf("%s = %d %v %s", name, a.status, a.header, a.text)
		}
		a = h.ask("", "PUT", at, struct{ io.Reader }{strings.NewReader("abcd")}, "Content-Type", "application/octet-stream")
		if a.status != 200 || a.body["complete"] != true {
			t.Errorf("%s, then as announced = %d %s", name, a.status, a.text)
		}
	}
	at := h.json("", "POST", "/v1/uploads", `{"name":"a","size":4}`).header.Get("Location")
	a := h.ask("", "PUT", at, struct{ io.Reader }{strings.NewReader("abc")}, "Content-Type", "application/octet-stream", "Content-Range", "bytes 0-1/4")
	if a.status != 400 || a.body["code"] != "long_upload" || a.header.Get("Upload-Offset") != "2" {
		t.Errorf("a range = %d %v %s", a.status, a.header, a.text)
	}
}

func TestAnUploadMakesOneJob(t *testing.T) {
	onBoth(t, func(t *testing.T, kind string) {
		h := newHouse(t, kind)
		begun := h.json("", "POST", "/v1/uploads", `{"name":"talk.mp4","size":4}`)
		h.ask("", "PUT", begun.header.Get("Location"), strings.NewReader("abcd"), "Content-Type", "application/octet-stream")
		h.want(202, "talk.mp4", "POST", "/v1/jobs", fmt.Sprintf(`{"upload":%q}`, begun.body["id"]))
		h.want(200, "talk.mp4", "POST", "/v1/jobs", fmt.Sprintf(`{"upload":%q,"version":1}`, begun.body["id"]))
		h.want(409, "upload_gone", "POST", "/v1/jobs", fmt.Sprintf(`{"upload":%q,"target":"another"}`, begun.body["id"]))
	})
}

// full is a store whose disk is.
type full struct{ blob.Store }

func (f full) Create(ctx context.Context, key string) (blob.Writer, error) {
	w, err := f.Store.Create(ctx, key)
	return fullWriter{w}, err
}

type fullWriter struct{ blob.Writer }

func (fullWriter) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestAFaultOfTheStoreIsNotTheSendersFault(t *testing.T) {
	b := setup(t)
	objects, err := blob.NewFolder(b.folder)
	if err != nil {
		t.Fatal(err)
	}
	server := api.NewServer(api.Config{Record: b.record, Imports: b.record, Objects: full{objects}, MaxUpload: maxUpload, Log: zap.NewNop()})
	for _, path := range []string{"/v1/jobs", "/v1/imports"} {
		contentType, body := form(t, field{"file", "a", "source\na.mp4\n"})
		r := httptest.NewRequest(http.MethodPost, "http://localhost"+path, body)
		r.Header.Set("Content-Type", contentType)
		answer := httptest.NewRecorder()
		if server.ServeHTTP(answer, r); answer.Code != http.StatusInternalServerError || !strings.Contains(answer.Body.String(), "disk is full") {
			t.Errorf("%s on a full disk = %d %s", path, answer.Code, answer.Body)
		}
	}
}

func TestASubmissionMayNameAFileOfTheMachineOrAnObjectOfItsTenant(t *testing.T) {
	h := newHouse(t, "sqlite")
	dir := t.TempDir()
	file := filepath.Join(dir, "talk.mp4")
	if err := os.WriteFile(file, []byte("bytes"), 0o600); err != nil {
		t.Fatal(err)
	}
	link, pipe := filepath.Join(dir, "link"), filepath.Join(dir, "pipe")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	object, err := h.objects.Create(t.Context(), "inbox/local/in/talk.mp4")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = object.Write([]byte("bytes"))
	if _, err := object.Commit(); err != nil {
		t.Fatal(err)
	}
	for body, want := range map[string]int{
		fmt.Sprintf(`{"file":%q}`, file): 202, fmt.Sprintf(`{"file":%q}`, link): 422, fmt.Sprintf(`{"file":%q}`, pipe): 422, fmt.Sprintf(`{"file":%q}`, dir): 422,
		`{"file":"/dev/zero"}`: 422, `{"file":"talk.mp4"}`: 422, `{"file":"/no/such"}`: 422,
		`{"object":"in/talk.mp4"}`: 202, `{"object":"../other/in/talk.mp4"}`: 404, `{"object":"/etc/passwd"}`: 404, `{"object":"not/there"}`: 404,
		`{"file":"/a","object":"b"}`: 422, `{}`: 422, `{"object":"in/talk.mp4","version":-1}`: 422, `{"object":"in/talk.mp4","target":"a\u0007"}`: 422,
	} {
		if a := h.json("", "POST", "/v1/jobs", body); a.status != want {
			t.Errorf("%s = %d %s, want %d", body, a.status, a.text, want)
		}
	}
	tenant := h.key("acme", 0, job.ScopeSubmit)
	if a := h.json(tenant, "POST", "/v1/jobs", fmt.Sprintf(`{"file":%q}`, file)); a.status != http.StatusForbidden {
		t.Errorf("a tenant's key reads the server's disk: %d", a.status)
	}
}

func TestResultsAreReadWholeAndInRanges(t *testing.T) {
	h := newHouse(t, "sqlite")
	id := h.submit("", "talk", "bytes").body["id"].(string)
	at := "/v1/jobs/" + id + "/result/"
	if a := h.ask("", "GET", at, nil); a.status != http.StatusConflict || a.body["code"] != "no_result" {
		t.Errorf("before the end = %d %s", a.status, a.text)
	}
	h.complete(map[string]string{"index.html": "<p>hello</p>", "clips/clip-01.mp4": "0123456789"})
	page := h.ask("", "GET", at, nil)
	if page.status != 200 || page.text != "<p>hello</p>" || page.header.Get("Content-Type") != "text/html; charset=utf-8" || !strings.Contains(page.header.Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("page = %d %v %s", page.status, page.header, page.text)
	}
	clip := at + "clips/clip-01.mp4"
	tag := h.ask("", "HEAD", clip, nil).header.Get("ETag")
	for _, c := range []struct {
		name, value, want string
		status            int
	}{
		{"Range", "bytes=2-4", "234", 206}, {"Range", "bytes=-3", "789", 206}, {"Range", "bytes=8-", "89", 206}, {"Accept", "*/*", "0123456789", 200},
		{"If-None-Match", tag, "", 304},
	} {
		if a := h.ask("", "GET", clip, nil, c.name, c.value); a.status != c.status || a.text != c.want {
			t.Errorf("%s %s = %d %q", c.name, c.value, a.status, a.text)
		}
	}
	if a := h.ask("", "GET", clip, nil, "Range", "bytes=2-4", "If-Range", `"another"`); a.status != 200 {
		t.Errorf("a range of another = %d", a.status)
	}
	if a := h.ask("", "GET", clip, nil, "Range", "bytes=20-"); a.status != 416 || a.body["code"] != "range" || a.header.Get("Content-Range") != "bytes */10" {
		t.Errorf("beyond the end = %d %v %s", a.status, a.header, a.text)
	}
	for _, outside := range []string{"nothing.txt", "..%2f..%2fsecret", ".hidden"} {
		if a := h.ask("", "GET", at+outside, nil); a.status != 404 {
			t.Errorf("%s = %d", outside, a.status)
		}
	}
}

func TestAQuoteSaysThePriceAndWhatIsKnownOfTheTime(t *testing.T) {
	onBoth(t, func(t *testing.T, kind string) {
		h := newHouse(t, kind)
		a := h.json("", "POST", "/v1/quotes", `{}`)
		forecast := a.body["forecast"].(map[string]any)
		if a.status != 200 || a.body["price"] != 5.0 || a.body["accepted"] != true || forecast["unknown"] == nil || forecast["end_at"] != nil {
			t.Errorf("an empty fleet's = %d %s", a.status, a.text)
		}
		if a := h.json("", "POST", "/v1/quotes", fmt.Sprintf(`{"size":%d}`, maxUpload+1)); a.body["accepted"] != false || a.body["reason"] != "too_large" {
			t.Errorf("too large = %s", a.text)
		}
		key := h.key("poor", 0, job.ScopeSubmit)
		limited := false
		if err := h.store.ChangeLimits(t.Context(), "poor", job.Limits{Unlimited: &limited}, "test"); err != nil {
			t.Fatal(err)
		}
		if a := h.json(key, "POST", "/v1/quotes", `{}`); a.body["reason"] != "balance" {
			t.Errorf("without a balance = %s", a.text)
		}
		if a := h.submit(key, "talk", "x"); a.status != http.StatusPaymentRequired {
			t.Errorf("what the quote declined = %d", a.status)
		}
	})
}

var uploadMiB = flag.Int("upload-mib", 256, "size of the upload whose memory is measured")

// zeros is a recording that nobody holds, with the most memory that the process was seen to use while it was read.
type zeros struct {
	left int64
	peak atomic.Uint64
	n    int
}

func (z *zeros) Read(p []byte) (int, error) {
	if z.left == 0 {
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), z.left))
	clear(p[:n])
	z.left -= int64(n)
	if z.n++; z.n%256 == 0 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		z.peak.Store(max(z.peak.Load(), m.HeapInuse+m.StackInuse))
	}
	return n, nil
}

func TestALongUploadNeedsNoMoreMemoryThanAShortOne(t *testing.T) {
	const bound = 32 << 20
	size := int64(*uploadMiB) << 20
	h := newHouseOf(t, "sqlite", size)
	for name, send := range map[string]func(*zeros) int{
		"in one form": func(z *zeros) int {
			contentType, head := form(t, field{"file", "long.mp4", ""})
			text, _ := io.ReadAll(head)
			at := bytes.Index(text, []byte("\r\n\r\n")) + 4
			return h.ask("", "POST", "/v1/jobs", io.MultiReader(bytes.NewReader(text[:at]), z, bytes.NewReader(text[at:])), "Content-Type", contentType).status
		},
		"in pieces": func(z *zeros) int {
			at := h.json("", "POST", "/v1/uploads", fmt.Sprintf(`{"name":"long.mp4","size":%d}`, size)).header.Get("Location")
			return h.ask("", "PUT", at, z, "Content-Type", "application/octet-stream").status
		},
	} {
		runtime.GC()
		var before runtime.MemStats
		runtime.ReadMemStats(&before)
		z := &zeros{left: size}
		began := time.Now()
		if status := send(z); status >= 300 {
			t.Errorf("%s = %d", name, status)
		}
		grown := int64(z.peak.Load()) - int64(before.HeapInuse+before.StackInuse)
		t.Logf("%d MiB %s: %.1f MiB more memory at most, both ends, in %.1f s", *uploadMiB, name, float64(grown)/(1<<20), time.Since(began).Seconds())
		if grown > bound {
			t.Errorf("%s: memory grew by %d bytes, bound %d", name, grown, bound)
		}
	}
}

func TestAnUploadIsKeptForAsLongAsItIsSaidToBe(t *testing.T) {
	h := newHouse(t, "sqlite")
	at := h.json("", "POST", "/v1/uploads", `{"name":"a","size":4}`).header.Get("Location")
	idle := func() string {
		folders, err := h.store.IdleUploads(t.Context(), 0, 0, 10)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(folders, ",")
	}
	send := func(bytes, body string) {
		t.Helper()
		if a := h.ask("", "PUT", at, strings.NewReader(body), "Content-Type", "application/octet-stream", "Content-Range", bytes); a.status != 200 {
			t.Fatalf("%s = %d %s", bytes, a.status, a.text)
		}
	}
	send("bytes 0-1/4", "ab")
	if got := idle(); got != "" {
		t.Errorf("garbage before the upload is whole: %s", got)
	}
	send("bytes 2-3/4", "cd")
	if got := idle(); !strings.HasSuffix(got, "-pieces") || strings.Contains(got, ",") {
		t.Errorf("garbage once it is whole: %q, want its pieces alone", got)
	}
}

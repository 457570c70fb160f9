package api_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/stagefleet/stagefleet/pkg/api"
	"github.com/stagefleet/stagefleet/pkg/blob"
	"github.com/stagefleet/stagefleet/pkg/job"
)

// decoder is a server on a real record for whatever text arrives; nothing that it is sent may be its own fault.
func decoder(f *testing.F) *api.Server {
	objects, err := blob.NewFolder(f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	return api.NewServer(api.Config{
		Record: open(f, "sqlite", job.Options{}), Objects: objects, Place: "file:///", Overview: overview{}, MaxUpload: 1 << 10, Log: zap.NewNop(),
		First: job.Route{Stage: "ingest", Queue: "q", DLQ: "d"}, Metrics: http.NotFoundHandler(),
	})
}

// feed sends a request without a network and expects an answer that blames no server.
func feed(t *testing.T, server http.Handler, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer := httptest.NewRecorder()
	server.ServeHTTP(answer, r)
	if answer.Code >= 500 {
		t.Errorf("%s %s = %d %s", method, path, answer.Code, answer.Body)
	}
	return answer
}

func FuzzJSONBodies(f *testing.F) {
	server := decoder(f)
	paths := []string{"/v1/jobs", "/v1/uploads", "/v1/quotes", "/v1/accounts", "/v1/accounts/acme/grants", "/v1/keys/x/rotate"}
	for _, seed := range []string{`{}`, `{"tenant":"acme"}`, `{"upload":"x"}`, `{"object":"a"}`, `{"name":"a","size":1}`, `{"size":9223372036854775807}`, `{"overlap_seconds":9223372036854775807}`, `{"id":"g","amount":-1}`, `{"target":"\u0000"}`, `[`, "\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		for _, path := range paths {
			feed(t, server, http.MethodPost, path, body, "Content-Type", "application/json")
		}
	})
}

func FuzzForms(f *testing.F) {
	server := decoder(f)
	f.Add("multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nx\r\n--b--\r\n")
	f.Add("multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=\"target\"\r\n\r\n\x00\r\n--b--\r\n")
	f.Add("multipart/form-data", "")
	f.Fuzz(func(t *testing.T, contentType, body string) {
		feed(t, server, http.MethodPost, "/v1/jobs", body, "Content-Type", contentType)
	})
}

func FuzzRanges(f *testing.F) {
	server := decoder(f)
	for _, seed := range []string{"bytes 0-1/2", "bytes 1-0/2", "bytes */2", "bytes 0-9223372036854775807/2", "bytes -1-2/2", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		begun := feed(t, server, http.MethodPost, "/v1/uploads", `{"name":"a","size":2}`, "Content-Type", "application/json")
		a := feed(t, server, http.MethodPut, begun.Header().Get("Location"), "ab", "Content-Type", "application/octet-stream", "Content-Range", text)
		if whole := text == "" || text == "bytes 0-1/2"; a.Code == http.StatusOK && !whole && !strings.HasPrefix(text, "bytes 0") {
			t.Errorf("%q was taken", text)
		}
	})
}

func FuzzCursors(f *testing.F) {
	server := decoder(f)
	for _, seed := range []string{"", "MWE", "!", "MQ", "MX4", strings.Repeat("A", 200)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, cursor string) {
		r := httptest.NewRequest(http.MethodGet, "http://localhost/v1/jobs", nil)
		r.URL.RawQuery = "cursor=" + strings.NewReplacer("&", "%26", ";", "%3B", "+", "%2B", "#", "%23").Replace(cursor)
		answer := httptest.NewRecorder()
		server.ServeHTTP(answer, r)
		if answer.Code >= 500 {
			t.Errorf("%q = %d %s", cursor, answer.Code, answer.Body)
		}
	})
}

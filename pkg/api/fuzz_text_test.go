package api_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"go.uber.org/zap"

	"github.com/stagefleet/stagefleet/pkg/api"
	"github.com/stagefleet/stagefleet/pkg/blob"
	"github.com/stagefleet/stagefleet/pkg/job"
)

// strict is a record that refuses what Postgres does: text with a NUL or that is not UTF-8.
type strict struct{ *job.Store }

var errText = errors.New("invalid byte sequence for encoding UTF8")

func keepable(texts ...string) error {
	for _, text := range texts {
		if !utf8.ValidString(text) || strings.Contains(text, "\x00") {
			return errText
		}
	}
	return nil
}

func (s strict) CreateImport(ctx context.Context, i job.ImportSheet) (job.Import, error) {
	if err := keepable(i.Name, i.Folder); err != nil {
		return job.Import{}, err
	}
	return s.Store.CreateImport(ctx, i)
}

func (s strict) Import(ctx context.Context, tenant, id string) (job.Import, error) {
	if err := keepable(id); err != nil {
		return job.Import{}, err
	}
	return s.Store.Import(ctx, tenant, id)
}

func (s strict) ImportRows(ctx context.Context, tenant string, after job.RowRef, refused bool, limit int) ([]job.ImportRow, error) {
	if err := keepable(after.Import, after.Sheet); err != nil {
		return nil, err
	}
	return s.Store.ImportRows(ctx, tenant, after, refused, limit)
}

func (s strict) Imports(ctx context.Context, tenant, cursor string, limit int) ([]job.Import, string, error) {
	if err := keepable(cursor); err != nil {
		return nil, "", err
	}
	return s.Store.Imports(ctx, tenant, cursor, limit)
}

func (s strict) Job(ctx context.Context, tenant, id string) (job.Job, error) {
	if err := keepable(id); err != nil {
		return job.Job{}, err
	}
	return s.Store.Job(ctx, tenant, id)
}

func (s strict) CheckKey(ctx context.Context, secret string) (job.Key, error) {
	if id, _, ok := strings.Cut(secret, "_"); ok {
		if err := keepable(id); err != nil {
			return job.Key{}, err
		}
	}
	return s.Store.CheckKey(ctx, secret)
}

func strictDecoder(f *testing.F) (*api.Server, *job.Store) {
	objects, err := blob.NewFolder(f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	record := strict{open(f, "sqlite", job.Options{})}
	return api.NewServer(api.Config{
		Record: record, Imports: record, Local: true, Objects: objects, Place: "file:///", Overview: overview{}, MaxUpload: 1 << 10, Log: zap.NewNop(),
		First: job.Route{Stage: "ingest", Queue: "q", DLQ: "d"}, Metrics: http.NotFoundHandler(),
	}), record.Store
}

func FuzzSheetForms(f *testing.F) {
	server, _ := strictDecoder(f)
	const media = "multipart/form-data; boundary=b"
	f.Add(media, "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.csv\"\r\n\r\nsource\r\n--b--\r\n")
	f.Add(media, "--b\r\nContent-Disposition: form-data; name=\"file\"; filename*=utf-8''a%00b\r\n\r\nx\r\n--b--\r\n")
	f.Add(media, "--b\r\nContent-Disposition: form-data; name=\"folder\"\r\n\r\n/\x00\xff\r\n--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nx\r\n--b--\r\n")
	f.Fuzz(func(t *testing.T, contentType, body string) {
		feed(t, server, http.MethodPost, "/v1/imports", body, "Content-Type", contentType)
	})
}

func FuzzAddresses(f *testing.F) {
	server, _ := strictDecoder(f)
	f.Add("x\x00", "5/Sheet\x00", "1")
	f.Add("\xff", "9223372036854775808/", "501")
	f.Add("..", "-1/a/b", "-1")
	f.Fuzz(func(t *testing.T, id, cursor, limit string) {
		query := url.Values{"cursor": {cursor}, "limit": {limit}, "refused": {"true"}}.Encode()
		for _, path := range []string{"/v1/imports/" + url.PathEscape(id), "/v1/imports/" + url.PathEscape(id) + "/rows?" + query,
			"/v1/imports?" + url.Values{"cursor": {cursor}}.Encode(), "/v1/jobs/" + url.PathEscape(id), "/v1/jobs/" + url.PathEscape(id) + "/events"} {
			feed(t, server, http.MethodGet, path, "")
		}
	})
}

func FuzzKeys(f *testing.F) {
	server, record := strictDecoder(f)
	unlimited := true
	if _, err := record.CreateAccount(f.Context(), "acme", job.Limits{Unlimited: &unlimited}, "test"); err != nil {
		f.Fatal(err)
	}
	key, err := record.CreateKey(f.Context(), job.KeyRequest{Tenant: "acme", Scopes: []job.Scope{job.ScopeView}}, "test")
	if err != nil {
		f.Fatal(err)
	}
	f.Add("Bearer " + key.Secret)
	f.Add("Bearer " + key.Secret[:len(key.Secret)-1] + "x")
	f.Add("bearer x")
	f.Fuzz(func(t *testing.T, authorization string) {
		r := httptest.NewRequest(http.MethodGet, "http://localhost/v1/jobs", nil)
		r.Header.Set("Authorization", authorization)
		answer := httptest.NewRecorder()
		server.ServeHTTP(answer, r)
		if answer.Code >= 500 {
			t.Errorf("%q = %d %s", authorization, answer.Code, answer.Body)
		}
		if own := strings.TrimSpace(strings.TrimPrefix(authorization, "Bearer ")) == key.Secret; answer.Code == http.StatusOK && !own {
			t.Errorf("%q is let in", authorization)
		}
	})
}

func FuzzLastEventID(f *testing.F) {
	server, record := strictDecoder(f)
	j, err := record.Submit(f.Context(), job.Submission{
		Tenant: "local", Target: "talk", Digest: "d", Input: []byte(`{}`), First: job.Route{Stage: "ingest", Queue: "q", DLQ: "d"},
	})
	if err == nil {
		err = record.Cancel(f.Context(), "local", j.ID, "test", "")
	}
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{"", "2", "-1", "9223372036854775808", "x", "3\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, id string) {
		answer := feed(t, server, http.MethodGet, "/v1/jobs/"+j.ID+"/events", "", "Last-Event-ID", id)
		if answer.Code != http.StatusOK || !strings.Contains(answer.Body.String(), `"state":"cancelled"`) {
			t.Errorf("%q = %d %s", id, answer.Code, answer.Body)
		}
	})
}

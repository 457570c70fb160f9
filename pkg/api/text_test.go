package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/webhook"
)

// unkept are texts that one of the databases does not keep, or takes for something else.
var unkept = map[string]string{"a NUL": "a\x00b", "no UTF-8": "a\xffb", "a line break": "a\nb"}

// The sweep goes over whatever is in the document, on both stores: Postgres takes no NUL and nothing but UTF-8.
func TestNoTextInAnAddressIsTheServersFault(t *testing.T) {
	onBoth(t, func(t *testing.T, kind string) {
		h := newHouse(t, kind)
		key := h.key("acme", 1_000_000, job.AllScopes()...)
		escaped := map[string]string{"a NUL": "a%00b", "no UTF-8": "a%ffb"}
		for _, op := range operations() {
			if op.scope == "" {
				continue
			}
			for name, text := range escaped {
				path := hole.ReplaceAllString(op.path, text)
				if path != op.path {
					a := h.ask(key, strings.ToUpper(op.method), path, strings.NewReader(`{}`), "Content-Type", mediaOf(op))
					if a.status != http.StatusNotFound || a.body["code"] != "not_found" {
						t.Errorf("%s with %s in the path = %d %s", op.name(), name, a.status, a.text)
					}
				}
				for _, query := range op.query {
					a := h.ask(key, strings.ToUpper(op.method), hole.ReplaceAllString(op.path, nobodys)+"?"+query+"="+text, nil)
					if a.status != http.StatusBadRequest {
						t.Errorf("%s with %s in %s = %d %s", op.name(), name, query, a.status, a.text)
					}
				}
			}
		}
	})
}

func mediaOf(op operation) string {
	if len(op.media) == 0 {
		return "application/json"
	}
	return op.media[0]
}

func TestNoTextOfASubmissionOrAnImportIsTheServersFault(t *testing.T) {
	onBoth(t, func(t *testing.T, kind string) {
		h := newHouse(t, kind)
		for name, text := range unkept {
			for what, fields := range map[string][]field{
				"target":  {{"target", "", text}, {"file", "a.mp4", "x"}},
				"webhook": {{"webhook", "", "https://example.org/" + text}, {"file", "a.mp4", "x"}},
				"version": {{"version", "", text}, {"file", "a.mp4", "x"}},
			} {
				contentType, body := form(t, fields...)
				a := h.ask("", "POST", "/v1/jobs", body, "Content-Type", contentType)
				if a.status != 400 && a.status != 422 {
					t.Errorf("%s in the %s = %d %s", name, what, a.status, a.text)
				}
			}
			for _, what := range []string{"folder", "webhook"} {
				contentType, body := form(t, field{what, "", map[string]string{"folder": "/", "webhook": "https://example.org/"}[what] + text}, field{"file", "a.csv", "source\na\n"})
				if a := h.ask("", "POST", "/v1/imports", body, "Content-Type", contentType); a.status != 400 {
					t.Errorf("%s in the %s of an import = %d %s", name, what, a.status, a.text)
				}
			}
		}
		h.submit("", "talk", "bytes") // so that there is an account
		for _, order := range []string{`{"file":"/no\u0000such"}`, `{"object":"a\u0000b"}`, `{"upload":"a\u0000b"}`, `{"object":"a","target":"a\u0000b"}`, `{"object":"a","name":"a\u0000b"}`, `{"object":"a","webhook":"https://example.org/\u0000"}`} {
			if a := h.json("", "POST", "/v1/jobs", order); a.status < 400 || a.status >= 500 {
				t.Errorf("%s = %d %s", order, a.status, a.text)
			}
		}
		for path, order := range map[string]string{
			"/v1/uploads": `{"name":"a\u0000b","size":1}`, "/v1/keys": `{"tenant":"local","name":"a\u0000b","scopes":["view"]}`, "/v1/keys?": `{"tenant":"a\u0000b","scopes":["view"]}`,
			"/v1/accounts":              `{"tenant":"a\u0000b"}`,
			"/v1/accounts/local/grants": `{"id":"a\u0000b","amount":1}`, "/v1/dead/x/discard": `{"reason":"a\u0000b"}`,
		} {
			if a := h.json("", "POST", path, order); a.status < 400 || a.status >= 500 {
				t.Errorf("%s %s = %d %s", path, order, a.status, a.text)
			}
		}
		for _, key := range []string{strings.Repeat("k", 256), "a\xffb"} {
			contentType, body := form(t, field{"file", "a.mp4", "x"})
			for _, path := range []string{"/v1/jobs", "/v1/imports"} {
				if a := h.ask("", "POST", path, body, "Content-Type", contentType, "Idempotency-Key", key); a.status != 400 || a.body["code"] != "idempotency_key" {
					t.Errorf("the key %.10q to %s = %d %s", key, path, a.status, a.text)
				}
			}
		}
		contentType, body := form(t, field{"file", "a.mp4", "x"})
		if a := h.ask("", "POST", "/v1/jobs", body, "Content-Type", contentType, "Traceparent", "00-\xff"+strings.Repeat("x", 5000)); a.status != 202 {
			t.Errorf("a trace context that is none = %d %s", a.status, a.text)
		}
	})
}

func TestWhatAProviderSignsIsStoredOrRefusedWhateverItsText(t *testing.T) {
	onBoth(t, func(t *testing.T, kind string) {
		h := newHouse(t, kind)
		send := func(id, body string) answer {
			header := http.Header{}
			webhook.Sign(header, providers(t)["speech"], id, time.Now(), []byte(body))
			return h.ask("", "POST", "/v1/provider-events/speech", strings.NewReader(body), webhook.HeaderID, header.Get(webhook.HeaderID),
				webhook.HeaderTimestamp, header.Get(webhook.HeaderTimestamp), webhook.HeaderSignature, header.Get(webhook.HeaderSignature))
		}
		for i, body := range []string{`{"effect":"a\u0000b"}`, `{"text":"a\u0000b"}`, `{"metadata":{"effect":"a\u000ab"}}`, `{"effect":"\ud800"}`, `{"a\u0000":1}`} {
			want := 200
			if strings.Contains(body, `\u0000`) {
				want = http.StatusUnprocessableEntity
			}
			if a := send(fmt.Sprint("e", i), body); a.status != want {
				t.Errorf("%s = %d %s", body, a.status, a.text)
			}
		}
		if a := send("e\xff", `{}`); a.status != http.StatusUnprocessableEntity {
			t.Errorf("an identifier that is not UTF-8 = %d %s", a.status, a.text)
		}
	})
}

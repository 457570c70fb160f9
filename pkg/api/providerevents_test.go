package api_test

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/api"
	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/webhook"
)

var speechSecret = "whsec_" + strings.Repeat("c3BlZWNo", 4) // 24 bytes

// events is a real record for what providers report and submitters are told.
func events(t *testing.T) *job.Store {
	t.Helper()
	s, err := job.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "record.db"), job.Options{Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func providers(t testing.TB) map[string][]webhook.Secret {
	t.Helper()
	s, err := webhook.ParseSecret(speechSecret)
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]webhook.Secret{"speech": {s}}
}

// event signs a body and sends it; change has the last word on the request.
func (b *bundle) event(t *testing.T, provider, id, body string, change func(*http.Request)) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.server.URL+"/v1/provider-events/"+provider, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	webhook.Sign(r.Header, providers(t)["speech"], id, time.Now(), []byte(body))
	if change != nil {
		change(r)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

func TestASignedEventIsStoredBeforeItIsAcknowledgedAndOnceOnly(t *testing.T) {
	b := setup(t)
	for range 3 {
		if status, body := b.event(t, "speech", "e1", `{"metadata":{"effect":"f1"},"text":"x"}`, nil); status != http.StatusOK {
			t.Fatalf("= %d %s", status, body)
		}
	}
	fresh, err := b.inbox.Receive(t.Context(), job.Event{Provider: "speech", ID: "e1", Effect: "f1", Body: []byte("{}")})
	if err != nil || fresh {
		t.Errorf("the record did not have it: fresh %t, %v", fresh, err)
	}
	if status, body := b.event(t, "speech", "e2", `{"type":"balance.low"}`, nil); status != http.StatusOK {
		t.Errorf("an event that answers no effect: %d %s", status, body)
	}
}

func TestABadEventIsRefusedWithoutTellingWhy(t *testing.T) {
	b := setup(t)
	var told string
	for name, c := range map[string]struct {
		provider string
		change   func(*http.Request)
	}{
		"unknown provider": {"vision", nil},
		"no signature":     {"speech", func(r *http.Request) { r.Header.Del(webhook.HeaderSignature) }},
		"another body": {"speech", func(r *http.Request) {
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(`{"effect":"f2"}`)), int64(len(`{"effect":"f2"}`))
		}},
		"an old one": {"speech", func(r *http.Request) {
			webhook.Sign(r.Header, providers(t)["speech"], "e1", time.Now().Add(-time.Hour), []byte(`{"effect":"f1"}`))
		}},
		"another identifier": {"speech", func(r *http.Request) { r.Header.Set(webhook.HeaderID, "e9") }},
	} {
		status, body := b.event(t, c.provider, "e1", `{"effect":"f1"}`, c.change)
		body = strings.ReplaceAll(body, "/"+c.provider, "/p") // the address that the caller knows
		if status != http.StatusUnauthorized || told != "" && body != told {
			t.Errorf("%s: %d %s, another was told %s", name, status, body, told)
		}
		told = body
	}
	if fresh, err := b.inbox.Receive(t.Context(), job.Event{Provider: "speech", ID: "e1", Body: []byte("{}")}); err != nil || !fresh {
		t.Errorf("a refused event was stored: fresh %t, %v", fresh, err)
	}
}

func TestASignedEventThatCannotBeReadIsRefusedWithASentence(t *testing.T) {
	b := setup(t)
	for name, c := range map[string]struct {
		body   string
		status int
	}{
		"no JSON":   {`{"effect":`, http.StatusUnprocessableEntity},
		"a number":  {`{"effect":7}`, http.StatusUnprocessableEntity},
		"too large": {`{"effect":"` + strings.Repeat("x", 1<<20) + `"}`, http.StatusRequestEntityTooLarge},
	} {
		if status, body := b.event(t, "speech", "e"+strconv.Itoa(c.status), c.body, nil); status != c.status || !strings.Contains(body, `"detail":"`) {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
}

func TestWhereAWebhookGoesIsCheckedAndKept(t *testing.T) {
	b := setup(t)
	file := field{"file", "a.wav", "sound"}
	for address, status := range map[string]int{
		"https://example.org/hook": http.StatusAccepted, "": http.StatusAccepted,
		"http://example.org/": http.StatusBadRequest, "https://127.0.0.1/": http.StatusBadRequest, "nowhere": http.StatusBadRequest,
	} {
		kind, body := form(t, field{"webhook", "", address}, file)
		response, err := http.Post(b.server.URL+"/v1/jobs", kind, body)
		if err != nil {
			t.Fatal(err)
		}
		if got := decode(t, response); response.StatusCode != status {
			t.Errorf("%q: %d %v", address, response.StatusCode, got)
		}
		if last := b.submitted; status == http.StatusAccepted && last[len(last)-1].Webhook != address {
			t.Errorf("%q was handed on as %q", address, last[len(last)-1].Webhook)
		}
	}
}

func TestTheSecretOfWebhooksStaysUntilItIsReplaced(t *testing.T) {
	b := setup(t)
	secret := func(method string) string {
		r, err := http.NewRequestWithContext(t.Context(), method, b.server.URL+"/v1/webhook-secret", bytes.NewReader(nil))
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := decode(t, response)["secret"].(string)
		if _, err := webhook.ParseSecret(text); err != nil {
			t.Fatalf("%s = %q: %v", method, text, err)
		}
		return text
	}
	first := secret(http.MethodGet)
	if secret(http.MethodGet) != first {
		t.Error("it changes by being looked at")
	}
	if next := secret(http.MethodPost); next == first || secret(http.MethodGet) != next {
		t.Error("it was not replaced")
	}
	both, err := b.inbox.HookSecrets(t.Context(), api.Tenant, "")
	if err != nil || len(both) != 2 {
		t.Errorf("signing: %d secrets, %v", len(both), err)
	}
}

func TestNobodyLearnsOfAnothersReports(t *testing.T) {
	b := setup(t)
	b.jobs["j1"] = job.Job{ID: "j1"}
	answers := map[string]int{}
	for _, id := range []string{"j1", "nothing"} {
		response, err := http.Get(b.server.URL + "/v1/jobs/" + id + "/webhooks")
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		answers[id] = response.StatusCode
	}
	if !maps.Equal(answers, map[string]int{"j1": 200, "nothing": 404}) {
		t.Errorf("answers %v", answers)
	}
}

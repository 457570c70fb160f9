package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/outcome"
	"github.com/stagefleet/stagefleet/pkg/sheet"
)

// die submits a job and ends its first step as workers do that cannot make sense of it; it returns the step and the job.
func (h *house) die(target string) (step, id string) {
	h.t.Helper()
	id = h.submit("", target, target).body["id"].(string)
	h.mu.Lock()
	h.waiting = nil
	h.mu.Unlock()
	j, err := h.store.Job(h.t.Context(), "local", id)
	if err != nil {
		h.t.Fatal(err)
	}
	step = j.Steps[0].ID
	c, err := h.store.Claim(h.t.Context(), job.ClaimRequest{Step: step, Tenant: "local", Emission: 1, Stage: "ingest", Worker: "w", Lease: time.Minute})
	if err != nil {
		h.t.Fatal(err)
	}
	v := outcome.Of(outcome.Quarantine("unknown", nil))
	if _, err := h.store.End(h.t.Context(), job.Ending{Claim: c, Verdict: v, Action: outcome.Policy{}.Decide(v, 1, 0)}); err != nil {
		h.t.Fatal(err)
	}
	return step, id
}

// want asks and compares the status, and a part of the text.
func (h *house) want(status int, part, method, path, body string) answer {
	h.t.Helper()
	a := h.json("", method, path, body)
	if a.status != status || !strings.Contains(a.text, part) {
		h.t.Errorf("%s %s %s = %d %s, want %d with %q", method, path, body, a.status, a.text, status, part)
	}
	return a
}

func TestTheDeadAreListedInspectedRedrivenAndDiscardedOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, kind string) {
		h := newHouse(t, kind)
		step, id := h.die("talk")
		h.want(200, step, "GET", "/v1/dead?stage=ingest&limit=1", "")
		h.want(404, "unknown_stage", "GET", "/v1/dead?stage=nowhere", "")
		h.want(400, "limit", "GET", "/v1/dead?limit=501", "")
		h.want(200, "advice", "GET", "/v1/dead/"+step, "")
		h.want(404, "not_found", "GET", "/v1/dead/"+nobodys, "")
		h.want(404, "not_found", "POST", "/v1/dead/"+nobodys+"/redrive", `{}`)
		h.want(404, "not_found", "POST", "/v1/dead/"+nobodys+"/discard", `{}`)
		h.want(200, `"state":"queued"`, "POST", "/v1/dead/"+id+"/redrive", `{}`)
		h.want(409, "not_dead", "POST", "/v1/dead/"+step+"/redrive", `{}`)
		h.want(409, "not_dead", "GET", "/v1/dead/"+step, "")
		other, _ := h.die("other")
		h.want(400, "reason", "POST", "/v1/dead/"+other+"/discard", `{"reason":"a\nb"}`)
		h.want(200, `"state":"failed"`, "POST", "/v1/dead/"+other+"/discard", `{"reason":"a copy"}`)
		h.want(409, "not_dead", "POST", "/v1/dead/"+other+"/discard", `{}`)
	})
}

func TestACancelledJobMayBeCancelledAgainAndACompletedOneMayNot(t *testing.T) {
	h := newHouse(t, "sqlite")
	id := h.submit("", "talk", "bytes").body["id"].(string)
	for range 2 {
		h.want(200, `"state":"cancelled"`, "POST", "/v1/jobs/"+id+"/cancel", `{"reason":"wrong file"}`)
	}
	h.mu.Lock()
	h.waiting = nil
	h.mu.Unlock()
	done := h.submit("", "other", "bytes").body["id"].(string)
	h.complete(map[string]string{"index.html": ""})
	h.want(409, "it is completed", "POST", "/v1/jobs/"+done+"/cancel", `{}`)
	h.want(404, "not_found", "POST", "/v1/jobs/"+nobodys+"/cancel", `{}`)
}

func TestPausesAndGarbageAreOrderedByOperators(t *testing.T) {
	h := newHouse(t, "sqlite")
	h.want(200, `"stage":"ingest"`, "POST", "/v1/pauses", `{"stage":"ingest","reason":"deploy"}`)
	h.want(200, `"deploy"`, "GET", "/v1/pauses", "")
	h.want(404, "unknown_stage", "POST", "/v1/pauses", `{"stage":"nowhere","reason":"x"}`)
	h.want(400, "reason", "POST", "/v1/pauses", `{"stage":"ingest"}`)
	h.want(400, "until", "POST", "/v1/pauses", `{"stage":"ingest","reason":"x","until":"2020-01-01T00:00:00Z"}`)
	h.want(400, "until", "POST", "/v1/pauses", `{"stage":"ingest","reason":"x","until":"9999-12-31T23:59:59-23:59"}`)
	h.want(200, `"deploy"`, "GET", "/v1/pauses", "")
	h.want(200, `"was_paused":true`, "DELETE", "/v1/pauses/ingest", "")
	h.want(404, "unknown_stage", "DELETE", "/v1/pauses/nowhere", "")
	h.want(200, `"objects":0`, "POST", "/v1/garbage", `{"dry_run":true}`)
	for _, wrong := range []string{"-1", "9223372036854775807", "18446744074"} { // the last would overflow to a second
		h.want(400, "older_than", "POST", "/v1/garbage", fmt.Sprintf(`{"older_than_seconds":%s}`, wrong))
	}
}

func TestAnImportIsListedReadAndCancelledOverHTTP(t *testing.T) {
	h := newHouse(t, "sqlite")
	contentType, body := form(t, field{"file", "sheet.csv", "source\na\n"})
	made := h.ask("", http.MethodPost, "/v1/imports", body, "Content-Type", contentType)
	at := made.header.Get("Location")
	if made.status != http.StatusAccepted || at != "/v1/imports/"+made.body["id"].(string) {
		t.Fatalf("= %d %s", made.status, made.text)
	}
	h.want(200, made.body["id"].(string), "GET", "/v1/imports?limit=1", "")
	h.want(400, "limit", "GET", "/v1/imports?limit=0", "")
	h.want(200, `"pending"`, "GET", at, "")
	h.want(200, `"rows":[]`, "GET", at+"/rows?refused=true", "")
	h.want(400, "cursor", "GET", at+"/rows?cursor=x", "")
	h.want(200, "", "GET", at+"/refused", "")
	h.want(200, `"cancelled"`, "POST", at+"/cancel", "")
	h.want(409, "ended", "POST", at+"/cancel", "")
	h.want(415, "", "POST", "/v1/imports", `{}`)
	contentType, body = form(t, field{"file", "sheet.csv", strings.Repeat("x", sheet.MaxBytes+1)})
	if a := h.ask("", http.MethodPost, "/v1/imports", body, "Content-Type", contentType); a.status != http.StatusRequestEntityTooLarge {
		t.Errorf("a sheet that is too large = %d %s", a.status, a.text)
	}
}

package admin_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/admin"
	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/outcome"
)

// worked is a record whose steps are run by hand.
type worked struct {
	*testing.T
	*admin.Operator
}

func way(stage string) *job.Route { return &job.Route{Stage: stage, Queue: stage, DLQ: stage + "-dlq"} }

func (w worked) submit(target string) job.Job {
	w.Helper()
	j, err := w.Record.Submit(w.Context(), job.Submission{Tenant: "acme", Target: target, Digest: target, Input: json.RawMessage(`{}`), First: *way("ingest")})
	if err != nil {
		w.Fatal(err)
	}
	return j
}

func (w worked) claim(step, stage string) job.Claim {
	w.Helper()
	c, err := w.Record.Claim(w.Context(), job.ClaimRequest{Step: step, Tenant: "acme", Emission: 1, Stage: stage, Worker: "w", Lease: time.Minute})
	if err != nil {
		w.Fatal(err)
	}
	return c
}

func (w worked) publish(p job.Publication) {
	w.Helper()
	if got, err := w.Record.Publish(w.Context(), p); err != nil || !got.Accepted {
		w.Fatal(got, err)
	}
}

func (w worked) end(c job.Claim, end error) {
	w.Helper()
	v := outcome.Of(end)
	if _, err := w.Record.End(w.Context(), job.Ending{Claim: c, Verdict: v, Action: outcome.Policy{}.Decide(v, c.Attempt, 0)}); err != nil {
		w.Fatal(err)
	}
}

// agrees says whether the advice is to redrive, which must be what the record would do.
func (w worked) agrees(step, of string, redrives bool) {
	w.Helper()
	found, err := w.Inspect(w.Context(), step)
	if err != nil {
		w.Fatal(err)
	}
	if advised := strings.Contains(found.Advice, "fleet dlq redrive "+step); advised != redrives {
		w.Errorf("%s: the advice is %q", of, found.Advice)
	}
	if err := w.Record.Redrive(w.Context(), step, "ann"); redrives != (err == nil) || !redrives && !errors.Is(err, job.ErrEnded) {
		w.Errorf("%s: redriven: %v", of, err)
	}
}

func TestNobodyIsAdvisedToRedriveWhatCannotBeRedriven(t *testing.T) {
	w := worked{t, collector(t, t.TempDir())}
	defer func() {
		if err := w.Record.Close(); err != nil {
			t.Error(err)
		}
	}()
	bug := outcome.Quarantine("bug", nil)
	first := w.submit("talk").Steps[0].ID
	w.end(w.claim(first, "ingest"), bug)
	w.publish(job.Publication{Claim: w.claim(w.submit("talk").Steps[0].ID, "ingest"), Next: way("clip")})
	w.agrees(first, "a newer version has been taken in", false)

	j := w.submit("parts")
	w.publish(job.Publication{Claim: w.claim(j.Steps[0].ID, "ingest"), FanOut: true, Parts: []json.RawMessage{[]byte(`0`), []byte(`1`)}, Next: way("clip"), Join: way("publish")})
	j, err := w.Record.Job(t.Context(), "acme", j.ID)
	if err != nil {
		t.Fatal(err)
	}
	dead, refused := j.Steps[1].ID, j.Steps[2].ID
	w.end(w.claim(dead, "clip"), bug)
	w.end(w.claim(refused, "clip"), outcome.Reject("empty", "It is empty."))
	w.agrees(dead, "another part was refused", false)

	alone := w.submit("alone").Steps[0].ID
	w.end(w.claim(alone, "ingest"), bug)
	w.agrees(alone, "nothing stands in the way", true)
}

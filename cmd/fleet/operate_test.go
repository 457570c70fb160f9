package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/stagefleet/stagefleet/pkg/admin"
	"github.com/stagefleet/stagefleet/pkg/fleet"
	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/localsqs"
	"github.com/stagefleet/stagefleet/pkg/localsqs/sqsclient"
	"github.com/stagefleet/stagefleet/pkg/outcome"
	"github.com/stagefleet/stagefleet/workers"
)

// secret is what a message says; no screen may show it.
const secret = "canary-7f3a"

// served is the server as it ships, on a record, queues and objects of the test's own, without workers.
type served struct {
	t       *testing.T
	addr    string
	record  *job.Store
	queues  *sqs.Client
	dir     string
	objects string
}

func serve(t *testing.T) *served {
	t.Helper()
	dir := t.TempDir()
	record, err := job.Open(t.Context(), "sqlite:"+filepath.Join(dir, "fleet.db"), job.Options{Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	queues := localsqs.New(localsqs.Options{})
	s := &served{t: t, record: record, queues: sqsclient.New(queues), dir: dir, objects: filepath.Join(dir, "objects")}
	if err := admin.CreateQueues(t.Context(), s.queues, workers.Stages, "test"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- fleet.Serve(ctx, fleet.Server{
			Pipeline: workers.Stages, Env: "test", Addr: "127.0.0.1:0", Record: record, Crew: record, Place: "file://" + s.objects, Queues: s.queues,
			Metrics: prometheus.NewRegistry(), Log: zap.NewNop(), Sweep: 50 * time.Millisecond, Watch: time.Minute, Ready: func(addr string) { ready <- addr },
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, record.Close(), queues.Close()); err != nil {
			t.Error(err)
		}
	})
	select {
	case s.addr = <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	return s
}

// fleet runs one command line and expects an exit code. What it returns is stdout.
func (s *served) fleet(want int, line string, more ...string) string {
	s.t.Helper()
	stdout, _ := s.says(want, line, more...)
	return stdout
}

func (s *served) says(want int, line string, more ...string) (stdout, stderr string) {
	s.t.Helper()
	var out, errs bytes.Buffer
	args := append(strings.Fields(line), more...)
	code := run(args, func(name string) string { return map[string]string{addrVar: s.addr}[name] }, &out, &errs)
	if code != want {
		s.t.Fatalf("fleet %v = %d, want %d\n%s%s", args, code, want, out.String(), errs.String())
	}
	if strings.Contains(out.String()+errs.String(), secret) {
		s.t.Errorf("fleet %v shows what a message says:\n%s%s", args, out.String(), errs.String())
	}
	return out.String(), errs.String()
}

// as decodes the JSON that a command line prints.
func as[T any](s *served, line string, more ...string) T {
	s.t.Helper()
	var value T
	text := s.fleet(exitDone, line, append(more, "--json")...)
	known := json.NewDecoder(strings.NewReader(text))
	known.DisallowUnknownFields()
	if err := known.Decode(&value); err != nil || strings.Count(text, "\n") != 1 {
		s.t.Fatalf("fleet %s: %v\n%s", line, err, text)
	}
	if camel := regexp.MustCompile(`"[a-z]+[A-Z]\w*":`).FindString(text); camel != "" {
		s.t.Errorf("fleet %s: field %s is not in snake_case", line, camel)
	}
	return value
}

// submit hands in a recording under a name.
func (s *served) submit(name string) job.Job {
	s.t.Helper()
	path := filepath.Join(s.t.TempDir(), name)
	if err := os.WriteFile(path, []byte(secret+name), 0o600); err != nil {
		s.t.Fatal(err)
	}
	var j job.Job
	if err := json.Unmarshal([]byte(s.fleet(exitDone, "submit --json", path)), &j); err != nil {
		s.t.Fatal(err)
	}
	return j
}

// work is a worker that claims the job's only step and ends it.
func (s *served) work(j job.Job, emission int64, end error) {
	s.t.Helper()
	claim, err := s.record.Claim(s.t.Context(), job.ClaimRequest{Step: j.Steps[0].ID, Tenant: j.Tenant, Emission: emission, Stage: "ingest", Worker: "w1", Lease: time.Minute})
	if err != nil {
		s.t.Fatal(err)
	}
	v := outcome.Of(end)
	got, err := s.record.End(s.t.Context(), job.Ending{Claim: claim, Verdict: v, Action: outcome.Policy{}.Decide(v, claim.Attempt, 0)})
	if err != nil || !got.Accepted {
		s.t.Fatalf("end %+v, %v", got, err)
	}
	// The relay finds what this does not send when the sender's lease ends; the DLQ copy is asked for sooner.
	if err := s.record.Dispatch(s.t.Context(), sendTo{s.queues}, got.Outgoing); err != nil {
		s.t.Fatal(err)
	}
}

// sendTo sends as a worker's own sender does.
type sendTo struct{ queues *sqs.Client }

func (q sendTo) Send(ctx context.Context, rows []job.Outgoing) []error {
	errs := make([]error, len(rows))
	for i, r := range rows {
		url, err := q.queues.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &r.Queue})
		if err == nil {
			_, err = q.queues.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: url.QueueUrl, MessageBody: &r.Body, MessageGroupId: &r.Group, MessageDeduplicationId: &r.Dedup})
		}
		errs[i] = err
	}
	return errs
}

func (s *served) dlq() int64 {
	s.t.Helper()
	var n int64
	for _, st := range as[[]admin.Stage](s, "stages") {
		n += st.DLQ
	}
	return n
}

func (s *served) eventually(what string, holds func() bool) {
	s.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(20 * time.Second)
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			s.t.Fatalf("not in time: %s", what)
		}
	}
}

func TestADeadStepIsFoundUnderstoodAndRedrivenOnce(t *testing.T) {
	s := serve(t)
	if text := s.fleet(exitDone, "dlq ls"); text != "Nothing is dead.\n" {
		t.Errorf("%q", text)
	}
	j := s.submit("talk.mp4")
	s.work(j, 1, outcome.Quarantine("bug_of_ours", nil))

	page := as[admin.DeadPage](s, "dlq ls --stage ingest")
	if len(page.Dead) != 1 || page.Dead[0].Job != j.ID || page.Dead[0].Class != "bug_of_ours" || page.Dead[0].Target != "talk.mp4" || len(page.Unknown) != 0 {
		t.Fatalf("dead %+v", page)
	}
	step := page.Dead[0].Step
	for _, word := range []string{step, "ingest", "bug_of_ours", "talk.mp4"} {
		if text := s.fleet(exitDone, "dlq ls"); !strings.Contains(text, word) {
			t.Errorf("ls does not say %s:\n%s", word, text)
		}
	}
	shown := s.fleet(exitDone, "dlq show", step)
	for _, word := range []string{step, j.ID, "talk.mp4, version 1", "bug_of_ours", "w1", "quarantine", "fleet dlq redrive " + step} {
		if !strings.Contains(shown, word) {
			t.Errorf("show does not say %q:\n%s", word, shown)
		}
	}
	if found := as[admin.Inspection](s, "dlq show", step); found.Dead == nil || found.Step != step || len(found.History) != 1 || found.Advice == "" {
		t.Errorf("show %+v", found)
	}
	if n := s.dlq(); n != 1 {
		t.Fatalf("%d dead letters, want the copy", n)
	}

	s.fleet(exitDone, "dlq redrive", step)
	for _, id := range []string{step, j.ID} {
		if stdout, stderr := s.says(exitConflict, "dlq redrive", id); stdout != "" || strings.Count(stderr, "\n") != 1 {
			t.Errorf("a second redrive says %q %q, want one sentence", stdout, stderr)
		}
	}
	s.says(exitConflict, "dlq show", step)
	s.eventually("the copy is gone", func() bool { return s.dlq() == 0 })

	s.work(j, 2, outcome.Reject("not_media", "This is no recording."))
	if text := s.fleet(exitDone, "job", j.ID); !strings.Contains(text, "recovered") {
		t.Errorf("the submitter does not see that the job was recovered:\n%s", text)
	}
}

func TestTheDeadStepsOfAStageAreRedrivenWhenAPersonIsSure(t *testing.T) {
	s := serve(t)
	for _, name := range []string{"a.mp4", "b.mp4", "c.mp4"} {
		s.work(s.submit(name), 1, outcome.Quarantine("bug", nil))
	}
	if _, stderr := s.says(exitUsage, "dlq redrive --stage ingest"); !strings.Contains(stderr, "--yes") {
		t.Errorf("unasked: %s", stderr)
	}
	if text := s.fleet(exitDone, "dlq redrive --stage ingest --yes --limit 2"); text != "2 of 2 jobs go on\n" {
		t.Errorf("%q", text)
	}
	if jobs := as[[]job.Job](s, "dlq redrive --stage ingest --yes"); len(jobs) != 1 || jobs[0].Target != "c.mp4" {
		t.Errorf("the rest: %+v", jobs)
	}
	if text := s.fleet(exitDone, "dlq redrive --stage ingest --yes"); text != "0 of 0 jobs go on\n" {
		t.Errorf("%q", text)
	}
	s.says(exitUsage, "dlq redrive")
	s.says(exitUsage, "dlq redrive x --stage ingest")
	s.says(exitUsage, "dlq redrive --stage ingst --yes")
}

func TestAMessageThatTheRecordDoesNotKnowIsShownAndDiscarded(t *testing.T) {
	s := serve(t)
	url, err := s.queues.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String("stagefleet-test-compile-dlq")})
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{secret, `{"v":1,"step":"nobodys","emission":1,"tenant":"` + secret + `"}`} {
		if _, err := s.queues.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: url.QueueUrl, MessageBody: &body}); err != nil {
			t.Fatal(err)
		}
	}
	why := map[string]string{}
	for _, l := range as[admin.DeadPage](s, "dlq ls").Unknown {
		why[l.Why] = l.ID
	}
	if len(why) != 2 || why["unreadable"] == "" || why["unknown_step"] == "" {
		t.Fatalf("unknown messages %v", why)
	}
	if none := as[admin.DeadPage](s, "dlq ls --stage ingest").Unknown; len(none) != 0 {
		t.Errorf("of another stage: %+v", none)
	}
	if text := s.fleet(exitDone, "dlq show", why["unreadable"]); !strings.Contains(text, "fleet dlq discard "+why["unreadable"]) {
		t.Errorf("show does not say what to do:\n%s", text)
	}
	if _, stderr := s.says(exitFailed, "dlq redrive", why["unreadable"]); !strings.Contains(stderr, "discard") {
		t.Errorf("redrive of an unknown message: %s", stderr)
	}
	s.fleet(exitDone, "dlq discard", why["unreadable"])
	left := as[admin.DeadPage](s, "dlq ls").Unknown
	if len(left) != 1 || left[0].ID != why["unknown_step"] {
		t.Errorf("left %+v", left)
	}
	s.says(exitFailed, "dlq discard", why["unreadable"])
}

func TestADiscardedStepIsGoneFromListAndQueue(t *testing.T) {
	s := serve(t)
	j := s.submit("talk.mp4")
	s.work(j, 1, outcome.Quarantine("bug", nil))
	if text := s.fleet(exitDone, "dlq discard --reason test", j.Steps[0].ID); !strings.Contains(text, "stays failed") {
		t.Errorf("%q", text)
	}
	if page := as[admin.DeadPage](s, "dlq ls"); len(page.Dead) != 0 {
		t.Errorf("dead %+v", page)
	}
	s.eventually("the copy is gone", func() bool { return s.dlq() == 0 })
	s.says(exitConflict, "dlq redrive", j.ID)
	s.says(exitConflict, "dlq discard", j.ID)
}

func TestACancelMayBeRepeatedAndEndsNothingThatHasEnded(t *testing.T) {
	s := serve(t)
	j := s.submit("talk.mp4")
	for range 2 {
		if text := s.fleet(exitDone, "cancel --reason mistake", j.ID); text != "job "+j.ID+" is cancelled\n" {
			t.Errorf("%q", text)
		}
	}
	if got := as[job.Job](s, "cancel", j.ID); got.State != job.Cancelled {
		t.Errorf("%+v", got)
	}
	refused := s.submit("other.mp4")
	s.work(refused, 1, outcome.Reject("not_media", "No."))
	if _, stderr := s.says(exitConflict, "cancel", refused.ID); !strings.Contains(stderr, "it is refused") {
		t.Errorf("%s", stderr)
	}
	s.says(exitFailed, "cancel nothing")
}

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/stagefleet/stagefleet/pkg/admin"
	"github.com/stagefleet/stagefleet/pkg/job"
)

// speech is a speech service that a test can break and hold up.
type speech struct {
	*httptest.Server
	said string

	mu     sync.Mutex
	broken bool          // the key is refused
	hold   chan struct{} // calls wait until it is closed; nil: they do not
}

func newSpeech(t *testing.T, said string) *speech {
	t.Helper()
	s := &speech{said: said}
	s.Server = httptest.NewServer(http.HandlerFunc(s.answer))
	t.Cleanup(s.Close)
	return s
}

func (s *speech) set(broken bool, hold chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken, s.hold = broken, hold
}

// answer says the words at an even pace, whatever it is given to hear.
func (s *speech) answer(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	s.mu.Lock()
	broken, hold := s.broken, s.hold
	s.mu.Unlock()
	if broken {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"error":{"code":"invalid_api_key"}}`)
		return
	}
	if hold != nil {
		select {
		case <-hold:
		case <-r.Context().Done():
			return
		}
	}
	type word struct {
		Word  string  `json:"word"`
		Start float64 `json:"start"`
		End   float64 `json:"end"`
	}
	var words []word
	for i, text := range strings.Fields(s.said) {
		words = append(words, word{text, 0.3 * float64(i), 0.3*float64(i) + 0.25})
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"text": s.said, "words": words,
		"segments": []map[string]float64{{"start": 0, "end": 1e6, "avg_logprob": -0.05}}})
}

// settings makes the workers ask this service.
func (s *speech) settings() []string { return []string{"FLEET_SPEECH_URL=" + s.URL} }

func TestADeadJobIsUnderstoodRedrivenOnceAndCompletes(t *testing.T) {
	t.Parallel()
	r := drawn(t)
	service := newSpeech(t, r.truth.Words())
	service.set(true, nil)
	f := upWith(t, service.settings(), t.TempDir())
	if _, code := f.command("submit", r.file, "--wait", "--target", "talk"); code != 3 {
		t.Fatalf("submit --wait = %d, want 3: the speech service refuses the key", code)
	}
	listed, code := f.command("dlq", "ls", "--json")
	var page admin.DeadPage
	if err := json.Unmarshal([]byte(listed), &page); err != nil || code != 0 || len(page.Dead) != 1 || len(page.Unknown) != 0 {
		t.Fatalf("dlq ls = %d %s", code, listed)
	}
	dead := page.Dead[0]
	if dead.Stage != "transcribe" || dead.Class != "provider_credentials" || dead.Target != "talk" {
		t.Errorf("dead %+v", dead)
	}
	eventually(t, 10*time.Second, "the copy is in the dead-letter queue", func() bool {
		stages, err := f.Stages(t.Context())
		return err == nil && slices.ContainsFunc(stages, func(s admin.Stage) bool { return s.Name == "transcribe" && s.DLQ == 1 })
	})
	shown, code := f.command("dlq", "show", dead.Step)
	for _, word := range []string{"provider_credentials", "transcribe", dead.Job, "fleet dlq redrive " + dead.Step} {
		if code != 0 || !strings.Contains(shown, word) {
			t.Errorf("dlq show = %d without %q:\n%s", code, word, shown)
		}
	}

	service.set(false, nil)
	if stdout, code := f.command("dlq", "redrive", dead.Step); code != 0 || !strings.Contains(stdout, dead.Job) {
		t.Fatalf("dlq redrive = %d %s", code, stdout)
	}
	if stdout, code := f.command("dlq", "redrive", dead.Step); code != 4 || stdout != "" {
		t.Errorf("a second redrive = %d %s, want 4", code, stdout)
	}
	end := f.ended(dead.Job)
	if end.State != job.Completed || end.Recovered != 1 {
		t.Fatalf("the job ended %s, recovered %d times:\n%s", end.State, end.Recovered, describe(end))
	}
	result(t, end)
	if text, _ := f.command("job", dead.Job); !strings.Contains(text, "recovered") {
		t.Errorf("the submitter does not see that the job was recovered:\n%s", text)
	}
	f.deadLetters()
}

func TestAPausedStageReceivesNothingAndResumesByItself(t *testing.T) {
	t.Parallel()
	r := drawn(t)
	service := newSpeech(t, r.truth.Words())
	release := make(chan struct{})
	service.set(false, release)
	state := t.TempDir()
	f := upWith(t, service.settings(), state)
	queue := f.queue("transcribe")

	under := f.submit(r.file, "--target", "under way")
	f.reaches(under.ID, "transcribe runs", running("transcribe"))
	if _, code := f.command("pause", "transcribe", "--reason", "the key changes"); code != 0 {
		t.Fatalf("pause = %d", code)
	}
	f.workerPaused("transcribe")

	waits := f.submit(r.file, "--target", "waits")
	f.reaches(waits.ID, "the job is paused", func(j job.Job) bool { return j.State == job.Paused })
	eventually(t, 10*time.Second, "its message waits", func() bool { return queue.count(types.QueueAttributeNameApproximateNumberOfMessages) == 1 })
	close(release) // the running step goes on, to the end of its job
	if end := f.ended(under.ID); end.State != job.Completed {
		t.Errorf("the job that ran as the stage was paused ended %s:\n%s", end.State, describe(end))
	}
	for looked := time.Now(); time.Since(looked) < 3*time.Second; {
		if n := queue.count(types.QueueAttributeNameApproximateNumberOfMessagesNotVisible); n != 0 {
			t.Fatalf("%d messages received while paused", n)
		}
		if j, err := f.Job(t.Context(), waits.ID); err != nil || j.State != job.Paused {
			t.Fatalf("the waiting job is %s, %v", j.State, err)
		}
		pass(t, 200*time.Millisecond)
	}
	if n := queue.receives(); n != 1 {
		t.Errorf("the message was received %d times, want only this look", n)
	}
	until := time.Now().Add(5 * time.Second).Truncate(time.Second) // asked for again, now with an end
	if _, code := f.command("pause", "transcribe", "--reason", "the key changes", "--until", until.Format(time.RFC3339)); code != 0 {
		t.Fatalf("pause until %v = %d", until, code)
	}
	end := f.ended(waits.ID)
	i := slices.IndexFunc(end.Steps, func(s job.Step) bool { return s.Stage == "transcribe" })
	if step := end.Steps[i]; end.State != job.Completed || step.Attempts != 1 || len(step.History) != 1 || step.History[0].ClaimedAt.Before(until) {
		t.Errorf("after the pause, until %v:\n%s", until, describe(end))
	} else {
		t.Logf("went on %v after the end of the pause", step.History[0].ClaimedAt.Sub(until).Round(10*time.Millisecond))
	}
	f.deadLetters()
}

// workerPaused waits until the worker of a stage says of itself that it receives nothing.
func (f *fleet) workerPaused(stage string) {
	f.t.Helper()
	record, err := job.Open(f.t.Context(), "sqlite:"+filepath.Join(f.state, "fleet.db"), job.Options{})
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = record.Close() }()
	asked := time.Now()
	eventually(f.t, startLimit, "the worker is paused", func() bool {
		workers, err := record.Workers(f.t.Context(), time.Minute)
		return err == nil && slices.ContainsFunc(workers, func(w job.WorkerStatus) bool { return w.Stage == stage && w.Paused })
	})
	f.t.Logf("the worker knew of the pause after %v", time.Since(asked).Round(100*time.Millisecond))
}

// pass lets time pass for other processes.
func pass(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
}

// queue is one queue of a fleet's own queue server, from outside.
type queue struct {
	t      *testing.T
	client *sqs.Client
	url    *string
}

func (f *fleet) queue(stage string) queue {
	f.t.Helper()
	match := regexp.MustCompile(`queues +(http://\S+)`).FindStringSubmatch(f.out.String())
	stages, err := f.Stages(f.t.Context())
	i := slices.IndexFunc(stages, func(s admin.Stage) bool { return s.Name == stage })
	if match == nil || err != nil || i < 0 {
		f.t.Fatalf("find the queue of %s: %v\n%s", stage, err, f.out)
	}
	client := sqs.New(sqs.Options{BaseEndpoint: &match[1], Region: "us-east-1",
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "any", SecretAccessKey: "any"}, nil
		})})
	found, err := client.GetQueueUrl(f.t.Context(), &sqs.GetQueueUrlInput{QueueName: &stages[i].Queue})
	if err != nil {
		f.t.Fatal(err)
	}
	return queue{f.t, client, found.QueueUrl}
}

func (q queue) count(name types.QueueAttributeName) int {
	q.t.Helper()
	out, err := q.client.GetQueueAttributes(q.t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: q.url, AttributeNames: []types.QueueAttributeName{name}})
	if err != nil {
		q.t.Fatal(err)
	}
	var n int
	if _, err := fmt.Sscan(out.Attributes[string(name)], &n); err != nil {
		q.t.Fatal(err)
	}
	return n
}

// receives looks at the waiting message, leaves it visible, and returns how often it has been received, this look included.
func (q queue) receives() int {
	q.t.Helper()
	count := types.MessageSystemAttributeNameApproximateReceiveCount
	out, err := q.client.ReceiveMessage(q.t.Context(), &sqs.ReceiveMessageInput{QueueUrl: q.url, MessageSystemAttributeNames: []types.MessageSystemAttributeName{count}})
	if err != nil || len(out.Messages) != 1 {
		q.t.Fatalf("receive the message that waits: %v", err)
	}
	if _, err := q.client.ChangeMessageVisibility(q.t.Context(), &sqs.ChangeMessageVisibilityInput{QueueUrl: q.url, ReceiptHandle: out.Messages[0].ReceiptHandle}); err != nil {
		q.t.Fatal(err)
	}
	var n int
	if _, err := fmt.Sscan(out.Messages[0].Attributes[string(count)], &n); err != nil {
		q.t.Fatal(err)
	}
	return n
}

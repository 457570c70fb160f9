package admin_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	dto "github.com/prometheus/client_model/go"

	"github.com/stagefleet/stagefleet/pkg/admin"
	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/localsqs"
	"github.com/stagefleet/stagefleet/pkg/localsqs/sqsclient"
	"github.com/stagefleet/stagefleet/pkg/stage"
)

const env = "test"

var pipeline = stage.Pipeline{
	{Name: "clip", Summary: "cut", Queue: stage.Standard},
	{Name: "ingest", Summary: "probe", Next: "clip"},
}

// record is what workers and operators have said.
type record struct {
	sync.Mutex
	workers []job.WorkerStatus
	pauses  []job.PauseEntry
	oldest  map[string]time.Duration
	retries map[string]int64
	dead    map[string]time.Duration
	lag     time.Duration
	err     error
}

func (r *record) Workers(_ context.Context, age time.Duration) ([]job.WorkerStatus, error) {
	if age != admin.WorkerAge {
		return nil, errors.New("asked for another age")
	}
	return said(r, func() []job.WorkerStatus { return r.workers }), nil
}

func (r *record) Pauses(context.Context) ([]job.PauseEntry, error) {
	return said(r, func() []job.PauseEntry { return r.pauses }), nil
}

func (r *record) Oldest(context.Context) (map[string]time.Duration, error) {
	r.Lock()
	defer r.Unlock()
	return r.oldest, r.err
}

func (r *record) Retrying(context.Context) (map[string]int64, error) { return r.retries, nil }

func (r *record) OldestDead(context.Context) (map[string]time.Duration, error) {
	return said(r, func() map[string]time.Duration { return r.dead }), nil
}

func (r *record) OutboxLag(context.Context) (time.Duration, error) {
	return said(r, func() time.Duration { return r.lag }), nil
}

func said[T any](r *record, what func() T) T {
	r.Lock()
	defer r.Unlock()
	return what()
}

// setup makes the queues of the pipeline on a server of the test's own.
func setup(t *testing.T, r *record) (*admin.Admin, *sqs.Client) {
	t.Helper()
	server := localsqs.New(localsqs.Options{})
	t.Cleanup(func() { server.Close() })
	client := sqsclient.New(server)
	if err := admin.CreateQueues(t.Context(), client, pipeline, env); err != nil {
		t.Fatal(err)
	}
	a, err := admin.New(pipeline, env, client, r)
	if err != nil {
		t.Fatal(err)
	}
	return a, client
}

func send(t *testing.T, client *sqs.Client, queue string, in sqs.SendMessageInput) {
	t.Helper()
	url, err := client.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: &queue})
	if err != nil {
		t.Fatal(err)
	}
	in.QueueUrl, in.MessageBody = url.QueueUrl, aws.String("x")
	if strings.HasSuffix(queue, ".fifo") {
		in.MessageGroupId, in.MessageDeduplicationId = aws.String("g"), aws.String("once")
	}
	if _, err := client.SendMessage(t.Context(), &in); err != nil {
		t.Fatal(err)
	}
}

func TestAnOverviewJoinsQueuesAndRecordInTheOrderOfTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, client := setup(t, &record{
			workers: []job.WorkerStatus{
				{Stage: "clip", Slots: 2, Busy: 1, Breaker: "half_open"},
				{Stage: "clip", Slots: 2, Breaker: "open"},
				{Stage: "clip", Slots: 2, Breaker: "closed"},
				{Stage: "ingest", Slots: 1, Breaker: "closed"},
			},
			pauses: []job.PauseEntry{{Stage: "ingest"}},
			oldest: map[string]time.Duration{"clip": 90 * time.Second}, retries: map[string]int64{"clip": 1},
		})
		send(t, client, "stagefleet-test-clip", sqs.SendMessageInput{})
		send(t, client, "stagefleet-test-clip", sqs.SendMessageInput{DelaySeconds: 60})
		send(t, client, "stagefleet-test-ingest-dlq.fifo", sqs.SendMessageInput{})

		stages, err := a.Stages(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want := []admin.Stage{
			{Name: "ingest", Queue: "stagefleet-test-ingest.fifo", DLQ: 1, Paused: true, Breaker: "closed", Workers: 1, Slots: 1},
			{Name: "clip", Queue: "stagefleet-test-clip", Visible: 1, Delayed: 1, Retrying: 1, OldestAgeSeconds: 90, Breaker: "open", Workers: 3, Busy: 1, Slots: 6},
		}
		for i := range want {
			want[i].Alarms = []string{} // an array in JSON, even if nothing rings
			if len(stages) != len(want) || !reflect.DeepEqual(stages[i], want[i]) {
				t.Fatalf("stages = %+v\nwant     %+v", stages, want)
			}
		}
	})
}

func TestAPauseOfAllPausesEveryStage(t *testing.T) {
	a, _ := setup(t, &record{pauses: []job.PauseEntry{{Stage: "all"}}})
	stages, err := a.Stages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range stages {
		if !s.Paused {
			t.Errorf("%s is not paused", s.Name)
		}
	}
}

func TestARecordThatFailsFailsTheOverview(t *testing.T) {
	ill := errors.New("ill")
	a, _ := setup(t, &record{err: ill})
	if _, err := a.Stages(t.Context()); !errors.Is(err, ill) {
		t.Errorf("error = %v", err)
	}
}

func remove(t *testing.T, client *sqs.Client, queue string) {
	t.Helper()
	url, err := client.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: &queue})
	if err == nil {
		_, err = client.DeleteQueue(t.Context(), &sqs.DeleteQueueInput{QueueUrl: url.QueueUrl})
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestAQueueThatCannotBeCountedIsToldAndHidesNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, client := setup(t, &record{})
		send(t, client, "stagefleet-test-clip", sqs.SendMessageInput{})
		remove(t, client, "stagefleet-test-ingest.fifo")
		stages, err := a.Stages(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if s := stages[0]; !strings.Contains(s.Uncounted, "stagefleet-test-ingest.fifo") {
			t.Errorf("ingest: %+v", s)
		}
		if s := stages[1]; s.Visible != 1 || s.Uncounted != "" {
			t.Errorf("clip: %+v", s)
		}
	})
}

func TestQueuesThatExistKeepTheirMessagesAndGetNewAttributes(t *testing.T) {
	a, client := setup(t, &record{})
	send(t, client, "stagefleet-test-clip", sqs.SendMessageInput{})
	if err := admin.CreateQueues(t.Context(), client, pipeline.Scaled(stage.LocalScale), env); err != nil {
		t.Fatal(err)
	}
	if visible, _, _, err := a.Count(t.Context(), "stagefleet-test-clip"); err != nil || visible != 1 {
		t.Errorf("%d messages, %v", visible, err)
	}
	url, _ := client.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String("stagefleet-test-clip")})
	out, err := client.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: url.QueueUrl, AttributeNames: []types.QueueAttributeName{"All"}})
	if err != nil || out.Attributes["VisibilityTimeout"] != "21" {
		t.Errorf("attributes = %v, %v", out.Attributes, err)
	}
}

func TestAMissingQueueIsNamed(t *testing.T) {
	a, _ := setup(t, &record{})
	if _, _, _, err := a.Count(t.Context(), "nowhere"); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("error = %v", err)
	}
}

func TestAMessageMovesToItsDeadLetterQueueAfterTheManifestsReceives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, client := setup(t, &record{})
		send(t, client, "stagefleet-test-clip", sqs.SendMessageInput{})
		url, _ := client.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String("stagefleet-test-clip")})
		for range stage.DefaultMaxReceives + 1 {
			if _, err := client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: url.QueueUrl}); err != nil {
				t.Fatal(err)
			}
			settle(stage.DefaultVisibility)
		}
		stages, err := a.Stages(t.Context())
		if err != nil || stages[1].DLQ != 1 || stages[1].Visible+stages[1].InFlight != 0 {
			t.Errorf("stages = %+v, %v", stages, err)
		}
	})
}

// settle lets d pass in a bubble and waits until all is quiet.
func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// contextOf is one that the test ends.
func contextOf(t *testing.T) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithCancel(t.Context())
}

// labelsOf are the values of a metric's labels, each after a space.
func labelsOf(m *dto.Metric) string {
	var b strings.Builder
	for _, l := range m.GetLabel() {
		b.WriteString(" " + l.GetValue())
	}
	return b.String()
}

package worker

import (
	"context"
	"path/filepath"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"go.uber.org/zap"

	"github.com/stagefleet/stagefleet/pkg/internal/outbound"
	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/localsqs"
	"github.com/stagefleet/stagefleet/pkg/localsqs/sqsclient"
	"github.com/stagefleet/stagefleet/pkg/pool"
	"github.com/stagefleet/stagefleet/pkg/stage"
)

// TestWorkOfADeadOwnerIsNeverRefusedAsHeld: two owners vanish without a word. Each time the message comes back when
// its lease has already ended, so that three receives are three executions and none goes to the dead letters.
func TestWorkOfADeadOwnerIsNeverRefusedAsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		server := localsqs.New(localsqs.Options{})
		defer server.Close()
		client := sqsclient.New(server)
		s := stage.Stage{Name: "only", Summary: "the only stage"}.Scaled(stage.LocalScale)
		settings, err := stage.Pipeline{s}.Settings("test", "only")
		if err != nil {
			t.Fatal(err)
		}
		queue, err := client.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &settings.Own.Queue, Attributes: map[string]string{"FifoQueue": "true"}})
		if err != nil {
			t.Fatal(err)
		}
		store, err := job.Open(ctx, "sqlite:"+filepath.Join(t.TempDir(), "record.db"), job.Options{Migrate: true})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = store.Close() }()
		first, err := stage.Pipeline{s}.First("test")
		if err != nil {
			t.Fatal(err)
		}
		sender := outbound.New(client)
		l := newLedger(store, sender, settings, "w", zap.NewNop())
		j, err := store.Submit(ctx, job.Submission{Tenant: "t", Target: "x", Digest: "d", Input: []byte("{}"), First: job.Route(first)})
		if err != nil {
			t.Fatal(err)
		}
		relaying, stop := context.WithTimeout(ctx, time.Second)
		defer stop()
		if err := store.Relay(relaying, sender); err != nil {
			t.Fatal(err)
		}

		for receive := 1; receive <= 3; receive++ {
			out, err := client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
				QueueUrl: queue.QueueUrl, WaitTimeSeconds: 20, VisibilityTimeout: int32(s.Durations.Visibility / time.Second),
				MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
			})
			if err == nil && len(out.Messages) == 0 { // hidden for longer than one poll
				receive--
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			m := pool.Message{Body: aws.ToString(out.Messages[0].Body), ReceivedAt: time.Now(), Receives: receive}
			if got := out.Messages[0].Attributes["ApproximateReceiveCount"]; got != strconv.Itoa(receive) {
				t.Fatalf("receive %d has the count %s", receive, got)
			}
			settle(time.Duration(4-receive) * 50 * time.Millisecond) // the next owner claims sooner after its receive than the last one did
			if _, err := l.Claim(ctx, m); err != nil {
				t.Fatalf("receive %d of job %s: %v", receive, j.ID, err)
			}
		}
	})
}

func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestASlowClaimKeepsMostOfItsLease(t *testing.T) {
	l := &ledger{settings: stage.Settings{Stage: stage.Stage{Durations: stage.Durations{Lease: 20 * time.Second}}}}
	for since, want := range map[time.Duration]time.Duration{
		0: 19500 * time.Millisecond, time.Second: 18500 * time.Millisecond, 4500 * time.Millisecond: 15 * time.Second, time.Minute: 15 * time.Second,
	} {
		if got := l.lease(since); got != want {
			t.Errorf("lease %v after the receive = %v, want %v", since, got, want)
		}
	}
}

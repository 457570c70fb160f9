package admin_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/stagefleet/stagefleet/pkg/admin"
	"github.com/stagefleet/stagefleet/pkg/job"
)

// judge answers by step and notes what it was asked.
type judge struct {
	answers map[string]job.Do
	asked   []job.DeadLetter
	takes   time.Duration
	err     error
}

func (j *judge) Sweep(_ context.Context, d job.DeadLetter) (job.Settle, error) {
	if j.takes > 0 {
		<-time.After(j.takes)
	}
	j.asked = append(j.asked, d)
	return job.Settle{Do: j.answers[d.Step]}, j.err
}

func bury(t *testing.T, client *sqs.Client, body string) {
	t.Helper()
	url, err := client.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String("stagefleet-test-clip-dlq")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: url.QueueUrl, MessageBody: &body}); err != nil {
		t.Fatal(err)
	}
}

func message(step string) string {
	return fmt.Sprintf(`{"v":1,"step":%q,"emission":3,"tenant":"t"}`, step)
}

// sweep runs a sweeper in a bubble for the given time and returns its failures.
func sweep(t *testing.T, client *sqs.Client, j *judge, d time.Duration) []error {
	t.Helper()
	var failures []error
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		sweeper := &admin.Sweeper{Stages: pipeline, Env: env, Queues: client, Record: j, Every: time.Second, Failed: func(err error) { failures = append(failures, err) }}
		_ = sweeper.Run(ctx)
	}()
	settle(d)
	cancel()
	<-ended
	return failures
}

func TestTheSweeperRemovesWhatTheRecordDoesNotNeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, client := setup(t, &record{})
		j := &judge{answers: map[string]job.Do{"living": job.Delete, "dead": job.Leave}}
		for _, body := range []string{message("living"), message("dead"), "what is this?"} {
			bury(t, client, body)
		}
		if failures := sweep(t, client, j, time.Second); len(failures) != 0 {
			t.Fatal(failures)
		}
		want := job.DeadLetter{Step: "living", Tenant: "t", Emission: 3, MaxCrashes: 3}
		if len(j.asked) != 2 || (j.asked[0] != want && j.asked[1] != want) {
			t.Errorf("asked %+v, want each readable message once", j.asked)
		}
		if visible, inFlight, _, err := a.Count(t.Context(), "stagefleet-test-clip-dlq"); err != nil || visible != 2 || inFlight != 0 {
			t.Errorf("%d visible, %d in flight, %v; want the dead one and the unreadable one for a person", visible, inFlight, err)
		}
	})
}

func TestARecordThatIsIllLosesNoDeadLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, client := setup(t, &record{})
		j := &judge{answers: map[string]job.Do{"living": job.Delete}, err: errors.New("ill")}
		bury(t, client, message("living"))
		if failures := sweep(t, client, j, time.Second); len(failures) != 1 || !errors.Is(failures[0], j.err) {
			t.Errorf("failures = %v", failures)
		}
		if visible, _, _, _ := a.Count(t.Context(), "stagefleet-test-clip-dlq"); visible != 1 {
			t.Errorf("%d visible", visible)
		}
		j.err = nil
		sweep(t, client, j, time.Second)
		if visible, _, _, _ := a.Count(t.Context(), "stagefleet-test-clip-dlq"); visible != 0 {
			t.Errorf("%d visible after the record is well again", visible)
		}
	})
}

// fill buries letters that stay for a person and, behind them all, one that is to go.
func fill(t *testing.T, client *sqs.Client, n int) *judge {
	t.Helper()
	j := &judge{answers: map[string]job.Do{"living": job.Delete}}
	for i := range n - 1 {
		step := fmt.Sprint("dead", i)
		j.answers[step] = job.Leave
		bury(t, client, message(step))
	}
	bury(t, client, message("living"))
	return j
}

func TestOneLookReachesTheEndOfALongDeadLetterQueueAndShowsWhatStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, client := setup(t, &record{})
		j := fill(t, client, 500)
		if failures := sweep(t, client, j, time.Second); len(failures) != 0 {
			t.Fatal(failures)
		}
		if len(j.asked) != 500 {
			t.Errorf("asked about %d letters, want each of 500 once", len(j.asked))
		}
		if visible, inFlight, _, err := a.Count(t.Context(), "stagefleet-test-clip-dlq"); err != nil || visible != 499 || inFlight != 0 {
			t.Errorf("%d visible, %d in flight, %v", visible, inFlight, err)
		}
	})
}

func TestLooksThatCannotReachTheEndGetFurtherEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, client := setup(t, &record{})
		j := fill(t, client, 500)
		j.takes = time.Second
		if failures := sweep(t, client, j, 9*time.Minute); len(failures) != 0 {
			t.Fatal(failures)
		}
		seen := map[string]bool{}
		for _, d := range j.asked {
			seen[d.Step] = true
		}
		if len(seen) != 500 {
			t.Errorf("%d letters were ever reached, want 500", len(seen))
		}
		settle(11 * time.Minute)
		if visible, inFlight, _, err := a.Count(t.Context(), "stagefleet-test-clip-dlq"); err != nil || visible != 499 || inFlight != 0 {
			t.Errorf("%d visible, %d in flight, %v: what stays is for a person to see", visible, inFlight, err)
		}
	})
}

func TestALookEndsWhenTheRecordAnswersNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, client := setup(t, &record{})
		j := fill(t, client, 500)
		j.err = errors.New("ill")
		if failures := sweep(t, client, j, time.Second); len(failures) != 1 || len(j.asked) != 10 {
			t.Errorf("%d failures, asked %d times: want one look that gave up after ten letters", len(failures), len(j.asked))
		}
		if visible, _, _, _ := a.Count(t.Context(), "stagefleet-test-clip-dlq"); visible != 500 {
			t.Errorf("%d visible, want 500", visible)
		}
	})
}

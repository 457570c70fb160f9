package workertest_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/outcome"
	"github.com/stagefleet/stagefleet/pkg/pool"
	"github.com/stagefleet/stagefleet/pkg/worker"
	"github.com/stagefleet/stagefleet/pkg/workertest"
)

func TestPoisonIsDeadOnceWithItsReason(t *testing.T) {
	s := &script{read: func(_ context.Context, _ worker.Task[order]) error {
		return outcome.Quarantine("bad_state", nil)
	}}
	inBubble(t, s, func(t *testing.T, fleet *workertest.Fleet) {
		j := fleet.Wait(fleet.Submit("talk", 0, order{1}).ID)
		if j.State != job.Failed || j.Reason == nil || j.Reason.Code != "bad_state" {
			t.Errorf("%s because of %+v", j.State, j.Reason)
		}
		settle(longAfter)
		letters := fleet.DeadLetters("read")
		if len(letters) != 1 {
			t.Fatalf("%d dead letters, want 1", len(letters))
		}
		if b := fleet.Balance(); b != workertest.Funds {
			t.Errorf("balance %d, want the price refunded once", b)
		}
		if reason := letters[0].MessageAttributes["dead-reason"].StringValue; reason == nil || *reason != "bad_state" {
			t.Errorf("attributes %v", letters[0].MessageAttributes)
		}
	})
}

func TestAStepThatKeepsFailingDiesAfterItsAttempts(t *testing.T) {
	var runs atomic.Int32
	s := &script{read: func(_ context.Context, _ worker.Task[order]) error {
		runs.Add(1)
		panic("always")
	}}
	inBubble(t, s, func(t *testing.T, fleet *workertest.Fleet) {
		j := fleet.Wait(fleet.Submit("talk", 0, order{1}).ID)
		if got := fmt.Sprint(attempts(j, "read")); j.State != job.Failed || got != "[3]" || runs.Load() != 3 {
			t.Errorf("%s with attempts %s after %d executions", j.State, got, runs.Load())
		}
		settle(longAfter)
		if n := len(fleet.DeadLetters("read")); n != 1 {
			t.Errorf("%d dead letters, want 1", n)
		}
	})
}

func TestAMessageThatNobodyUnderstandsIsDeadWithinSeconds(t *testing.T) {
	inBubble(t, &script{}, func(t *testing.T, fleet *workertest.Fleet) {
		for _, body := range []string{"{", `{"v":1,"step":"unknown","emission":1,"tenant":"tenant"}`, `{"v":9}`} {
			fleet.Send("cut", body)
		}
		settle(5 * time.Second)
		reasons := map[string]int{}
		for _, letter := range fleet.DeadLetters("cut") {
			for name, value := range letter.MessageAttributes {
				if name == pool.AttributeReason {
					reasons[*value.StringValue]++
				}
			}
		}
		if got := fmt.Sprint(reasons); got != "map[undecodable:2 unknown_step:1]" {
			t.Errorf("dead letters by reason: %s", got)
		}
	})
}

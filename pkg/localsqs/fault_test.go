package localsqs_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"github.com/stagefleet/stagefleet/pkg/localsqs"
	"github.com/stagefleet/stagefleet/pkg/localsqs/sqsclient"
)

// bubble runs a test in a bubble with a server, a client that tries once, and a queue named q.
func bubble(t *testing.T, opts localsqs.Options, run func(t *testing.T, server *localsqs.Server, client *sqs.Client, url *string)) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, opts)
		client := sqsclient.New(server, func(o *sqs.Options) { o.RetryMaxAttempts = 1 })
		run(t, server, client, create(t, sqsclient.New(server), "q", nil))
	})
}

// settle lets time pass and everything that it causes happen.
func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func sendOne(client *sqs.Client, url *string) error {
	_, err := client.SendMessage(context.Background(), &sqs.SendMessageInput{QueueUrl: url, MessageBody: aws.String("x")})
	return err
}

func receiveAll(t *testing.T, client *sqs.Client, url *string) []types.Message {
	t.Helper()
	return must[*sqs.ReceiveMessageOutput](t)(client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: url, MaxNumberOfMessages: 10})).Messages
}

func rules(rules ...localsqs.Fault) localsqs.Options {
	return localsqs.Options{Faults: localsqs.Faults{Rules: rules}}
}

func TestFaultStrikesTheNthMatchingCallOnly(t *testing.T) {
	opts := rules(localsqs.Fault{Effect: localsqs.Fail, Action: "SendMessage", Queue: "q", Nth: 2})
	bubble(t, opts, func(t *testing.T, server *localsqs.Server, client *sqs.Client, url *string) {
		other := create(t, client, "other", nil)
		var failed []int
		for i := 1; i <= 4; i++ {
			if err := sendOne(client, other); err != nil {
				t.Error(err)
			}
			var api smithy.APIError
			if err := sendOne(client, url); errors.As(err, &api) && api.ErrorFault() == smithy.FaultServer {
				failed = append(failed, i)
			}
		}
		if !reflect.DeepEqual(failed, []int{2}) || len(receiveAll(t, client, url)) != 3 {
			t.Errorf("calls %v failed", failed)
		}
	})
}

func TestFaultShareIsRepeatableBySeed(t *testing.T) {
	failures := func(seed uint64) (pattern string) {
		faults := localsqs.Faults{Seed: seed, Rules: []localsqs.Fault{{Effect: localsqs.Fail, Action: "SendMessage", Share: 0.3}}}
		bubble(t, localsqs.Options{Faults: faults}, func(t *testing.T, _ *localsqs.Server, client *sqs.Client, url *string) {
			for range 200 {
				if sendOne(client, url) != nil {
					pattern += "x"
				} else {
					pattern += "."
				}
			}
		})
		return pattern
	}
	first := failures(1)
	if first != failures(1) || first == failures(2) {
		t.Error("the seed does not decide")
	}
	n := 0
	for _, c := range first {
		if c == 'x' {
			n++
		}
	}
	if n < 30 || n > 90 {
		t.Errorf("%d of 200 failed, want about 60", n)
	}
}

func TestThrottledCallIsTyped(t *testing.T) {
	bubble(t, rules(localsqs.Fault{Effect: localsqs.Throttle, Action: "SendMessage", Times: 1}), func(t *testing.T, _ *localsqs.Server, client *sqs.Client, url *string) {
		var throttled *types.RequestThrottled
		if err := sendOne(client, url); !errors.As(err, &throttled) {
			t.Error(err)
		}
		if err := sendOne(client, url); err != nil {
			t.Error(err)
		}
	})
}

func TestDelayedCallTakesItsTimeAndEndsWithItsContext(t *testing.T) {
	bubble(t, rules(localsqs.Fault{Effect: localsqs.Delay, Action: "SendMessage", Delay: 3 * time.Second}), func(t *testing.T, _ *localsqs.Server, client *sqs.Client, url *string) {
		start := time.Now()
		if err := sendOne(client, url); err != nil || time.Since(start) != 3*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start = time.Now()
		_, err := client.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: url, MessageBody: aws.String("x")})
		if err == nil || time.Since(start) != time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

func TestDroppedCallHasNoEffectAndLostReplyHas(t *testing.T) {
	opts := rules(localsqs.Fault{Effect: localsqs.Drop, Action: "SendMessage", Nth: 1}, localsqs.Fault{Effect: localsqs.Lose, Action: "SendMessage", Nth: 2})
	for name, newClient := range map[string]func(*testing.T, *localsqs.Server) *sqs.Client{
		"in process":    func(_ *testing.T, s *localsqs.Server) *sqs.Client { return sqsclient.New(s) },
		"over a socket": func(t *testing.T, s *localsqs.Server) *sqs.Client { return socketClient(t, s) },
	} {
		t.Run(name, func(t *testing.T) {
			client := newClient(t, newServer(t, opts))
			url := create(t, client, "q", nil)
			once := func(o *sqs.Options) { o.RetryMaxAttempts = 1 }
			for i, want := range []string{"0", "1"} {
				if _, err := client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: url, MessageBody: aws.String("x")}, once); err == nil {
					t.Error("no error")
				}
				if n := depth(t, client, url); n != want {
					t.Errorf("after call %d there are %s messages, want %s", i+1, n, want)
				}
			}
		})
	}
}

func TestPartialFaultFailsSomeEntriesOfABatch(t *testing.T) {
	bubble(t, rules(localsqs.Fault{Effect: localsqs.Partial}), func(t *testing.T, _ *localsqs.Server, client *sqs.Client, url *string) {
		for size := 1; size <= 10; size++ {
			in := &sqs.SendMessageBatchInput{QueueUrl: url}
			for i := range size {
				in.Entries = append(in.Entries, types.SendMessageBatchRequestEntry{Id: aws.String(fmt.Sprint(i)), MessageBody: aws.String("x")})
			}
			out := must[*sqs.SendMessageBatchOutput](t)(client.SendMessageBatch(t.Context(), in))
			failed := len(out.Failed)
			if failed < 1 || size > 1 && failed == size || failed+len(out.Successful) != size || out.Failed[0].SenderFault {
				t.Errorf("%d of %d failed", failed, size)
			}
			for _, m := range receiveAll(t, client, url) {
				must[*sqs.DeleteMessageOutput](t)(client.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: url, ReceiptHandle: m.ReceiptHandle}))
			}
		}
	})
}

func TestDuplicateFaultDeliversTwiceOnStandardQueuesOnly(t *testing.T) {
	bubble(t, rules(localsqs.Fault{Effect: localsqs.Duplicate, Times: 2}), func(t *testing.T, _ *localsqs.Server, client *sqs.Client, url *string) {
		if err := sendOne(client, url); err != nil {
			t.Fatal(err)
		}
		first, second := receiveAll(t, client, url), receiveAll(t, client, url)
		if len(first) != 1 || len(second) != 1 || *first[0].MessageId != *second[0].MessageId {
			t.Errorf("received %d, then %d", len(first), len(second))
		}
		third, fourth := receiveAll(t, client, url), receiveAll(t, client, url) // the second delivery was struck, too
		if len(third) != 1 || len(fourth) != 0 {
			t.Errorf("received %d, then %d", len(third), len(fourth))
		}
	})
	bubble(t, rules(localsqs.Fault{Effect: localsqs.Duplicate}), func(t *testing.T, _ *localsqs.Server, client *sqs.Client, _ *string) {
		url := create(t, client, "q.fifo", map[string]string{"FifoQueue": "true", "ContentBasedDeduplication": "true"})
		must[*sqs.SendMessageOutput](t)(client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: url, MessageBody: aws.String("x"), MessageGroupId: aws.String("g")}))
		if len(receiveAll(t, client, url)) != 1 || len(receiveAll(t, client, url)) != 0 {
			t.Error("a FIFO queue delivered twice")
		}
	})
}

func TestFaultsChangeAtRunTime(t *testing.T) {
	bubble(t, localsqs.Options{}, func(t *testing.T, server *localsqs.Server, client *sqs.Client, url *string) {
		faults := must[localsqs.Faults](t)(localsqs.ParseFaults("fail:action=SendMessage"))
		for _, f := range []localsqs.Faults{{}, faults, {}} {
			if err := server.SetFaults(f); err != nil {
				t.Fatal(err)
			}
			if err := sendOne(client, url); (err != nil) != (len(f.Rules) > 0) {
				t.Errorf("with %v: %v", f, err)
			}
		}
	})
}

func TestFaultSpecIsParsed(t *testing.T) {
	got, err := localsqs.ParseFaults(" throttle:action=ReceiveMessage,share=0.1; delay:delay=300ms, queue=jobs.fifo ;lose:nth=3,times=1; duplicate; seed=7;")
	want := localsqs.Faults{Seed: 7, Rules: []localsqs.Fault{
		{Effect: localsqs.Throttle, Action: "ReceiveMessage", Share: 0.1}, {Effect: localsqs.Delay, Delay: 300 * time.Millisecond, Queue: "jobs.fifo"},
		{Effect: localsqs.Lose, Nth: 3, Times: 1}, {Effect: localsqs.Duplicate},
	}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestBadFaultSpecIsRefused(t *testing.T) {
	for _, spec := range []string{
		"explode", "fail:action=Nonsense", "fail:share=2", "fail:share=x", "fail:nth=-1", "fail:nth=1,share=0.5", "delay", "fail:delay=1s", "fail:color=red", "seed=x", "delay:delay=x",
	} {
		if _, err := localsqs.ParseFaults(spec); err == nil {
			t.Errorf("%q was accepted", spec)
		}
	}
}

func TestThrottledReceiveCannotBeRepeatedUnderItsAttemptID(t *testing.T) {
	faults := localsqs.Faults{Rules: []localsqs.Fault{{Effect: localsqs.Throttle, Action: "ReceiveMessage", Nth: 1}}}
	bubble(t, localsqs.Options{Faults: faults}, func(t *testing.T, _ *localsqs.Server, client *sqs.Client, _ *string) {
		url := create(t, client, "q.fifo", map[string]string{"FifoQueue": "true", "ContentBasedDeduplication": "true"})
		must[*sqs.SendMessageOutput](t)(client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: url, MessageBody: aws.String("x"), MessageGroupId: aws.String("g")}))
		once := func(o *sqs.Options) { o.Retryer = aws.NopRetryer{} }
		for _, want := range []string{"RequestThrottled", "InvalidParameterValue"} {
			_, err := client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: url, ReceiveRequestAttemptId: aws.String("a")}, once)
			if api, ok := errors.AsType[smithy.APIError](err); !ok || api.ErrorCode() != want {
				t.Errorf("got %v, want %s", err, want)
			}
		}
		if got := must[*sqs.ReceiveMessageOutput](t)(client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: url, ReceiveRequestAttemptId: aws.String("b")})); len(got.Messages) != 1 {
			t.Errorf("%d messages under another id, want 1", len(got.Messages))
		}
	})
}

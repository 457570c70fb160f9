package localsqs_test

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
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

// raw sends one request as it is and returns status, headers and body.
func raw(server http.Handler, method, contentType, target, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://127.0.0.1:4100/", strings.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	if target != "" {
		r.Header.Set("X-Amz-Target", target)
	}
	w := httptest.NewRecorder()
	server.ServeHTTP(w, r)
	return w
}

const jsonType = "application/x-amz-json-1.0"

func TestReplyHasRequestIdAndContentType(t *testing.T) {
	w := raw(newServer(t, localsqs.Options{}), "POST", jsonType, "AmazonSQS.ListQueues", "{}")
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != jsonType || len(w.Header().Get("x-amzn-RequestId")) != 36 {
		t.Errorf("%d %v", w.Code, w.Header())
	}
}

func TestErrorCarriesBothItsCodes(t *testing.T) {
	w := raw(newServer(t, localsqs.Options{}), "POST", jsonType, "AmazonSQS.GetQueueUrl", `{"QueueName":"none"}`)
	var body struct {
		Type    string `json:"__type"`
		Message string `json:"message"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
		t.Fatal(err)
	}
	if w.Code != http.StatusBadRequest || body.Type != "com.amazonaws.sqs#QueueDoesNotExist" || body.Message == "" || w.Header().Get("x-amzn-query-error") != "AWS.SimpleQueueService.NonExistentQueue;Sender" {
		t.Errorf("%d %v %v", w.Code, body, w.Header())
	}
}

func TestQueryClientGetsOneClearErrorInItsFormat(t *testing.T) {
	w := raw(newServer(t, localsqs.Options{}), "POST", "application/x-www-form-urlencoded; charset=utf-8", "", "Action=ListQueues&Version=2012-11-05")
	var reply struct {
		Error struct{ Code, Message string }
	}
	if err := xml.Unmarshal(w.Body.Bytes(), &reply); err != nil {
		t.Fatal(err)
	}
	if w.Code != http.StatusBadRequest || reply.Error.Code == "" || !strings.Contains(reply.Error.Message, "JSON") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestUnknownActionAndBrokenRequestsAreRefused(t *testing.T) {
	server := newServer(t, localsqs.Options{})
	for target, body := range map[string]string{
		"AmazonSQS.Nonsense": "{}", "": "{}", "AmazonSQS.SendMessage": `{"QueueUrl":`, "AmazonSQS.ListQueues": `[]`, "AmazonSQS.ReceiveMessage": `{"MaxNumberOfMessages":"x"}`,
		"AmazonSQS.SendMessageBatch": `{"Entries":[{"Id":1}]}`, "AmazonSQS.DeleteMessageBatch": `{} {}`,
	} {
		if w := raw(server, "POST", jsonType, target, body); w.Code != http.StatusBadRequest {
			t.Errorf("%s %s: %d %s", target, body, w.Code, w.Body)
		}
	}
	if w := raw(server, "POST", jsonType, "AmazonSQS.SendMessage", strings.Repeat("x", 9<<20)); w.Code != http.StatusBadRequest {
		t.Errorf("a huge request: %d", w.Code)
	}
}

func TestQueueURLWorksThroughAnyHostAndPort(t *testing.T) {
	server := newServer(t, localsqs.Options{})
	created := raw(server, "POST", jsonType, "AmazonSQS.CreateQueue", `{"QueueName":"q"}`).Body.String()
	if !strings.Contains(created, `"http://127.0.0.1:4100/000000000000/q"`) {
		t.Errorf("created %s", created)
	}
	for _, url := range []string{"http://queue.example:9/000000000000/q", "https://x/000000000000/q", "/000000000000/q"} {
		if w := raw(server, "POST", jsonType, "AmazonSQS.SendMessage", `{"QueueUrl":"`+url+`","MessageBody":"x"}`); w.Code != http.StatusOK {
			t.Errorf("%s: %s", url, w.Body)
		}
	}
	if w := raw(server, "POST", jsonType, "AmazonSQS.SendMessage", `{"QueueUrl":"http://x/111111111111/q","MessageBody":"x"}`); w.Code != http.StatusBadRequest {
		t.Error("another account's queue was found")
	}
}

func TestServersAreIndependent(t *testing.T) {
	one, two := sqsclient.New(newServer(t, localsqs.Options{})), sqsclient.New(newServer(t, localsqs.Options{Region: "eu-central-1", Account: "123456789012"}))
	create(t, one, "q", nil)
	if out := must[*sqs.ListQueuesOutput](t)(two.ListQueues(t.Context(), nil)); len(out.QueueUrls) != 0 {
		t.Errorf("the other server has %v", out.QueueUrls)
	}
	url := create(t, two, "q", nil)
	arn := must[*sqs.GetQueueAttributesOutput](t)(two.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: url, AttributeNames: []types.QueueAttributeName{"QueueArn"}}))
	if arn.Attributes["QueueArn"] != "arn:aws:sqs:eu-central-1:123456789012:q" {
		t.Errorf("ARN is %v", arn.Attributes)
	}
}

func TestInFlightLimitIsAnErrorForShortPollsOfStandardQueuesOnly(t *testing.T) {
	bubble(t, localsqs.Options{InFlightLimit: 2}, func(t *testing.T, _ *localsqs.Server, client *sqs.Client, url *string) {
		ordered := create(t, client, "q.fifo", map[string]string{"FifoQueue": "true", "ContentBasedDeduplication": "true"})
		for _, body := range []string{"1", "2", "3"} {
			must[*sqs.SendMessageOutput](t)(client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: url, MessageBody: &body}))
			must[*sqs.SendMessageOutput](t)(client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: ordered, MessageBody: &body, MessageGroupId: &body}))
		}
		held := receiveAll(t, client, url)
		if len(held) != 2 || len(receiveAll(t, client, ordered)) != 2 {
			t.Fatalf("received %d, want the limit", len(held))
		}
		var over *types.OverLimit
		if _, err := client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: url}); !errors.As(err, &over) {
			t.Errorf("short poll at the limit: %v", err)
		}
		if len(receiveAll(t, client, ordered)) != 0 {
			t.Error("a FIFO queue went beyond the limit")
		}
		time.AfterFunc(3*time.Second, func() {
			_, _ = client.DeleteMessage(context.Background(), &sqs.DeleteMessageInput{QueueUrl: url, ReceiptHandle: held[0].ReceiptHandle})
		})
		start := time.Now()
		got := must[*sqs.ReceiveMessageOutput](t)(client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: url, WaitTimeSeconds: 20}))
		if len(got.Messages) != 1 || time.Since(start) != 3*time.Second {
			t.Errorf("long poll at the limit got %d after %v", len(got.Messages), time.Since(start))
		}
	})
}

// cancelledPoll lets a long poll be cancelled after a second, sends after two, and returns how many messages are visible.
func cancelledPoll(t *testing.T, opts localsqs.Options) (visible string) {
	bubble(t, opts, func(t *testing.T, _ *localsqs.Server, client *sqs.Client, url *string) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: url, WaitTimeSeconds: 20}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the poll ended with %v", err)
		}
		settle(time.Second)
		if err := sendOne(client, url); err != nil {
			t.Error(err)
		}
		visible = depth(t, client, url)
		settle(time.Hour)
		if n := depth(t, client, url); n != "1" {
			t.Errorf("an hour later %s messages are visible", n)
		}
	})
	return visible
}

func TestCancelledPollTakesNothing(t *testing.T) {
	if n := cancelledPoll(t, localsqs.Options{}); n != "1" {
		t.Errorf("%s messages are visible", n)
	}
}

func TestCancelledPollTakesAMessageWithItIfAsked(t *testing.T) {
	if n := cancelledPoll(t, localsqs.Options{KeepCancelledPolls: true}); n != "0" {
		t.Errorf("%s messages are visible", n)
	}
}

func TestMessageHandedToAPollCancelledInThatInstantIsNotLost(t *testing.T) {
	for range 50 { // the two events race
		bubble(t, localsqs.Options{}, func(t *testing.T, _ *localsqs.Server, client *sqs.Client, url *string) {
			ctx, cancel := context.WithCancel(t.Context())
			got := make(chan int, 1)
			go func() {
				out, err := client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: url, WaitTimeSeconds: 20})
				if err != nil {
					got <- 0
					return
				}
				got <- len(out.Messages)
			}()
			settle(time.Second)
			go cancel()
			if err := sendOne(client, url); err != nil {
				t.Error(err)
			}
			delivered := <-got
			if n := depth(t, client, url); (delivered == 1) == (n == "1") {
				t.Errorf("%d delivered and %s visible", delivered, n)
			}
		})
	}
}

// receiveUnseen makes a receive whose client is gone before the reply.
func receiveUnseen(server http.Handler, body string) {
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	r := httptest.NewRequestWithContext(gone, "POST", "/", strings.NewReader(body))
	r.Header.Set("X-Amz-Target", "AmazonSQS.ReceiveMessage")
	server.ServeHTTP(httptest.NewRecorder(), r)
}

func TestReceiveThatNobodySawLeavesNoTrace(t *testing.T) {
	bubble(t, localsqs.Options{}, func(t *testing.T, server *localsqs.Server, client *sqs.Client, url *string) {
		if err := sendOne(client, url); err != nil {
			t.Fatal(err)
		}
		receiveUnseen(server, `{"QueueUrl":"/000000000000/q"}`)
		settle(time.Minute)
		out := must[*sqs.ReceiveMessageOutput](t)(client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: url, MessageSystemAttributeNames: []types.MessageSystemAttributeName{"All"}}))
		got := out.Messages[0].Attributes
		if now := strconv.FormatInt(time.Now().UnixMilli(), 10); got["ApproximateReceiveCount"] != "1" || got["ApproximateFirstReceiveTimestamp"] != now {
			t.Errorf("attributes are %v at %s", got, now)
		}
	})
}

func TestCancelledRepeatOfAnAttemptLeavesTheFirstReceiversMessagesHidden(t *testing.T) {
	bubble(t, localsqs.Options{}, func(t *testing.T, server *localsqs.Server, client *sqs.Client, _ *string) {
		url := create(t, client, "q.fifo", map[string]string{"FifoQueue": "true", "ContentBasedDeduplication": "true"})
		must[*sqs.SendMessageOutput](t)(client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: url, MessageBody: aws.String("x"), MessageGroupId: aws.String("g")}))
		in := &sqs.ReceiveMessageInput{QueueUrl: url, ReceiveRequestAttemptId: aws.String("a")}
		if got := must[*sqs.ReceiveMessageOutput](t)(client.ReceiveMessage(t.Context(), in)); len(got.Messages) != 1 {
			t.Fatal("nothing was received")
		}
		receiveUnseen(server, `{"QueueUrl":"/000000000000/q.fifo","ReceiveRequestAttemptId":"a"}`)
		if len(receiveAll(t, client, url)) != 0 {
			t.Error("the message is visible while its receiver holds it")
		}
	})
}

func TestAttemptThatNobodySawCannotTakeWhatAnotherReceivedSince(t *testing.T) {
	bubble(t, localsqs.Options{}, func(t *testing.T, server *localsqs.Server, client *sqs.Client, _ *string) {
		url := create(t, client, "q.fifo", map[string]string{"FifoQueue": "true", "ContentBasedDeduplication": "true"})
		must[*sqs.SendMessageOutput](t)(client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: url, MessageBody: aws.String("x"), MessageGroupId: aws.String("g")}))
		receiveUnseen(server, `{"QueueUrl":"/000000000000/q.fifo","ReceiveRequestAttemptId":"a"}`)
		if len(receiveAll(t, client, url)) != 1 {
			t.Fatal("the message did not come back")
		}
		again := must[*sqs.ReceiveMessageOutput](t)(client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: url, ReceiveRequestAttemptId: aws.String("a")}))
		if len(again.Messages) != 0 {
			t.Error("two receivers hold the message")
		}
	})
}

func TestSocketThatBreaksDuringAPollLosesNothing(t *testing.T) {
	server := newServer(t, localsqs.Options{})
	client := socketClient(t, server)
	url := create(t, client, "q", nil)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: url, WaitTimeSeconds: 20}); err == nil {
		t.Error("no error")
	}
	// The server sees the connection end a moment later; until then the poll would take the message.
	for strings.Contains(metricsOf(t, server), `localsqs_waiting_polls{queue="q"} 1`) {
		runtime.Gosched()
	}
	if err := sendOne(client, url); err != nil {
		t.Fatal(err)
	}
	if len(receiveAll(t, client, url)) != 1 {
		t.Error("the message is lost")
	}
}

func TestSignaturesAreCheckedAgainstConfiguredKeys(t *testing.T) {
	server := newServer(t, localsqs.Options{Credentials: map[string]string{"AKIDEXAMPLE": "secret"}})
	as := func(id, secret string) error {
		client := sqsclient.New(server, func(o *sqs.Options) {
			o.RetryMaxAttempts = 1
			o.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
				return aws.Credentials{AccessKeyID: id, SecretAccessKey: secret}, nil
			})
		})
		_, err := client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("q")})
		return err
	}
	if err := as("AKIDEXAMPLE", "secret"); err != nil {
		t.Error(err)
	}
	for want, err := range map[string]error{"SignatureDoesNotMatch": as("AKIDEXAMPLE", "wrong"), "InvalidClientTokenId": as("OTHER", "secret")} {
		var api smithy.APIError
		if !errors.As(err, &api) || api.ErrorCode() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if w := raw(server, "POST", jsonType, "AmazonSQS.ListQueues", "{}"); w.Code != http.StatusForbidden {
		t.Errorf("an unsigned request: %d", w.Code)
	}
}

func TestOldSignatureIsRefused(t *testing.T) {
	for wait, want := range map[time.Duration]bool{15 * time.Minute: true, 15*time.Minute + time.Second: false} {
		synctest.Test(t, func(t *testing.T) {
			server := newServer(t, localsqs.Options{Credentials: map[string]string{"local": "local"}})
			client := sqsclient.New(server, func(o *sqs.Options) {
				o.RetryMaxAttempts = 1
				o.HTTPClient = late{sqsclient.Transport{Handler: server}, wait}
			})
			if _, err := client.ListQueues(t.Context(), nil); (err == nil) != want {
				t.Errorf("after %v: %v", wait, err)
			}
		})
	}
}

// late delivers a request some time after it was signed.
type late struct {
	next sqsclient.Transport
	by   time.Duration
}

func (c late) Do(r *http.Request) (*http.Response, error) {
	<-time.After(c.by)
	return c.next.Do(r)
}

func TestSignatureCoversTheBody(t *testing.T) {
	server := newServer(t, localsqs.Options{Credentials: map[string]string{"local": "local"}})
	tampered := sqsclient.New(server, func(o *sqs.Options) {
		o.RetryMaxAttempts = 1
		o.HTTPClient = tamper{sqsclient.Transport{Handler: server}}
	})
	var api smithy.APIError
	_, err := tampered.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("good")})
	if !errors.As(err, &api) || api.ErrorCode() != "SignatureDoesNotMatch" {
		t.Errorf("got %v", err)
	}
}

// tamper changes a request after it was signed.
type tamper struct{ next sqsclient.Transport }

func (c tamper) Do(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(strings.NewReader(strings.ReplaceAll(string(body), "good", "evil")))
	return c.next.Do(r)
}

func TestClosedServerAnswersUnavailable(t *testing.T) {
	bubble(t, localsqs.Options{}, func(t *testing.T, server *localsqs.Server, client *sqs.Client, url *string) {
		time.AfterFunc(time.Second, func() { _ = server.Close() })
		start := time.Now()
		_, err := client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: url, WaitTimeSeconds: 20})
		var api smithy.APIError
		if !errors.As(err, &api) || api.ErrorFault() != smithy.FaultServer || time.Since(start) != time.Second {
			t.Errorf("the poll ended with %v after %v", err, time.Since(start))
		}
		if sendOne(client, url) == nil {
			t.Error("a closed server took a message")
		}
	})
}

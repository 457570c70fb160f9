// Package queuetest says what an SQS queue does, one test per behaviour, through the real SDK client. Package localsqs
// runs it in bubbles and over a socket; with credentials and a name prefix it runs against AWS itself. It promises
// nothing about throughput. Behaviours follow the SQS API reference and developer guide.
package queuetest

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
)

// Target is a service under test.
type Target struct {
	// Open returns a client; it is called once per behaviour and registers its own cleanup.
	Open func(t *testing.T) *sqs.Client
	// Bubble runs every behaviour in a synctest bubble, where edges are exact to the nanosecond and hours cost nothing.
	Bubble bool
	// Prefix begins every queue name.
	Prefix string
	// Patience is how long a receive waits for what should be there, in seconds; 0 where messages are available at once.
	Patience int32
	// Longest is how much real time one behaviour may need outside a bubble; longer ones are skipped.
	Longest time.Duration
}

// behaviour is one test. takes is the time it needs where time is real; exact ones need a bubble.
type behaviour struct {
	name  string
	takes time.Duration
	exact bool
	run   func(e *env)
}

// Run runs the whole suite against the target.
func Run(t *testing.T, target Target) {
	themes := map[string][]behaviour{
		"queue": queueBehaviours, "message": messageBehaviours, "batch": batchBehaviours, "visibility": visibilityBehaviours,
		"delay": delayBehaviours, "poll": pollBehaviours, "fifo": fifoBehaviours, "dedup": dedupBehaviours,
		"redrive": redriveBehaviours, "move": moveBehaviours, "lifetime": lifetimeBehaviours, "fair": fairBehaviours, "stress": stressBehaviours,
	}
	for theme, behaviours := range themes {
		t.Run(theme, func(t *testing.T) {
			for _, b := range behaviours {
				t.Run(strings.ReplaceAll(b.name, " ", "_"), func(t *testing.T) { target.check(t, b) })
			}
		})
	}
}

func (target Target) check(t *testing.T, b behaviour) {
	t.Parallel()
	if !target.Bubble {
		if b.exact || b.takes > target.Longest {
			t.Skip("needs more time than this target has")
		}
		b.run(&env{T: t, Client: target.Open(t), target: target})
		return
	}
	synctest.Test(t, func(t *testing.T) { b.run(&env{T: t, Client: target.Open(t), target: target}) })
}

// env is what a behaviour works with.
type env struct {
	*testing.T
	*sqs.Client
	target Target
}

// settle lets time pass and everything that it causes happen.
func (e *env) settle(d time.Duration) {
	<-time.After(d)
	if e.target.Bubble {
		synctest.Wait()
	}
}

// margin is how far from an edge a check can stand.
func (e *env) margin() time.Duration {
	if e.target.Bubble {
		return time.Nanosecond
	}
	return 400 * time.Millisecond
}

// edge lets d pass and checks just before the edge and at it. Outside bubbles "at" is a margin later.
func (e *env) edge(d time.Duration, before, at func()) {
	e.Helper()
	e.settle(d - e.margin())
	before()
	e.settle(e.margin())
	if !e.target.Bubble {
		e.settle(e.margin())
	}
	at()
}

// ctx outlives the test function: a call made during a poll may answer after the poll's end.
func (e *env) ctx() context.Context { return context.WithoutCancel(e.Context()) }

// must fails the behaviour on an error.
func must[T any](e *env) func(T, error) T {
	return func(v T, err error) T {
		e.Helper()
		if err != nil {
			e.Fatal(err)
		}
		return v
	}
}

func (e *env) name(suffix string) string {
	return e.target.Prefix + strings.ToLower(rand.Text())[:12] + suffix
}

func attributes(pairs []string) map[string]string {
	m := map[string]string{}
	for i := 0; i+1 < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}

// queue makes a standard queue with the attributes, given as name, value, name, value.
func (e *env) queue(pairs ...string) *string {
	e.Helper()
	return e.create(e.name(""), attributes(pairs))
}

// fifo makes a FIFO queue.
func (e *env) fifo(pairs ...string) *string {
	e.Helper()
	return e.create(e.name(".fifo"), attributes(append(pairs, "FifoQueue", "true")))
}

func (e *env) create(name string, attrs map[string]string) *string {
	e.Helper()
	out := must[*sqs.CreateQueueOutput](e)(e.CreateQueue(e.ctx(), &sqs.CreateQueueInput{QueueName: &name, Attributes: attrs}))
	e.Cleanup(func() {
		_, _ = e.DeleteQueue(e.ctx(), &sqs.DeleteQueueInput{QueueUrl: out.QueueUrl})
	})
	return out.QueueUrl
}

func (e *env) attribute(url *string, name types.QueueAttributeName) string {
	e.Helper()
	out := must[*sqs.GetQueueAttributesOutput](e)(e.GetQueueAttributes(e.ctx(), &sqs.GetQueueAttributesInput{QueueUrl: url, AttributeNames: []types.QueueAttributeName{name}}))
	return out.Attributes[string(name)]
}

func (e *env) arn(url *string) string {
	e.Helper()
	return e.attribute(url, types.QueueAttributeNameQueueArn)
}

func (e *env) set(url *string, pairs ...string) error {
	_, err := e.SetQueueAttributes(e.ctx(), &sqs.SetQueueAttributesInput{QueueUrl: url, Attributes: attributes(pairs)})
	return err
}

// counts checks the three approximate counts.
func (e *env) counts(url *string, visible, hidden, delayed string) {
	e.Helper()
	out := must[*sqs.GetQueueAttributesOutput](e)(e.GetQueueAttributes(e.ctx(), &sqs.GetQueueAttributesInput{QueueUrl: url, AttributeNames: []types.QueueAttributeName{"All"}}))
	got := [3]string{out.Attributes["ApproximateNumberOfMessages"], out.Attributes["ApproximateNumberOfMessagesNotVisible"], out.Attributes["ApproximateNumberOfMessagesDelayed"]}
	if got != [3]string{visible, hidden, delayed} {
		e.Errorf("visible, hidden, delayed are %v, want %s %s %s", got, visible, hidden, delayed)
	}
}

func (e *env) send(url *string, body string, mods ...func(*sqs.SendMessageInput)) *sqs.SendMessageOutput {
	e.Helper()
	return must[*sqs.SendMessageOutput](e)(e.trySend(url, body, mods...))
}

func (e *env) trySend(url *string, body string, mods ...func(*sqs.SendMessageInput)) (*sqs.SendMessageOutput, error) {
	in := &sqs.SendMessageInput{QueueUrl: url, MessageBody: &body}
	for _, mod := range mods {
		mod(in)
	}
	return e.SendMessage(e.ctx(), in)
}

// group addresses a message to a group, with its own deduplication id.
func group(name string) func(*sqs.SendMessageInput) {
	return func(in *sqs.SendMessageInput) {
		in.MessageGroupId, in.MessageDeduplicationId = &name, aws.String(rand.Text())
	}
}

func dedup(id string) func(*sqs.SendMessageInput) {
	return func(in *sqs.SendMessageInput) { in.MessageDeduplicationId = &id }
}

func delay(seconds int32) func(*sqs.SendMessageInput) {
	return func(in *sqs.SendMessageInput) { in.DelaySeconds = seconds }
}

// receive asks for up to ten messages with everything that comes with them.
func (e *env) receive(url *string, mods ...func(*sqs.ReceiveMessageInput)) []types.Message {
	e.Helper()
	return must[*sqs.ReceiveMessageOutput](e)(e.tryReceive(url, mods...)).Messages
}

func (e *env) tryReceive(url *string, mods ...func(*sqs.ReceiveMessageInput)) (*sqs.ReceiveMessageOutput, error) {
	in := &sqs.ReceiveMessageInput{
		QueueUrl: url, MaxNumberOfMessages: 10, MessageAttributeNames: []string{"All"}, WaitTimeSeconds: e.target.Patience,
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{"All"},
	}
	for _, mod := range mods {
		mod(in)
	}
	return e.ReceiveMessage(e.ctx(), in)
}

func most(n int32) func(*sqs.ReceiveMessageInput) {
	return func(in *sqs.ReceiveMessageInput) { in.MaxNumberOfMessages = n }
}

func hidden(seconds int32) func(*sqs.ReceiveMessageInput) {
	return func(in *sqs.ReceiveMessageInput) { in.VisibilityTimeout = seconds }
}

func wait(seconds int32) func(*sqs.ReceiveMessageInput) {
	return func(in *sqs.ReceiveMessageInput) { in.WaitTimeSeconds = seconds }
}

// one receives exactly one message.
func (e *env) one(url *string, mods ...func(*sqs.ReceiveMessageInput)) types.Message {
	e.Helper()
	got := e.receive(url, mods...)
	if len(got) != 1 {
		e.Fatalf("received %d messages, want 1", len(got))
	}
	return got[0]
}

func (e *env) none(url *string) {
	e.Helper()
	if got := e.receive(url); len(got) > 0 {
		e.Fatalf("received %q, want nothing", bodies(got))
	}
}

// expect receives these bodies, in this order.
func (e *env) expect(url *string, want ...string) []types.Message {
	e.Helper()
	got := e.receive(url)
	if strings.Join(bodies(got), "|") != strings.Join(want, "|") {
		e.Fatalf("received %q, want %q", bodies(got), want)
	}
	return got
}

func bodies(messages []types.Message) []string {
	var all []string
	for _, m := range messages {
		all = append(all, *m.Body)
	}
	return all
}

func (e *env) tryDelete(url *string, m types.Message) error {
	_, err := e.DeleteMessage(e.ctx(), &sqs.DeleteMessageInput{QueueUrl: url, ReceiptHandle: m.ReceiptHandle})
	return err
}

func (e *env) delete(url *string, messages ...types.Message) {
	e.Helper()
	for _, m := range messages {
		if err := e.tryDelete(url, m); err != nil {
			e.Fatal(err)
		}
	}
}

func (e *env) tryVisibility(url *string, m types.Message, seconds int32) error {
	_, err := e.ChangeMessageVisibility(e.ctx(), &sqs.ChangeMessageVisibilityInput{QueueUrl: url, ReceiptHandle: m.ReceiptHandle, VisibilityTimeout: seconds})
	return err
}

func (e *env) visibility(url *string, m types.Message, seconds int32) {
	e.Helper()
	if err := e.tryVisibility(url, m, seconds); err != nil {
		e.Fatal(err)
	}
}

// refused checks that an error is of the SDK's type E.
func refused[E error](e *env, err error) {
	e.Helper()
	var want E
	if !errors.As(err, &want) {
		e.Errorf("error is %v, want %T", err, want)
	}
}

// coded checks the code of an error that has no type of its own.
func coded(e *env, err error, codes ...string) {
	e.Helper()
	var api smithy.APIError
	if !errors.As(err, &api) {
		e.Errorf("error is %v, want code %v", err, codes)
		return
	}
	for _, code := range codes {
		if api.ErrorCode() == code {
			return
		}
	}
	e.Errorf("error code is %s, want %v", api.ErrorCode(), codes)
}

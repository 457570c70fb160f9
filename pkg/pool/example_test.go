package pool_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/stagefleet/stagefleet/pkg/breaker"
	"github.com/stagefleet/stagefleet/pkg/control"
	"github.com/stagefleet/stagefleet/pkg/localsqs"
	"github.com/stagefleet/stagefleet/pkg/localsqs/sqsclient"
	"github.com/stagefleet/stagefleet/pkg/outcome"
	"github.com/stagefleet/stagefleet/pkg/pool"
)

// exampleQueue makes a queue with messages on an embedded server. In production the client is sqs.NewFromConfig's.
func exampleQueue(name string, bodies ...string) (client *sqs.Client, url string) {
	ctx := context.Background()
	client = sqsclient.New(localsqs.New(localsqs.Options{}))
	attributes := map[string]string{}
	if strings.HasSuffix(name, ".fifo") {
		attributes = map[string]string{"FifoQueue": "true", "ContentBasedDeduplication": "true"}
	}
	out, err := client.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
	if err != nil {
		panic(err)
	}
	for _, body := range bodies {
		in := &sqs.SendMessageInput{QueueUrl: out.QueueUrl, MessageBody: &body}
		if len(attributes) > 0 {
			in.MessageGroupId = aws.String("one-group")
		}
		if _, err := client.SendMessage(ctx, in); err != nil {
			panic(err)
		}
	}
	return client, *out.QueueUrl
}

// Ten lines consume a queue. What the handler returns decides about the message; nil deletes it.
func Example() {
	client, url := exampleQueue("greetings", "hello")
	ctx, stop := context.WithCancel(context.Background()) // in a program: signal.NotifyContext
	p, err := pool.New(client, pool.Config{QueueURL: url, Slots: 1, Handler: func(_ context.Context, m pool.Message) error {
		fmt.Println(m.Body, "attempt", m.Attempt)
		stop()
		return nil
	}})
	if err != nil {
		panic(err)
	}
	report, err := p.Run(ctx)
	fmt.Printf("%+v %v\n", report, err)
	// Output:
	// hello attempt 1
	// {Finished:1 Released:0 Abandoned:0} <nil>
}

// JSON decodes bodies; what does not decode goes to the dead-letter queue.
func ExampleJSON() {
	type order struct{ Item string }
	client, url := exampleQueue("orders", `{"item":"tea"}`)
	ctx, stop := context.WithCancel(context.Background())
	p, err := pool.New(client, pool.Config{QueueURL: url, Slots: 1, Handler: pool.JSON(func(_ context.Context, _ pool.Message, o order) error {
		fmt.Println(o.Item)
		stop()
		return nil
	})})
	if err != nil {
		panic(err)
	}
	_, _ = p.Run(ctx)
	// Output: tea
}

// A FIFO queue needs no setting: messages of one group run in order, one at a time, and groups beside each other.
func Example_fifo() {
	client, url := exampleQueue("steps.fifo", "first", "second", "third")
	ctx, stop := context.WithCancel(context.Background())
	p, err := pool.New(client, pool.Config{QueueURL: url, Slots: 10, Wait: time.Second, Handler: func(_ context.Context, m pool.Message) error {
		fmt.Println(m.Body)
		if m.Body == "third" {
			stop()
		}
		return nil
	}})
	if err != nil {
		panic(err)
	}
	_, _ = p.Run(ctx)
	// Output:
	// first
	// second
	// third
}

// An error is a counted failure: the message comes again after the policy's wait.
func Example_retry() {
	client, url := exampleQueue("calls", "call")
	ctx, stop := context.WithCancel(context.Background())
	p, err := pool.New(client, pool.Config{
		QueueURL: url, Slots: 1, Wait: time.Second,
		Policy: outcome.Policy{MaxAttempts: 3, Waits: []time.Duration{time.Second}},
		Handler: func(_ context.Context, m pool.Message) error {
			if m.Attempt == 1 {
				return errors.New("connection reset") // or outcome.RetryAfter, when the other side said when
			}
			fmt.Println("attempt", m.Attempt)
			stop()
			return nil
		},
	})
	if err != nil {
		panic(err)
	}
	_, _ = p.Run(ctx)
	// Output: attempt 2
}

// A message that nobody can make sense of reaches the dead-letter queue at once, with the reason in its attributes.
func Example_quarantine() {
	client, url := exampleQueue("mail", "???")
	dead, err := client.CreateQueue(context.Background(), &sqs.CreateQueueInput{QueueName: aws.String("mail-dead")})
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	p, err := pool.New(client, pool.Config{QueueURL: url, DeadLetterURL: *dead.QueueUrl, Slots: 1, Handler: func(context.Context, pool.Message) error {
		stop()
		return outcome.Quarantine("unknown_format", nil)
	}})
	if err != nil {
		panic(err)
	}
	_, _ = p.Run(ctx)
	out, err := client.ReceiveMessage(context.Background(), &sqs.ReceiveMessageInput{QueueUrl: dead.QueueUrl, MessageAttributeNames: []string{"All"}})
	if err != nil {
		panic(err)
	}
	fmt.Println(*out.Messages[0].Body, *out.Messages[0].MessageAttributes[pool.AttributeReason].StringValue)
	// Output: ??? unknown_format
}

// At the end of ctx nothing more is received, handlers may go on for Drain, and what is not finished then goes back to the queue.
func Example_drain() {
	client, url := exampleQueue("films", "long film")
	ctx, stop := context.WithCancel(context.Background())
	p, err := pool.New(client, pool.Config{QueueURL: url, Slots: 1, Wait: time.Second, Drain: time.Second, Handler: func(ctx context.Context, _ pool.Message) error {
		stop()
		<-ctx.Done()
		fmt.Println("stopped:", context.Cause(ctx))
		return ctx.Err()
	}})
	if err != nil {
		panic(err)
	}
	report, err := p.Run(ctx)
	fmt.Printf("%+v %v\n", report, err)
	// Output:
	// stopped: draining
	// {Finished:0 Released:1 Abandoned:0} <nil>
}

// pauses is a record of pauses, here one in memory.
type pauses struct{ all []control.Pause }

func (p pauses) Pauses(context.Context) ([]control.Pause, error) { return p.all, nil }

// While a gate is shut nothing is received, so a pause costs no message an attempt or a receive.
func Example_pause() {
	client, url := exampleQueue("clips", "clip")
	until := time.Now().Add(100 * time.Millisecond)
	paused, err := control.New(control.Config{Stage: "clips", Record: pauses{[]control.Pause{{Stage: "clips", By: "ann", Until: until}}}})
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() { _ = paused.Run(ctx) }()
	p, err := pool.New(client, pool.Config{QueueURL: url, Slots: 1, Gates: []pool.Gate{paused}, Handler: func(_ context.Context, m pool.Message) error {
		fmt.Println(m.Body, "after the pause:", time.Now().After(until), "receives:", m.Receives)
		stop()
		return nil
	}})
	if err != nil {
		panic(err)
	}
	_, _ = p.Run(ctx)
	// Output: clip after the pause: true receives: 1
}

// A breaker counts calls of a dependency. As a gate it keeps messages in the queue while the dependency is down.
func Example_breaker() {
	client, url := exampleQueue("texts", "text")
	speech, err := breaker.New(breaker.Config{Name: "speech", MinSamples: 2, Cooldown: 50 * time.Millisecond})
	if err != nil {
		panic(err)
	}
	down := func(context.Context) error { return errors.New("503") }
	_ = speech.Do(context.Background(), down)
	_ = speech.Do(context.Background(), down)
	fmt.Println(speech.State())
	ctx, stop := context.WithCancel(context.Background())
	p, err := pool.New(client, pool.Config{QueueURL: url, Slots: 1, Gates: []pool.Gate{speech}, Handler: func(ctx context.Context, m pool.Message) error {
		defer stop()
		fmt.Println(speech.State(), m.Body)
		return speech.Do(ctx, func(context.Context) error { return nil }) // a refusal is returned as it is: it means "later"
	}})
	if err != nil {
		panic(err)
	}
	_, _ = p.Run(ctx)
	fmt.Println(speech.State())
	// Output:
	// open
	// half_open text
	// closed
}

// Metrics go to a Prometheus registry, health to two endpoints.
func Example_metrics() {
	client, url := exampleQueue("events", "event")
	registry := prometheus.NewRegistry()
	ctx, stop := context.WithCancel(context.Background())
	p, err := pool.New(client, pool.Config{Name: "events", QueueURL: url, Slots: 1, Metrics: registry, Handler: func(context.Context, pool.Message) error {
		stop()
		return nil
	}})
	if err != nil {
		panic(err)
	}
	_, _ = p.Run(ctx)
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, `stagefleet_pool_ends_total{end="done"`) {
			fmt.Print(line)
		}
	}
	w = httptest.NewRecorder()
	p.Health().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
	fmt.Println(w.Code)
	// Output:
	// stagefleet_pool_ends_total{end="done",pool="events"} 1
	// 503
}

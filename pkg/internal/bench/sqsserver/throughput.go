package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/stagefleet/stagefleet/pkg/internal/awshttp"
)

const batch = 10

// series is one row of the table: a server and a kind of queue.
type series struct{ server, kind string }

func (p plan) throughput(ctx context.Context) error {
	rows := []series{{"localsqs", "standard"}, {"localsqs", "fifo"}, {"echo", "raw"}}
	if p.Fauxqs != "" {
		rows = append(rows, series{"fauxqs", "standard"}, series{"fauxqs", "fifo"})
	}
	rates, costs, calls := map[series][]float64{}, map[series][]float64{}, map[series][]float64{}
	for range p.Rounds {
		rand.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		for _, row := range rows {
			r, err := p.measure(ctx, row)
			if err != nil {
				return fmt.Errorf("%s %s: %w", row.server, row.kind, err)
			}
			rates[row], costs[row], calls[row] = append(rates[row], r.rate), append(costs[row], r.cost), append(calls[row], r.receives)
		}
	}
	slices.SortFunc(rows, func(a, b series) int { return strings.Compare(a.server+a.kind, b.server+b.kind) })
	fmt.Println("                      consumed messages/s      server CPU     messages")
	fmt.Println("                      median (min-max)         µs/message     per receive")
	for _, row := range rows {
		spread := fmt.Sprintf("%.0f (%.0f-%.0f)", median(rates[row]), slices.Min(rates[row]), slices.Max(rates[row]))
		fmt.Printf("%-9s %-9s   %-24s %-14.1f %.1f\n", row.server, row.kind, spread, median(costs[row]), median(calls[row]))
	}
	fmt.Println("\nratio of localsqs      median of the rounds' ratios")
	for _, kind := range []string{"standard", "fifo"} {
		own := rates[series{"localsqs", kind}]
		if other := rates[series{"fauxqs", kind}]; len(other) > 0 {
			fmt.Printf("to fauxqs, %-9s  %.2f\n", kind, median(ratios(own, other)))
		}
		fmt.Printf("to raw echo, %-9s %.2f\n", kind, median(ratios(own, rates[series{"echo", "raw"}])))
	}
	return nil
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

func ratios(own, other []float64) (all []float64) {
	for i := range own {
		all = append(all, own[i]/other[i])
	}
	return all
}

// result is one measurement.
type result struct {
	rate     float64 // consumed messages per second
	cost     float64 // processor time of the server per message, in microseconds
	receives float64 // messages per receive that brought any
}

func (p plan) measure(ctx context.Context, row series) (r result, err error) {
	server, err := p.start(row.server)
	if err != nil {
		return r, err
	}
	defer server.stop()
	before := server.cpu()
	if row.server == "echo" {
		r.rate, r.receives = p.measureEcho(ctx, server.url), batch
	} else if err = p.measureQueue(ctx, row, server, &r); err != nil {
		return r, err
	}
	r.cost = float64((server.cpu() - before).Microseconds()) / (r.rate * p.Duration.Seconds())
	return r, nil
}

func (p plan) measureQueue(ctx context.Context, row series, server *process, r *result) error {
	l, err := newLoad(ctx, server.url, row.kind == "fifo", p.BodyBytes)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, p.Duration)
	defer cancel()
	var work sync.WaitGroup
	for range p.Producers {
		work.Go(func() { l.produce(ctx) })
	}
	for range p.Consumers {
		work.Go(func() { l.consume(ctx) })
	}
	work.Wait()
	if n := l.failures.Load(); n > 0 {
		fmt.Printf("(%s %s: %d failed calls)\n", row.server, row.kind, n)
	}
	r.rate = float64(l.consumed.Load()) / p.Duration.Seconds()
	r.receives = float64(l.consumed.Load()) / float64(max(1, l.receives.Load()))
	return nil
}

func newClient(url string) *sqs.Client {
	return sqs.New(sqs.Options{
		Region: "us-east-1", BaseEndpoint: &url, HTTPClient: &http.Client{Transport: awshttp.Transport()},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "local", SecretAccessKey: "local"}, nil
		}),
	})
}

// load is the traffic on one queue.
type load struct {
	client   *sqs.Client
	queue    *string
	fifo     bool
	body     string
	sent     atomic.Int64
	consumed atomic.Int64
	receives atomic.Int64
	failures atomic.Int64
}

// groups is how many message groups the FIFO load uses.
const groups = 64

// ahead bounds how far the producers run before the consumers, so that no server is measured on a growing backlog.
const ahead = 5_000

func newLoad(ctx context.Context, url string, fifo bool, bodyBytes int) (*load, error) {
	l := &load{client: newClient(url), fifo: fifo, body: strings.Repeat("x", bodyBytes)}
	in := &sqs.CreateQueueInput{QueueName: aws.String("bench"), Attributes: map[string]string{"VisibilityTimeout": "120"}}
	if fifo {
		in.QueueName, in.Attributes["FifoQueue"] = aws.String("bench.fifo"), "true"
	}
	out, err := l.client.CreateQueue(ctx, in)
	if err != nil {
		return nil, err
	}
	l.queue = out.QueueUrl
	return l, nil
}

func (l *load) produce(ctx context.Context) {
	for ctx.Err() == nil {
		if l.sent.Load()-l.consumed.Load() > ahead {
			<-time.After(time.Millisecond)
			continue
		}
		l.note(ctx, l.sendBatch(ctx))
	}
}

func (l *load) sendBatch(ctx context.Context) error {
	in := &sqs.SendMessageBatchInput{QueueUrl: l.queue}
	for i := range batch {
		e := types.SendMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), MessageBody: &l.body}
		if l.fifo {
			n := l.sent.Add(1)
			e.MessageGroupId, e.MessageDeduplicationId = aws.String(fmt.Sprint("g", n%groups)), aws.String(fmt.Sprint(n))
		}
		in.Entries = append(in.Entries, e)
	}
	if !l.fifo {
		l.sent.Add(batch)
	}
	_, err := l.client.SendMessageBatch(ctx, in)
	return err
}

func (l *load) consume(ctx context.Context) {
	for ctx.Err() == nil {
		out, err := l.client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: l.queue, MaxNumberOfMessages: batch, WaitTimeSeconds: 5})
		if err != nil {
			l.note(ctx, err)
			continue
		}
		if len(out.Messages) == 0 {
			continue
		}
		l.receives.Add(1)
		in := &sqs.DeleteMessageBatchInput{QueueUrl: l.queue}
		for i, m := range out.Messages {
			in.Entries = append(in.Entries, types.DeleteMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), ReceiptHandle: m.ReceiptHandle})
		}
		if _, err = l.client.DeleteMessageBatch(ctx, in); err == nil {
			l.consumed.Add(int64(len(out.Messages)))
		}
		l.note(ctx, err)
	}
}

func (l *load) note(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		l.failures.Add(1)
	}
}

// measureEcho moves the same bytes in the same number of calls through a server that does nothing: a batch in, a batch
// out, a delete, with a plain HTTP client.
func (p plan) measureEcho(ctx context.Context, url string) float64 {
	ctx, cancel := context.WithTimeout(ctx, p.Duration)
	defer cancel()
	client := &http.Client{Transport: awshttp.Transport()}
	const perMessage = 150 // ids, checksums and handles around a body
	sizes := [][2]int{{batch * (p.BodyBytes + 60), batch * perMessage}, {200, batch * (p.BodyBytes + perMessage)}, {batch * 80, batch * 15}}
	var cycles atomic.Int64
	var work sync.WaitGroup
	for range p.Consumers {
		work.Go(func() {
			for ctx.Err() == nil {
				for _, s := range sizes {
					if err := exchange(ctx, client, url, s[0], s[1]); err != nil {
						return
					}
				}
				cycles.Add(1)
			}
		})
	}
	work.Wait()
	return float64(cycles.Load()*batch) / p.Duration.Seconds()
}

func exchange(ctx context.Context, client *http.Client, url string, request, reply int) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(bytes.Repeat([]byte("x"), request)))
	if err != nil {
		return err
	}
	r.Header.Set(replyBytes, strconv.Itoa(reply))
	resp, err := client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

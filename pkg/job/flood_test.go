package job_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/stagefleet/stagefleet/pkg/internal/outbound"
	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/localsqs"
	"github.com/stagefleet/stagefleet/pkg/localsqs/sqsclient"
)

// A fleet in a bubble: record, relay, reconciler and queue server are the real ones, the work is a sleep.

const (
	floodSlots  = 32 // of the stage that is flooded
	serviceTime = 10 * time.Second
	fastTime    = 100 * time.Millisecond // of the stage before it
	others      = 9                      // tenants beside the flooding one
	each        = 10                     // jobs, or clips, of each of them
)

type pond struct {
	t      *testing.T
	s      *job.Store
	client *sqs.Client
	stop   context.CancelFunc
	all    sync.WaitGroup

	mu    sync.Mutex
	waits []time.Duration // of the others' jobs or clips, until the flooded stage began on them
	done  chan struct{}   // closed when there are others x each of them
}

// flooded runs submit, in a bubble, before the given stages, and returns the 95th percentile of the others' waits in service times.
func flooded(t *testing.T, stages []job.Route, work func(*pond, job.Claim) job.Publication, submit func(*pond)) float64 {
	var p95 time.Duration
	synctest.Test(t, func(t *testing.T) {
		s, err := job.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "record.db"), job.Options{Migrate: true})
		if err != nil {
			t.Fatal(err)
		}
		server := localsqs.New(localsqs.Options{})
		ctx, stop := context.WithCancel(t.Context())
		p := &pond{t: t, s: s, client: sqsclient.New(server), stop: stop, done: make(chan struct{})}
		for _, r := range stages {
			p.open(ctx, r, work)
		}
		p.all.Go(func() { _ = s.Relay(ctx, outbound.New(p.client)) })
		p.all.Go(func() { _ = s.Reconcile(ctx, counter(func() {})) })
		submit(p)
		<-p.done
		stop()
		p.all.Wait()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		server.Close()
		slices.Sort(p.waits)
		p95 = p.waits[len(p.waits)*95/100]
	})
	return p95.Seconds() / serviceTime.Seconds()
}

// open makes a stage's queue and its slots.
func (p *pond) open(ctx context.Context, r job.Route, work func(*pond, job.Claim) job.Publication) {
	attributes := map[string]string{"VisibilityTimeout": "3600"}
	if r.FIFO {
		attributes["FifoQueue"] = "true"
	}
	queue, err := p.client.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: aws.String(r.Queue), Attributes: attributes})
	if err != nil {
		p.t.Fatal(err)
	}
	for range floodSlots {
		p.all.Go(func() {
			for ctx.Err() == nil {
				p.serve(ctx, queue.QueueUrl, r.Stage, work)
			}
		})
	}
}

// serve takes one message through its life, if one comes.
func (p *pond) serve(ctx context.Context, queue *string, stage string, work func(*pond, job.Claim) job.Publication) {
	got, err := p.client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: queue, WaitTimeSeconds: 20})
	if err != nil || len(got.Messages) == 0 {
		return
	}
	c, err := p.s.Claim(ctx, request(job.Outgoing{Body: *got.Messages[0].Body}, stage))
	if err != nil {
		return // the bubble is ending
	}
	publication := work(p, c)
	if ctx.Err() != nil {
		return
	}
	published, err := p.s.Publish(ctx, publication)
	if err == nil {
		_ = p.s.Dispatch(ctx, outbound.New(p.client), published.Outgoing)
		_, _ = p.client.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: queue, ReceiptHandle: got.Messages[0].ReceiptHandle})
	}
}

// began notes how long one of the others has waited since its job was submitted.
func (p *pond) began(c job.Claim) {
	if c.Tenant == "flood" {
		return
	}
	j, err := p.s.Job(context.Background(), c.Tenant, c.Job)
	if err != nil {
		p.t.Error(err)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waits = append(p.waits, time.Since(j.CreatedAt))
	if len(p.waits) == others*each {
		close(p.done)
	}
}

// submit hands in jobs of one tenant, many at a time.
func (p *pond) submit(tenant string, n int, first job.Route, input string) {
	var all sync.WaitGroup
	for w := range 50 {
		all.Go(func() {
			for i := w; i < n; i += 50 {
				_, err := p.s.Submit(context.Background(), job.Submission{
					Tenant: tenant, Target: fmt.Sprint(i), Digest: "d", Input: json.RawMessage(input), First: first,
				})
				if err != nil {
					p.t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

func sleep(d time.Duration) { time.Sleep(d) }

func TestAFloodOfJobsDoesNotStarveOtherTenants(t *testing.T) {
	work := func(p *pond, c job.Claim) job.Publication {
		p.began(c)
		sleep(serviceTime)
		return job.Publication{Claim: c}
	}
	flood := func(window int64, jobs int) float64 {
		ingest := job.Route{Stage: "ingest", Queue: "ingest.fifo", DLQ: "d", FIFO: true, Window: window}
		return flooded(t, []job.Route{ingest}, work, func(p *pond) {
			p.submit("flood", jobs, ingest, `{}`)
			for i := range others {
				p.submit(fmt.Sprint("other", i), each, ingest, `{}`)
			}
		})
	}
	if with := flood(floodSlots, 10000/raceShare); with >= 5 {
		t.Errorf("the others' p95 wait is %.1f service times, must be below 5", with)
	} else {
		t.Logf("the others' p95 wait is %.1f service times behind %d jobs", with, 10000/raceShare)
	}
	if without := flood(0, 1000); without < 5 {
		t.Errorf("without a window the others wait %.1f service times behind 1000 jobs: the test cannot fail", without)
	}
}

func TestARecordingOfFiveHundredClipsDoesNotStarveTheClipsOfOthers(t *testing.T) {
	flood := func(window int64) float64 {
		ingest := job.Route{Stage: "ingest", Queue: "ingest.fifo", DLQ: "d", FIFO: true}
		compile := job.Route{Stage: "compile", Queue: "compile", DLQ: "d", Window: window}
		work := func(p *pond, c job.Claim) job.Publication {
			if c.Stage == "compile" {
				p.began(c)
				sleep(serviceTime)
				return job.Publication{Claim: c, Next: &job.Route{Stage: "publish", Queue: "publish", DLQ: "d"}}
			}
			sleep(fastTime)
			parts := make([]json.RawMessage, len(c.Input)-len(`""`))
			for i := range parts {
				parts[i] = json.RawMessage(`{}`)
			}
			return job.Publication{Claim: c, FanOut: true, Next: &compile, Join: next("publish"), Parts: parts}
		}
		return flooded(t, []job.Route{ingest, compile}, work, func(p *pond) {
			p.submit("flood", 1, ingest, `"`+strings.Repeat("x", 500)+`"`)
			sleep(2 * fastTime)
			for i := range others {
				p.submit(fmt.Sprint("other", i), 1, ingest, `"`+strings.Repeat("x", each)+`"`)
			}
		})
	}
	with := flood(2 * floodSlots)
	if with >= 5 {
		t.Errorf("the others' p95 wait is %.1f service times, must be below 5", with)
	}
	if without := flood(0); without < 5 {
		t.Errorf("without a window the others wait %.1f service times behind 500 clips: the test cannot fail", without)
	}
	t.Logf("the others' clips wait %.1f service times (p95)", with)
}

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/stagefleet/stagefleet/pkg/internal/awshttp"
)

// measurement is what one consumer did. The process fills in the first group, the parent the second.
type measurement struct {
	Seconds float64 // until the scenario's work was done
	CPU     float64 // seconds of this process, user and system
	Allocs  uint64
	Bytes   uint64
	RSSMiB  float64
	StopMs  float64 // scenario stop: beyond the longest handler
	HeldKiB memory  // scenario beat: of one message in flight
	Handled int

	Name   string
	Round  int
	Counts counts
}

// perMessage divides by the messages handled.
func (m measurement) perMessage(v float64) float64 { return v / float64(m.Handled) }

func (m measurement) calls() float64 {
	c := m.Counts.Calls
	return float64(c["ReceiveMessage"] + c["DeleteMessage"] + c["DeleteMessageBatch"] + c["ChangeMessageVisibilityBatch"] + c["ChangeMessageVisibility"])
}

// job is what a consumer is given: the queue, the handler, and the end.
type job struct {
	client *sqs.Client
	config aws.Config
	url    string
	slots  int
	handle func()

	visibility time.Duration // pool only
}

func awsConfig(url string) aws.Config {
	return aws.Config{
		Region:       "us-east-1",
		BaseEndpoint: &url,
		Credentials:  credentials.NewStaticCredentialsProvider("local", "local", ""),
		HTTPClient:   &http.Client{Transport: awshttp.Transport()},
	}
}

// consumeChild is the body of a consumer process: it works through the scenario and prints its measurement.
func consumeChild(ctx context.Context, name, scenario, url string, p plan) error {
	consume, ok := consumers[name]
	if !ok {
		return fmt.Errorf("no consumer named %q", name)
	}
	cfg := awsConfig(url)
	s := &script{plan: p, url: url, done: make(chan struct{})}
	s.n.Store(-1)
	j := job{client: sqs.NewFromConfig(cfg), config: cfg, url: url + "/000000000000/q", slots: p.Slots, visibility: 2 * time.Minute}
	var m measurement
	stopProfile, err := startProfile(p.Profiles, name+"-"+scenario)
	if err != nil {
		return err
	}
	start, before := time.Now(), usage()
	switch scenario {
	case "drain":
		j.handle = func() { s.handled(p.Messages) }
		m, err = s.drain(ctx, consume, j)
	case "mixed":
		j.slots = 10
		j.handle = func() { s.mixed(p.Messages) }
		m, err = s.drainQuick(ctx, consume, j)
	case "stop":
		j.slots = 10
		j.handle = func() { time.Sleep(20 * time.Millisecond); s.count.Add(1) }
		m, err = s.stop(ctx, consume, j)
	case "beat":
		j.slots, j.visibility = p.Messages, beatVisibility
		j.handle = func() { s.handled(p.Messages); select {} }
		m, err = s.beat(ctx, consume, j)
	case "idle":
		j.slots, j.handle = 1000, func() {}
		m, err = s.idle(ctx, consume, j)
	}
	if err != nil {
		return err
	}
	after := usage()
	if err := stopProfile(); err != nil {
		return err
	}
	m.Seconds = max(m.Seconds, 0)
	if m.Seconds == 0 {
		m.Seconds = time.Since(start).Seconds()
	}
	m.CPU, m.Allocs, m.Bytes, m.RSSMiB = after.cpu-before.cpu, after.allocs-before.allocs, after.bytes-before.bytes, after.rss
	m.Handled = int(s.count.Load())
	return json.NewEncoder(os.Stdout).Encode(m)
}

// script counts what the handlers did.
type script struct {
	plan  plan
	url   string
	count atomic.Int64
	n     atomic.Int64
	done  chan struct{}
}

func (s *script) handled(n int) {
	if int(s.count.Add(1)) == n {
		close(s.done)
	}
}

// mixed is a handler of 20 ms; the fifth takes a minute. The script is done when all others are.
func (s *script) mixed(n int) {
	if s.n.Add(1) == 4 {
		time.Sleep(time.Minute)
		return
	}
	time.Sleep(20 * time.Millisecond)
	s.handled(n - 1)
}

// drain lasts until every message has been handled and deleted.
func (s *script) drain(ctx context.Context, consume consumer, j job) (measurement, error) {
	go consume(ctx, j)
	start := time.Now()
	<-s.done
	resp, err := http.Get(s.url + "/bench/drained")
	if err != nil {
		return measurement{}, err
	}
	return measurement{Seconds: time.Since(start).Seconds()}, resp.Body.Close()
}

// drainQuick lasts until every quick message has been handled, or more than a minute.
func (s *script) drainQuick(ctx context.Context, consume consumer, j job) (measurement, error) {
	go consume(ctx, j)
	start := time.Now()
	select {
	case <-s.done:
	case <-time.After(70 * time.Second):
	}
	return measurement{Seconds: time.Since(start).Seconds()}, nil
}

func (s *script) stop(ctx context.Context, consume consumer, j job) (measurement, error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { defer close(ended); consume(ctx, j) }()
	time.Sleep(2 * time.Second)
	start := time.Now()
	cancel()
	<-ended
	return measurement{StopMs: max(0, float64((time.Since(start)-20*time.Millisecond).Microseconds())/1000)}, nil
}

// beatVisibility makes a beat come soon; one beat's time and a half lies between the last start and the end of the scenario.
const beatVisibility = 20 * time.Second

// beat lasts until every message is being handled, and has been renewed once.
func (s *script) beat(ctx context.Context, consume consumer, j job) (measurement, error) {
	before := inUse()
	go consume(ctx, j)
	<-s.done
	time.Sleep(beatVisibility * 3 / 7 * 3 / 2)
	after, each := inUse(), float64(s.count.Load())*1024
	return measurement{HeldKiB: memory{(after.Objects - before.Objects) / each, (after.Stacks - before.Stacks) / each}}, nil
}

func (s *script) idle(ctx context.Context, consume consumer, j job) (measurement, error) {
	go consume(ctx, j)
	time.Sleep(s.plan.Idle)
	return measurement{}, nil
}

// memory is what is needed for objects, and for the stacks of goroutines, which depend on what the handlers do.
type memory struct{ Objects, Stacks float64 }

// inUse is what the process needs, in bytes.
func inUse() memory {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return memory{float64(m.HeapAlloc), float64(m.StackInuse)}
}

type used struct {
	cpu           float64
	allocs, bytes uint64
	rss           float64
}

func usage() used {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return used{seconds(r.Utime) + seconds(r.Stime), m.Mallocs, m.TotalAlloc, float64(r.Maxrss) / 1024}
}

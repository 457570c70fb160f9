// Command sqsserver measures the embedded SQS server beside fauxqs and a raw HTTP echo, in one run on one machine: each
// round starts every server anew, in a process of its own. Each is measured twice: with the Go SDK as client, and with a
// client that costs next to nothing, because on cores that both share the SDK is the larger part of the work and hides
// the servers' difference. It prints medians over the rounds and the ratios between the servers; trust the ratios, not
// the absolute figures.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/stagefleet/stagefleet/pkg/internal/bench/bounds"
)

// plan is what one run does.
type plan struct {
	Rounds    int
	Duration  time.Duration
	Producers int
	Consumers int
	BodyBytes int
	Backlog   int // messages queued for the memory figure
	Wakes     int // polls that are woken for the latency figure
	Fauxqs    string
	Only      string // measures only the rows that contain it
}

func main() {
	var p plan
	serve := flag.String("serve", "", "internal: serve localsqs or echo on a free port")
	dir := flag.String("dir", "", "internal: where -serve keeps its state")
	flag.IntVar(&p.Rounds, "rounds", 3, "rounds, each with every server")
	flag.DurationVar(&p.Duration, "duration", 6*time.Second, "length of one measurement, after a warm-up")
	flag.IntVar(&p.Producers, "producers", 8, "sending goroutines, batches of 10")
	flag.IntVar(&p.Consumers, "consumers", 8, "receiving and deleting goroutines, batches of 10")
	flag.IntVar(&p.BodyBytes, "body", 1024, "bytes of a message body")
	flag.IntVar(&p.Backlog, "backlog", 100_000, "messages queued for the memory figure")
	flag.IntVar(&p.Wakes, "wakes", 1000, "polls that are woken for the latency figure")
	flag.StringVar(&p.Only, "only", "", `measure only the throughput of rows that contain this text, as "plain localsqs fifo" does`)
	flag.StringVar(&p.Fauxqs, "fauxqs", "", "folder in which npm install fauxqs@2.4.1 node@22 was run; empty leaves it out")
	flag.Parse()
	if *serve != "" {
		serveChild(*serve, *dir)
		return
	}
	p.check()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := p.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// check ends the process if a flag cannot work.
func (p plan) check() {
	bounds.Exit(
		bounds.None(flag.Args()),
		bounds.Between("rounds", p.Rounds, 1, 1000),
		bounds.Between("duration", p.Duration, time.Second, time.Hour),
		bounds.Between("producers", p.Producers, 1, 1000),
		bounds.Between("consumers", p.Consumers, 1, 1000),
		bounds.Between("body", p.BodyBytes, 1, 100<<10), // ten of them are one call's
		bounds.Between("backlog", p.Backlog, 1, 10_000_000),
		bounds.Between("wakes", p.Wakes, 1, 1_000_000),
	)
}

func (p plan) run(ctx context.Context) error {
	fmt.Println(machine())
	fmt.Printf("%d producers, %d consumers, batches of 10, %d-byte bodies, %v a measurement, %d rounds\n\n", p.Producers, p.Consumers, p.BodyBytes, p.Duration, p.Rounds)
	if err := p.throughput(ctx); err != nil || p.Only != "" {
		return err
	}
	return p.single(ctx)
}

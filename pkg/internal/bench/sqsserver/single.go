package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// single prints the figures that concern localsqs alone.
func (p plan) single(ctx context.Context) error {
	fmt.Println()
	for _, figure := range []func(context.Context, *process) error{p.wakes, p.idle, p.memory} {
		server, err := p.start("localsqs")
		if err != nil {
			return err
		}
		err = figure(ctx, server)
		server.stop()
		if err != nil {
			return err
		}
	}
	return p.recovery(ctx)
}

// recovery kills a server that keeps its backlog in a directory, and measures until its successor answers.
func (p plan) recovery(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "sqsserver")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	first, err := startChild("localsqs", dir)
	if err != nil {
		return err
	}
	q, err := p.fill(ctx, first.url)
	first.stop() // with SIGKILL
	if err != nil {
		return err
	}
	start := time.Now()
	second, err := startChild("localsqs", dir)
	if err != nil {
		return err
	}
	took := time.Since(start)
	defer second.stop()
	q.client = newClient(second.url)
	n, err := q.depth(ctx)
	fmt.Printf("killed, back with %s queued  %v\n", n, took.Round(time.Millisecond))
	return err
}

// fill queues the backlog.
func (p plan) fill(ctx context.Context, url string) (*queue, error) {
	q, err := newQueue(ctx, url, false, p.BodyBytes)
	for i := int64(0); i < int64(p.Backlog) && err == nil; i += batch {
		err = q.send(ctx, i)
	}
	return q, err
}

// wakes measures from before a send to the return of the poll that waits for it.
func (p plan) wakes(ctx context.Context, server *process) error {
	q, err := newQueue(ctx, server.url, false, p.BodyBytes)
	if err != nil {
		return err
	}
	sender := newClient(server.url)
	var took []time.Duration
	for range p.Wakes {
		woken, failed := make(chan time.Time, 1), make(chan error, 1)
		go func() {
			out, err := q.client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: q.url, WaitTimeSeconds: 20})
			if err != nil || len(out.Messages) != 1 {
				failed <- fmt.Errorf("poll: %w", err)
				return
			}
			woken <- time.Now()
		}()
		<-time.After(3 * time.Millisecond) // let the poll arrive and wait
		start := time.Now()
		if _, err := sender.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: q.url, MessageBody: &q.body}); err != nil {
			return err
		}
		select {
		case at := <-woken:
			took = append(took, at.Sub(start))
		case err := <-failed:
			return err
		}
	}
	slices.Sort(took)
	fmt.Printf("a waiting poll wakes after      p50 %v, p99 %v (from before the send, %d wakes)\n",
		took[len(took)/2].Round(time.Microsecond), took[len(took)*99/100].Round(time.Microsecond), len(took))
	return nil
}

// idle measures the processor time of a server on which eight polls wait.
func (p plan) idle(ctx context.Context, server *process) error {
	q, err := newQueue(ctx, server.url, false, p.BodyBytes)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, p.Duration+2*time.Second)
	defer cancel()
	for range 8 {
		go func() {
			_, _ = q.client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: q.url, WaitTimeSeconds: 20})
		}()
	}
	<-time.After(time.Second)
	before := server.cpu()
	<-time.After(p.Duration)
	fmt.Printf("idle with 8 waiting polls       %v CPU in %v\n", server.cpu()-before, p.Duration)
	return nil
}

// memory measures the resident memory with a backlog.
func (p plan) memory(ctx context.Context, server *process) error {
	q, err := p.fill(ctx, server.url)
	if err != nil {
		return err
	}
	n, err := q.depth(ctx)
	fmt.Printf("resident with %s queued     %.0f MiB\n", n, server.residentMiB())
	return err
}

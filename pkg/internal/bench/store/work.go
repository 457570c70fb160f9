package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stagefleet/stagefleet/pkg/internal/envelope"
	"github.com/stagefleet/stagefleet/pkg/job"
)

// discard is a queue that takes everything.
type discard struct{}

func (discard) Send(_ context.Context, rows []job.Outgoing) []error { return make([]error, len(rows)) }

func route(stage string) job.Route {
	return job.Route{Stage: stage, Queue: "q-" + stage, DLQ: "dlq-" + stage}
}

// submit stores n jobs, many at a time, and returns their first messages and how long each submission took.
func submit(ctx context.Context, s *job.Store, prefix string, n, parallel int) ([]string, []time.Duration, error) {
	steps := make([]string, n)
	took := make([]time.Duration, n)
	err := spread(parallel, n, func(i int) error {
		at := time.Now()
		j, err := s.Submit(ctx, job.Submission{
			Tenant: fmt.Sprintf("t%d", i%20), Target: fmt.Sprintf("%s-%d", prefix, i), Digest: "d", Input: json.RawMessage(`{"v":1}`), First: route("ingest"), Price: 1,
		})
		if err != nil {
			return err
		}
		took[i] = time.Since(at)
		steps[i], err = envelope.Encode(envelope.Body{Step: j.Steps[0].ID, Emission: 1, Tenant: j.Tenant})
		return err
	})
	return steps, took, err
}

// step runs one whole step: claim, publish with a next step, send and mark. It returns the next step's message and the
// time of each of the first two.
func step(ctx context.Context, s *job.Store, body, stage string) (string, [2]time.Duration, error) {
	var took [2]time.Duration
	b, err := envelope.Decode(body)
	if err != nil {
		return "", took, err
	}
	at := time.Now()
	c, err := s.Claim(ctx, job.ClaimRequest{Step: b.Step, Tenant: b.Tenant, Emission: b.Emission, Stage: stage, Worker: "w", Lease: time.Minute})
	if err != nil {
		return "", took, err
	}
	claimed := time.Now()
	next := route(stage + "-next")
	p, err := s.Publish(ctx, job.Publication{Claim: c, Output: json.RawMessage(`{"v":1}`), Next: &next})
	if err != nil {
		return "", took, err
	}
	took = [2]time.Duration{claimed.Sub(at), time.Since(claimed)}
	if !p.Accepted {
		return "", took, errors.New("publication refused: " + p.Reason)
	}
	return p.Outgoing[0].Body, took, s.Dispatch(ctx, discard{}, p.Outgoing)
}

// second takes first steps to their second: those are what a measurement runs, because a job's first step does more.
func second(ctx context.Context, s *job.Store, first []string) ([]string, error) {
	bodies := make([]string, len(first))
	return bodies, spread(100, len(first), func(i int) error {
		var err error
		bodies[i], _, err = step(ctx, s, first[i], "ingest")
		return err
	})
}

// spread runs do for 0 to n-1 by some goroutines and returns the first error.
func spread(workers, n int, do func(int) error) error {
	next := make(chan int)
	errs := make(chan error, workers)
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for i := range next {
				if err := do(i); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	var err error
feed:
	for i := range n {
		select {
		case next <- i:
		case err = <-errs:
			break feed
		}
	}
	close(next)
	all.Wait()
	if err == nil && len(errs) > 0 {
		err = <-errs
	}
	return err
}

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stagefleet/stagefleet/pkg/internal/sqldb/sqldbtest"
	"github.com/stagefleet/stagefleet/pkg/job"
)

// reads measures a status read and a claim among many stored jobs, one caller at a time.
func reads(ctx context.Context, set settings) ([]result, error) {
	return withServer(ctx, func(c *sqldbtest.Cluster) ([]result, error) {
		s, err := openStore(ctx, c, "reads", set.conns)
		if err != nil {
			return nil, err
		}
		defer func() { _ = s.Close() }()
		if err := fill(ctx, c.URL("reads"), set.jobs); err != nil {
			return nil, err
		}
		const n = 2000
		steps, _, err := submit(ctx, s, "reads", n, 50)
		if err != nil {
			return nil, err
		}
		var status, claims []time.Duration
		at := time.Now()
		for range n {
			asked := time.Now()
			if _, err := s.Job(ctx, "acme", fmt.Sprint("j", 1+rand.IntN(set.jobs))); err != nil {
				return nil, err
			}
			status = append(status, time.Since(asked))
		}
		read := time.Since(at)
		at = time.Now()
		for _, st := range steps {
			_, both, err := step(ctx, s, st, "ingest")
			if err != nil {
				return nil, err
			}
			claims = append(claims, both[0])
		}
		claim := time.Since(at)
		r50, r99 := percentiles(status)
		c50, c99 := percentiles(claims)
		among := fmt.Sprintf("one caller, %d jobs stored", set.jobs)
		return []result{
			{Name: "status read", Workload: among, Rate: n / read.Seconds(), P50Ms: r50, P99Ms: r99, Seconds: read.Seconds(), Goal: "p99 < 2 ms"},
			{Name: "claim", Workload: among, P50Ms: c50, P99Ms: c99, Seconds: claim.Seconds(), Goal: "p99 < 5 ms"},
		}, nil
	})
}

// fill stores n finished jobs of two steps in bulk.
func fill(ctx context.Context, url string, n int) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	for _, text := range []string{
		`INSERT INTO target (id, tenant, name, latest, ingested, created_at) SELECT 't' || i, 'acme', 'old' || i, 1, 1, i FROM generate_series(1, $1::int) i`,
		`INSERT INTO job (id, tenant, target, version, digest, state, created_at, ended_at)
			SELECT 'j' || i, 'acme', 't' || i, 1, 'd', 'completed', i, i FROM generate_series(1, $1::int) i`,
		`INSERT INTO step (id, job, tenant, stage, queue, dlq, fifo, state, phase, emitted_at, input, output, created_at)
			SELECT 's' || i, 'j' || i / 2, 'acme', CASE WHEN i % 2 = 0 THEN 'ingest' ELSE 'publish' END, 'q', 'd', 1, 'done', 0, i, '{"v":1}', '{"v":1}', i
			FROM generate_series(2, 2 * $1::int + 1) i`,
		`INSERT INTO attempt (id, step, job, emission, worker, outcome, due_at, claimed_at, lease_us, closed_at)
			SELECT 'a' || i, 's' || i, 'j' || i / 2, 1, 'w', 'done', i, i, 1, i FROM generate_series(2, 2 * $1::int + 1) i`,
	} {
		if _, err := conn.Exec(ctx, text, n); err != nil {
			return err
		}
	}
	_, err = conn.Exec(ctx, "VACUUM ANALYZE")
	return err
}

// late is a queue that notes how long after its due time each message comes.
type late struct {
	mu  sync.Mutex
	lag []time.Duration
}

func (l *late) Send(_ context.Context, rows []job.Outgoing) []error {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range rows {
		l.lag = append(l.lag, now.Sub(r.DueAt))
	}
	return make([]error, len(rows))
}

// relayLag submits a thousand jobs a second and measures from the commit's time to the send.
func relayLag(ctx context.Context, _ settings) ([]result, error) {
	return withServer(ctx, func(c *sqldbtest.Cluster) ([]result, error) {
		s, err := openStore(ctx, c, "relay", 10)
		if err != nil {
			return nil, err
		}
		defer func() { _ = s.Close() }()
		to := &late{}
		relaying, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- s.Relay(relaying, to) }()
		const seconds, perTick = 5, 10
		at := time.Now()
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		var all sync.WaitGroup
		errs := make(chan error, 100*seconds)
		for i := range 100 * seconds {
			<-tick.C
			all.Go(func() {
				_, _, err := submit(ctx, s, fmt.Sprint("relay", i), perTick, perTick)
				errs <- err
			})
		}
		all.Wait()
		wall := time.Since(at)
		<-time.After(time.Second)
		stop()
		if err := <-ended; err != nil {
			return nil, err
		}
		failures := 0
		for range 100 * seconds {
			if <-errs != nil {
				failures++
			}
		}
		p50, p99 := percentiles(to.lag)
		return []result{{Name: "relay lag", Workload: "1,000 submissions offered a second", Rate: float64(len(to.lag)) / wall.Seconds(), P50Ms: p50, P99Ms: p99,
			Seconds: wall.Seconds(), Failures: failures, Goal: "p99 < 100 ms at 1,000/s"}}, nil
	})
}

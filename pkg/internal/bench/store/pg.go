package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/stagefleet/stagefleet/pkg/internal/sqldb/sqldbtest"
	"github.com/stagefleet/stagefleet/pkg/job"
)

// server is the one Postgres that all contestants share, durable as in production.
var serverSettings = []string{"shared_buffers=512MB", "max_wal_size=4GB"}

// withServer runs measurements on a cluster of their own.
func withServer(ctx context.Context, run func(*sqldbtest.Cluster) ([]result, error)) ([]result, error) {
	c, err := sqldbtest.New(ctx, serverSettings...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Stop() }()
	return run(c)
}

func openStore(ctx context.Context, c *sqldbtest.Cluster, name string, conns int) (*job.Store, error) {
	url, err := c.Create(ctx, name, "")
	if err != nil {
		return nil, err
	}
	return job.Open(ctx, url, job.Options{Migrate: true, MaxConns: conns})
}

// postgresSteps compares whole steps with River's worked jobs, in turn, three rounds.
func postgresSteps(ctx context.Context, set settings) ([]result, error) {
	return withServer(ctx, func(c *sqldbtest.Cluster) ([]result, error) {
		const rounds = 3
		var ours, alone, theirs []result
		for i := range rounds {
			r, err := riverRate(ctx, c, fmt.Sprint("river", i), set)
			if err != nil {
				return nil, fmt.Errorf("river: %w", err)
			}
			theirs = append(theirs, r)
			if r, err = stepRate(ctx, c, fmt.Sprint("ours", i), set, 500, set.n); err != nil {
				return nil, err
			}
			ours = append(ours, r)
			if r, err = stepRate(ctx, c, fmt.Sprint("alone", i), set, 1, set.n/20); err != nil {
				return nil, err
			}
			alone = append(alone, r)
		}
		us, it := median(ours), median(theirs)
		us.Goal = fmt.Sprintf(">= 0.5 x River, is %.2f x", us.Rate/it.Rate)
		return []result{it, us, median(alone)}, nil
	})
}

// median returns the result with the middle rate.
func median(rs []result) result {
	slices.SortFunc(rs, func(a, b result) int { return cmp.Compare(a.Rate, b.Rate) })
	return rs[len(rs)/2]
}

func stepRate(ctx context.Context, c *sqldbtest.Cluster, name string, set settings, parallel, n int) (result, error) {
	s, err := openStore(ctx, c, name, set.conns)
	if err != nil {
		return result{}, err
	}
	defer func() { _ = s.Close() }()
	steps, _, err := submit(ctx, s, name, n, 100)
	if err != nil {
		return result{}, err
	}
	if steps, err = second(ctx, s, steps); err != nil {
		return result{}, err
	}
	m := startMeter(c.PID())
	err = spread(parallel, n, func(i int) error {
		_, _, err := step(ctx, s, steps[i], "ingest-next")
		return err
	})
	return m.rate(fmt.Sprintf("steps, %d at a time", parallel), "claim, publish with the next step, send and mark", n), err
}

type noop struct{}

func (noop) Kind() string { return "noop" }

type worker struct {
	river.WorkerDefaults[noop]
	done *atomic.Int64
}

func (w *worker) Work(context.Context, *river.Job[noop]) error {
	w.done.Add(1)
	return nil
}

// riverRate measures River with the settings of its own benchmark: fetch cooldown 2 ms, poll 20 ms.
func riverRate(ctx context.Context, c *sqldbtest.Cluster, name string, set settings) (result, error) {
	url, err := c.Create(ctx, name, "")
	if err != nil {
		return result{}, err
	}
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return result{}, err
	}
	cfg.MaxConns = int32(set.conns)
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return result{}, err
	}
	defer pool.Close()
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, nil)
	if err != nil {
		return result{}, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return result{}, err
	}
	var done atomic.Int64
	workers := river.NewWorkers()
	river.AddWorker(workers, &worker{done: &done})
	client, err := river.NewClient(driver, &river.Config{
		Workers: workers, FetchCooldown: 2 * time.Millisecond, FetchPollInterval: 20 * time.Millisecond,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 1000}},
	})
	if err != nil {
		return result{}, err
	}
	for sent := 0; sent < set.n; sent += 5000 {
		batch := make([]river.InsertManyParams, min(5000, set.n-sent))
		for i := range batch {
			batch[i].Args = noop{}
		}
		if _, err := client.InsertMany(ctx, batch); err != nil {
			return result{}, err
		}
	}
	m := startMeter(c.PID())
	if err := client.Start(ctx); err != nil {
		return result{}, err
	}
	for left := 1; left > 0; { // until every completion is stored, as ours are
		if err := pool.QueryRow(ctx, "SELECT COUNT(*) FROM river_job WHERE state <> 'completed'").Scan(&left); err != nil {
			return result{}, err
		}
		if left > 0 {
			<-time.After(20 * time.Millisecond)
		}
	}
	return m.rate("River, worked jobs", "no-op, 1000 workers", set.n), client.Stop(ctx)
}

// admissions measures submissions of many callers until each is durable.
func admissions(ctx context.Context, set settings) ([]result, error) {
	return withServer(ctx, func(c *sqldbtest.Cluster) ([]result, error) {
		s, err := openStore(ctx, c, "admission", set.conns)
		if err != nil {
			return nil, err
		}
		defer func() { _ = s.Close() }()
		at := time.Now()
		_, took, err := submit(ctx, s, "admission", set.n, 50)
		if err != nil {
			return nil, err
		}
		wall := time.Since(at)
		p50, p99 := percentiles(took)
		return []result{{Name: "admissions", Workload: "50 callers, 20 tenants", Rate: float64(set.n) / wall.Seconds(), P50Ms: p50, P99Ms: p99,
			Seconds: wall.Seconds(), Goal: ">= 500/s"}}, nil
	})
}

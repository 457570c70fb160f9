package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/stagefleet/stagefleet/pkg/job"
)

// childEnv makes this binary one of the processes that share the file; it holds the database's URL.
const childEnv = "STORE_BENCH_CHILD"

const processes = 8

// sqliteSteps lets eight processes run steps on one file at the same time.
func sqliteSteps(ctx context.Context, set settings) ([]result, error) {
	dir, err := os.MkdirTemp("", "store-bench")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	url := "sqlite:" + filepath.Join(dir, "record.db")
	s, err := job.Open(ctx, url, job.Options{Migrate: true})
	if err != nil {
		return nil, err
	}
	steps, _, err := submit(ctx, s, "sqlite", set.n, 16)
	if err != nil {
		return nil, err
	}
	if steps, err = second(ctx, s, steps); err != nil {
		return nil, err
	}
	if err := s.Close(); err != nil {
		return nil, err
	}
	at := time.Now()
	took, failures, err := runChildren(ctx, url, steps)
	if err != nil {
		return nil, err
	}
	wall := time.Since(at)
	p50, p99 := percentiles(took)
	return []result{{
		Name: "SQLite, 8 processes", Workload: "claim and publish with fsync, one at a time per process", Rate: float64(len(took)) / wall.Seconds(),
		P50Ms: p50, P99Ms: p99, Seconds: wall.Seconds(), Failures: failures, Goal: ">= 1000 transactions/s, p99 < 25 ms, no failure",
	}}, nil
}

func runChildren(ctx context.Context, url string, steps []string) ([]time.Duration, int, error) {
	type answer struct {
		took     []time.Duration
		failures int
		err      error
	}
	answers := make(chan answer)
	for i := range processes {
		share := steps[i*len(steps)/processes : (i+1)*len(steps)/processes]
		go func() {
			cmd := exec.CommandContext(ctx, os.Args[0])
			cmd.Env = append(os.Environ(), childEnv+"="+url)
			cmd.Stdin = strings.NewReader(strings.Join(share, "\n"))
			cmd.Stderr = os.Stderr
			cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			out, err := cmd.Output()
			a := answer{err: err}
			if err == nil {
				a.err = json.Unmarshal(out, &a.took)
			}
			a.failures = 2*len(share) - len(a.took)
			answers <- a
		}()
	}
	var all []time.Duration
	failures := 0
	var firstErr error
	for range processes {
		a := <-answers
		all, failures = append(all, a.took...), failures+a.failures
		if firstErr == nil {
			firstErr = a.err
		}
	}
	return all, failures, firstErr
}

func sqliteChild() int {
	ctx := context.Background()
	s, err := job.Open(ctx, os.Getenv(childEnv), job.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	took := []time.Duration{}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		_, both, err := step(ctx, s, lines.Text(), "ingest-next")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			continue
		}
		took = append(took, both[0], both[1])
	}
	if err := json.NewEncoder(os.Stdout).Encode(took); err != nil {
		return 1
	}
	if err := s.Close(); err != nil {
		return 1
	}
	return 0
}

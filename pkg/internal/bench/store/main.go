// Command store measures the record of jobs: step transactions of eight processes on one SQLite file, steps on
// Postgres beside River on the same server, admissions, reads among a million jobs, and the relay's lag. It prints a
// table and writes the same as JSON. Everything it starts is its own and ends with it.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/stagefleet/stagefleet/pkg/internal/bench/bounds"
)

// result is one measured line.
type result struct {
	Name     string  `json:"name"`
	Workload string  `json:"workload"`
	Rate     float64 `json:"perSecond,omitempty"`
	ClientUs float64 `json:"clientCPUus,omitempty"` // CPU of this process for each
	ServerUs float64 `json:"serverCPUus,omitempty"` // and of Postgres
	P50Ms    float64 `json:"p50Ms,omitempty"`
	P99Ms    float64 `json:"p99Ms,omitempty"`
	Seconds  float64 `json:"seconds"`
	Failures int     `json:"failures"`
	Goal     string  `json:"goal,omitempty"`
}

// everything names all that can be measured.
const everything = "sqlite,steps,admission,reads,relay"

type settings struct {
	n     int
	conns int
	jobs  int
}

func main() {
	if os.Getenv(childEnv) != "" {
		os.Exit(sqliteChild())
	}
	var set settings
	only := flag.String("only", everything, "comma separated: what to measure")
	out := flag.String("out", "", "file for the results as JSON")
	flag.IntVar(&set.n, "n", 10000, "steps per measurement")
	flag.IntVar(&set.conns, "conns", 10, "Postgres connections of each contestant")
	flag.IntVar(&set.jobs, "jobs", 1000000, "jobs stored for the reads")
	flag.Parse()
	bounds.Exit(
		bounds.None(flag.Args()),
		bounds.Between("n", set.n, 1, 10_000_000),
		bounds.Between("conns", set.conns, 1, 1000),
		bounds.Between("jobs", set.jobs, 1, 100_000_000),
		bounds.Among("only", *only, strings.Split(everything, ",")...),
	)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	results, err := measure(ctx, strings.Split(*only, ","), set)
	printTable(results)
	if err == nil && *out != "" {
		err = write(*out, results)
	}
	if err != nil {
		log.Fatal(err) //nolint:gocritic // the deferred stop has nothing left to do
	}
}

func measure(ctx context.Context, only []string, set settings) ([]result, error) {
	suites := []struct {
		name string
		run  func(context.Context, settings) ([]result, error)
	}{{"sqlite", sqliteSteps}, {"steps", postgresSteps}, {"admission", admissions}, {"reads", reads}, {"relay", relayLag}}
	var all []result
	for _, s := range suites {
		if !slices.Contains(only, s.name) {
			continue
		}
		got, err := s.run(ctx, set)
		all = append(all, got...)
		if err != nil {
			return all, fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return all, nil
}

func printTable(results []result) {
	fmt.Printf("%-24s %10s %9s %9s %8s %8s %8s %8s  %s\n", "what", "per second", "client us", "server us", "p50 ms", "p99 ms", "seconds", "failures", "goal")
	for _, r := range results {
		fmt.Printf("%-24s %10.0f %9.0f %9.0f %8.2f %8.2f %8.1f %8d  %s\n",
			r.Name, r.Rate, r.ClientUs, r.ServerUs, r.P50Ms, r.P99Ms, r.Seconds, r.Failures, r.Goal)
	}
}

func write(path string, results []result) error {
	raw, err := json.MarshalIndent(map[string]any{
		"machine": map[string]any{"cpus": runtime.NumCPU(), "go": runtime.Version(), "os": runtime.GOOS + "/" + runtime.GOARCH},
		"at":      time.Now().UTC(), "results": results,
	}, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(raw, '\n'), 0o644)
}

// percentiles returns p50 and p99 in milliseconds.
func percentiles(ds []time.Duration) (p50, p99 float64) {
	if len(ds) == 0 {
		return 0, 0
	}
	slices.Sort(ds)
	at := func(share float64) float64 {
		return float64(ds[min(len(ds)-1, int(share*float64(len(ds))))].Microseconds()) / 1000
	}
	return at(.5), at(.99)
}

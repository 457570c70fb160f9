// Command consumers measures pkg/pool beside a raw SDK loop and other Go consumers of SQS, on one server in one run. Every round gives
// each of them the same backlog, in shuffled order and in a process of its own, so that CPU and allocations are the consumer's
// alone. It prints medians over the rounds, and ratios to the raw loop of the same round; trust the ratios.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// plan is what one run does.
type plan struct {
	Rounds    int
	Messages  int
	BodyBytes int
	Slots     int
	Latency   time.Duration
	Idle      time.Duration
	Only      string
	Quick     bool
	JSON      string
	Profiles  string
}

// Messages of the other scenarios. With a latency, fewer do: it is the wait that is measured.
const (
	slowShare     = 4 // of the backlog, the part that is worked off with a latency
	mixedMessages = 501
	stopMessages  = 3000
	heldMessages  = 10_000
)

func main() {
	var p plan
	serve := flag.Bool("serve", false, "internal: be the server")
	consume := flag.String("consume", "", "internal: be this consumer")
	scenario := flag.String("scenario", "", "internal: what it does")
	url := flag.String("url", "", "internal: the server's URL")
	flag.IntVar(&p.Rounds, "rounds", 5, "rounds, each with every consumer")
	flag.IntVar(&p.Messages, "n", 20_000, "messages of one measurement")
	flag.IntVar(&p.BodyBytes, "body", 1024, "bytes of a message body")
	flag.IntVar(&p.Slots, "slots", 100, "slots of the pool")
	flag.DurationVar(&p.Latency, "latency", 10*time.Millisecond, "time before the server's replies in the second table, for SQS's takes 5 to 20 ms; 0 leaves that table out")
	flag.DurationVar(&p.Idle, "idle", time.Minute, "length of the idle measurement; 0 leaves it out")
	flag.StringVar(&p.Only, "only", "", "consumers to measure, comma-separated; empty: all")
	flag.BoolVar(&p.Quick, "quick", false, "only the backlog, not the scenarios that take a minute")
	flag.StringVar(&p.JSON, "json", "", "file for the results; empty: none")
	flag.StringVar(&p.Profiles, "profiles", "", "folder for CPU and allocation profiles of the consumers; empty: none")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	switch {
	case *serve:
		err = serveChild(p.Latency)
	case *consume != "":
		err = consumeChild(ctx, *consume, *scenario, *url, p)
	default:
		p.check()
		err = p.run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (p plan) names() []string {
	if p.Only != "" {
		return strings.Split(p.Only, ",")
	}
	return []string{"raw", "pool", "gocloud", "gocloud-tuned", "watermill-tuned"}
}

func (p plan) run(ctx context.Context) (err error) {
	r := results{Machine: machine(), At: time.Now().UTC(), Plan: p}
	fmt.Println(r.Machine)
	fmt.Printf("standard queue, %d messages of %d bytes, no-op handlers, %d rounds\n", p.Messages, p.BodyBytes, p.Rounds)
	if r.Drain, err = p.backlogs(ctx, p.Messages, 0); err != nil {
		return err
	}
	fmt.Println("\nloopback, no latency: the cores are the bound")
	r.printBacklog(os.Stdout, r.Drain)
	r.printBound(os.Stdout)
	if p.Latency > 0 {
		if r.Slow, err = p.backlogs(ctx, max(10, p.Messages/slowShare), p.Latency); err != nil {
			return err
		}
		fmt.Printf("\n%d messages, every reply after %v: what is under way at once is the bound\n", max(10, p.Messages/slowShare), p.Latency)
		r.printBacklog(os.Stdout, r.Slow)
	}
	if !p.Quick {
		if err := p.others(ctx, &r); err != nil {
			return err
		}
	}
	return r.write(p.JSON)
}

// backlogs has every consumer work off a backlog, in rounds.
func (p plan) backlogs(ctx context.Context, n int, latency time.Duration) (all []measurement, err error) {
	for round := range p.Rounds {
		names := slices.Clone(p.names())
		rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		for _, name := range names {
			m, err := p.measure(ctx, name, "drain", n, latency)
			if err != nil {
				return nil, fmt.Errorf("measure %s: %w", name, err)
			}
			m.Round = round
			all = append(all, m)
		}
	}
	return all, nil
}

// others are the scenarios of which the counts matter.
func (p plan) others(ctx context.Context, r *results) error {
	for _, name := range p.names() {
		m, err := p.measure(ctx, name, "mixed", mixedMessages, 0)
		if err != nil {
			return fmt.Errorf("measure %s, mixed: %w", name, err)
		}
		r.Mixed = append(r.Mixed, m)
	}
	r.printMixed(os.Stdout)
	for _, s := range []struct {
		scenario string
		n        int
		into     **measurement
		skip     bool
	}{{"stop", stopMessages, &r.Stop, false}, {"beat", heldMessages, &r.Beat, false}, {"idle", 0, &r.Idle, p.Idle == 0}} {
		if s.skip {
			continue
		}
		m, err := p.measure(ctx, "pool", s.scenario, s.n, 0)
		if err != nil {
			return fmt.Errorf("measure %s: %w", s.scenario, err)
		}
		*s.into = &m
	}
	r.printPool(os.Stdout)
	return nil
}

// measure runs one consumer against a fresh server with n messages.
func (p plan) measure(ctx context.Context, name, scenario string, n int, latency time.Duration) (measurement, error) {
	server, err := startServer(ctx, latency)
	if err != nil {
		return measurement{}, err
	}
	defer server.stop()
	if err := server.fill(n, p.BodyBytes); err != nil {
		return measurement{}, err
	}
	before, err := server.counts()
	if err != nil {
		return measurement{}, err
	}
	self, err := os.Executable()
	if err != nil {
		return measurement{}, err
	}
	cmd := exec.CommandContext(ctx, self, "-consume", name, "-scenario", scenario, "-url", server.url,
		"-n", fmt.Sprint(n), "-slots", fmt.Sprint(p.Slots), "-idle", p.Idle.String(), "-profiles", p.Profiles)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return measurement{}, err
	}
	var m measurement
	if err := json.Unmarshal(out, &m); err != nil {
		return measurement{}, fmt.Errorf("decode result %q: %w", out, err)
	}
	m.Name = name
	m.Counts, err = server.counts()
	m.Counts.CPU -= before.CPU
	return m, err
}

func machine() string {
	model := "unknown CPU"
	info, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(info)) {
		if rest, ok := strings.CutPrefix(line, "model name"); ok {
			model = strings.TrimSpace(strings.TrimLeft(rest, "\t: "))
			break
		}
	}
	return fmt.Sprintf("%s, %d cores, %s", model, runtime.NumCPU(), runtime.Version())
}

func (r *results) write(path string) error {
	if path == "" {
		return nil
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// series is one row of the table: a server, a kind of queue, and the clients.
type series struct{ server, kind, client string }

// The clients. The Go SDK needs more processor time for a message than most servers do, and on a machine that both share
// its cost hides the server's. The plain client sends the same calls over bare connections, ready-made.
const (
	sdkClient   = "Go SDK"
	plainClient = "plain"
)

// warmUp is not measured: a server that compiles while it runs deserves it.
const warmUp = 2 * time.Second

func (p plan) series() (rows []series) {
	servers := []string{"localsqs"}
	if p.Fauxqs != "" {
		servers = append(servers, "fauxqs")
	}
	for _, client := range []string{plainClient, sdkClient} {
		for _, server := range servers {
			rows = append(rows, series{server, "standard", client}, series{server, "fifo", client})
		}
	}
	rows = append(rows, series{"echo", "-", plainClient})
	return slices.DeleteFunc(rows, func(row series) bool { return !strings.Contains(row.String(), p.Only) })
}

func (row series) String() string { return row.client + " " + row.server + " " + row.kind }

func (p plan) throughput(ctx context.Context) error {
	rows := p.series()
	all := map[series][]result{}
	for range p.Rounds {
		for _, i := range rand.Perm(len(rows)) {
			r, err := p.measure(ctx, rows[i])
			if err != nil {
				return fmt.Errorf("%v: %w", rows[i], err)
			}
			all[rows[i]] = append(all[rows[i]], r)
		}
	}
	fmt.Println("clients  server    queue      consumed messages/s      server CPU  client CPU   machine  messages")
	fmt.Println("                              median (min-max)         µs/message  µs/message   busy     per receive")
	for _, row := range rows {
		rates := column(all[row], func(r result) float64 { return r.rate })
		spread := fmt.Sprintf("%.0f (%.0f-%.0f)", median(rates), slices.Min(rates), slices.Max(rates))
		fmt.Printf("%-8s %-9s %-10s %-24s %-11.1f %-12.1f %3.0f %%    %.1f\n", row.client, row.server, row.kind, spread,
			median(column(all[row], func(r result) float64 { return r.cost })), median(column(all[row], func(r result) float64 { return r.clientCost })),
			median(column(all[row], func(r result) float64 { return 100 * r.busy })), median(column(all[row], func(r result) float64 { return r.receives })))
	}
	fmt.Println("\nclients \"plain\": the same calls, ready-made, on bare connections; every server gets the same. With the Go SDK the")
	fmt.Println("clients need more processor time for a message than the servers, which bounds every ratio there.")
	fmt.Println("\nratio of localsqs               median of the rounds' ratios")
	for _, row := range rows {
		if row.server != "localsqs" {
			continue
		}
		peers := []series{{"fauxqs", row.kind, row.client}}
		if row.client == plainClient {
			peers = append(peers, series{"echo", "-", plainClient})
		}
		for _, peer := range peers {
			if len(all[peer]) == len(all[row]) {
				fmt.Printf("to %-7s %-9s %-10s  %.2f\n", peer.server, row.kind, row.client, median(ratios(all[row], all[peer])))
			}
		}
	}
	return nil
}

func column(results []result, of func(result) float64) (all []float64) {
	for _, r := range results {
		all = append(all, of(r))
	}
	return all
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

func ratios(own, other []result) (all []float64) {
	for i := range own {
		all = append(all, own[i].rate/other[i].rate)
	}
	return all
}

// result is one measurement.
type result struct {
	rate       float64 // consumed messages per second
	cost       float64 // processor time of the server per message, in microseconds
	clientCost float64 // and of the clients
	busy       float64 // share of the machine's processor time that was used by anything
	receives   float64 // messages per receive that brought any
}

func (p plan) measure(ctx context.Context, row series) (r result, err error) {
	server, err := p.start(row.server)
	if err != nil {
		return r, err
	}
	defer server.stop()
	l, err := p.newLoad(ctx, row, server.url)
	if err != nil {
		return r, err
	}
	ctx, cancel := context.WithTimeout(ctx, warmUp+p.Duration)
	defer cancel()
	var work sync.WaitGroup
	if row.server == "echo" {
		for range p.Producers + p.Consumers {
			work.Go(func() { l.exchange(ctx) })
		}
	} else {
		for range p.Producers {
			work.Go(func() { l.produce(ctx) })
		}
		for range p.Consumers {
			work.Go(func() { l.consume(ctx) })
		}
	}
	<-time.After(warmUp)
	before := l.reading(server)
	<-ctx.Done()
	after := l.reading(server)
	work.Wait()
	if text := l.failure(); text != "" {
		fmt.Printf("(%v: %s)\n", row, text)
	}
	return after.since(before), nil
}

package main

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"
)

// results are what a run found.
type results struct {
	Machine string
	At      time.Time
	Plan    plan
	Drain   []measurement // no latency
	Slow    []measurement // with Plan.Latency
	Mixed   []measurement
	Stop    *measurement
	Beat    *measurement
	Idle    *measurement
}

type figure func(measurement) float64

func rate(m measurement) float64      { return float64(m.Handled) / m.Seconds }
func calls(m measurement) float64     { return m.perMessage(m.calls()) }
func cpu(m measurement) float64       { return m.perMessage(m.CPU * 1e6) }
func serverCPU(m measurement) float64 { return m.perMessage(m.Counts.CPU * 1e6) }
func bothCPU(m measurement) float64   { return cpu(m) + serverCPU(m) }
func allocs(m measurement) float64    { return m.perMessage(float64(m.Allocs)) }
func rss(m measurement) float64       { return m.RSSMiB }

// of returns a figure of one consumer for each round.
func of(all []measurement, name string, f figure) []float64 { return over(all, name, "", f) }

// over returns a figure of one consumer divided by another's of the same round, for each round that has both.
func over(all []measurement, name, base string, f figure) (sorted []float64) {
	by := map[int]float64{}
	for _, m := range all {
		if m.Name == base {
			by[m.Round] = f(m)
		}
	}
	for _, m := range all {
		switch {
		case m.Name != name:
		case base == "":
			sorted = append(sorted, f(m))
		case by[m.Round] > 0:
			sorted = append(sorted, f(m)/by[m.Round])
		}
	}
	slices.Sort(sorted)
	return sorted
}

func spread(format string, sorted []float64) string {
	if len(sorted) == 0 {
		return "-"
	}
	f := func(v float64) string { return fmt.Sprintf(format, v) }
	return fmt.Sprintf("%s (%s-%s)", f(median(sorted)), f(sorted[0]), f(sorted[len(sorted)-1]))
}

func median(sorted []float64) float64 {
	n := len(sorted)
	if n == 0 {
		return 0
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

func (r *results) printBacklog(w io.Writer, all []measurement) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "consumer\tmessages/s\tx raw\tcalls/message\tCPU us/message\tx raw\tserver us\tallocations/message\tx raw\tpeak MiB\tleft\t")
	for _, name := range r.Plan.names() {
		left := 0
		for _, m := range all {
			if m.Name == name {
				left += m.Counts.Visible + m.Counts.Hidden
			}
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%.0f\t%d\t\n", name, spread("%.0f", of(all, name, rate)), spread("%.2f", over(all, name, "raw", rate)),
			spread("%.3f", of(all, name, calls)), spread("%.0f", of(all, name, cpu)), spread("%.2f", over(all, name, "raw", cpu)), spread("%.0f", of(all, name, serverCPU)),
			spread("%.0f", of(all, name, allocs)), spread("%.2f", over(all, name, "raw", allocs)), median(of(all, name, rss)), left)
	}
	t.Flush()
	for _, peer := range r.Plan.names() {
		if ratio := over(all, "pool", peer, rate); peer != "pool" && len(ratio) > 0 {
			fmt.Fprintf(w, "  pool is %s x %s\n", spread("%.2f", ratio), peer)
		}
	}
}

// printBound says what the cores allow: with no latency the consumer that costs more CPU is the slower one by as much, and none is
// cheaper than the raw loop by more than what the loop itself does, for both make the same calls.
func (r *results) printBound(w io.Writer) {
	used := of(r.Drain, "pool", func(m measurement) float64 { return bothCPU(m) * rate(m) / 1e6 })
	if len(used) == 0 {
		return
	}
	fmt.Fprintf(w, "  pool and server used %s of %d cores\n", spread("%.2f", used), runtime.NumCPU())
	for _, peer := range []string{"gocloud", "gocloud-tuned"} {
		bound := over(r.Drain, peer, "raw", bothCPU)
		if len(bound) == 0 {
			continue
		}
		fmt.Fprintf(w, "  a consumer that costs what the raw loop costs can be %s x %s: that is the ratio of their CPU, client and server (%.0f and %.0f us a message)\n",
			spread("%.2f", bound), peer, median(of(r.Drain, peer, bothCPU)), median(of(r.Drain, "raw", bothCPU)))
	}
}

func (r *results) printMixed(w io.Writer) {
	fmt.Fprintln(w, "\n500 handlers of 20 ms beside one of 60 s, ten at a time: seconds until the 500 are done (1.11 with nine slots that never idle)")
	for _, m := range r.Mixed {
		fmt.Fprintf(w, "  %-16s %6.2f\n", m.Name, m.Seconds)
	}
}

func (r *results) printPool(w io.Writer) {
	fmt.Fprintf(w, "\npool, stopped with ten handlers of 20 ms under way: %.0f ms beyond a handler, %d left hidden\n", r.Stop.StopMs, r.Stop.Counts.Hidden)
	c := r.Beat.Counts
	fmt.Fprintf(w, "pool, %d messages in flight: %d heartbeat calls for %d renewals (%.3f), the largest of %d bytes, %.1f KiB of objects a message with its body, and a stack of %.1f KiB\n",
		r.Beat.Handled, c.Calls[beatCall], c.Beaten, float64(c.Calls[beatCall])/float64(max(1, c.Beaten)), c.Largest, r.Beat.HeldKiB.Objects, r.Beat.HeldKiB.Stacks)
	if r.Idle != nil {
		fmt.Fprintf(w, "pool, idle with 1,000 slots for %v: %d receives, %.0f ms of CPU\n", r.Plan.Idle, r.Idle.Counts.Calls["ReceiveMessage"], r.Idle.CPU*1000)
	}
}

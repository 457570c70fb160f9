package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// results are what a run found.
type results struct {
	Machine string
	At      time.Time
	Plan    plan
	Drain   []measurement
	Mixed   []measurement
	Stop    *measurement
	Idle    *measurement
}

// of returns a figure of one consumer for each round, divided by the raw loop's of the same round where asked.
func (r *results) of(name string, ratio bool, figure func(measurement) float64) []float64 {
	base := map[int]float64{}
	for _, m := range r.Drain {
		if m.Name == "raw" {
			base[m.Round] = figure(m)
		}
	}
	var all []float64
	for _, m := range r.Drain {
		switch {
		case m.Name != name:
		case ratio && base[m.Round] == 0:
		case ratio:
			all = append(all, figure(m)/base[m.Round])
		default:
			all = append(all, figure(m))
		}
	}
	slices.Sort(all)
	return all
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
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

func (r *results) printDrain(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	defer t.Flush()
	rate := func(m measurement) float64 { return float64(m.Handled) / m.Seconds }
	calls := func(m measurement) float64 { return m.perMessage(m.calls()) }
	cpu := func(m measurement) float64 { return m.perMessage(m.CPU * 1e6) }
	serverCPU := func(m measurement) float64 { return m.perMessage(m.Counts.CPU * 1e6) }
	allocs := func(m measurement) float64 { return m.perMessage(float64(m.Allocs)) }
	fmt.Fprintln(t, "consumer\tmessages/s\tratio\tcalls/message\tCPU us/message\tratio\tserver us\tallocations/message\tratio\tpeak MiB\tleft\t")
	for _, name := range r.Plan.names() {
		left := 0
		for _, m := range r.Drain {
			if m.Name == name {
				left += m.Counts.Visible + m.Counts.Hidden
			}
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%.0f\t%d\t\n", name, spread("%.0f", r.of(name, false, rate)), spread("%.2f", r.of(name, true, rate)),
			spread("%.3f", r.of(name, false, calls)), spread("%.0f", r.of(name, false, cpu)), spread("%.2f", r.of(name, true, cpu)), spread("%.0f", r.of(name, false, serverCPU)),
			spread("%.0f", r.of(name, false, allocs)), spread("%.2f", r.of(name, true, allocs)), median(r.of(name, false, func(m measurement) float64 { return m.RSSMiB })), left)
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
	if r.Idle != nil {
		fmt.Fprintf(w, "pool, idle with 1,000 slots for %v: %d receives, %.0f ms of CPU\n", r.Plan.Idle, r.Idle.Counts.Calls["ReceiveMessage"], r.Idle.CPU*1000)
	}
}

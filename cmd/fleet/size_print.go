package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/stagefleet/stagefleet/pkg/capacity"
)

const (
	slotsFormula  = "slots = limit a minute x median seconds / (60 x use of one attempt), rounded down; start = a quarter, rounded up"
	growthFormula = "growth = arrivals - workers x what one finishes a minute"
)

// explain says how the figures came about.
func (a *answer) explain(sheet bool) {
	var formulas []string
	if a.P90 != nil {
		formulas = append(formulas, slotsFormula)
		a.Assumes = append(a.Assumes,
			"the use of an attempt is spread evenly over its duration",
			"a slot begins its next attempt at once: the queue is never empty",
			"nobody else draws on the same limits",
			"attempts that fail are not counted; leave room for retries",
		)
		if sheet {
			a.Assumes = append(a.Assumes, "without a column requests an attempt makes one request")
		}
	}
	if a.Forecast != nil {
		formulas = append(formulas, growthFormula)
		a.Assumes = append(a.Assumes, "arrivals and workers stay as they are", "every worker is busy all the time")
	}
	a.Formula = strings.Join(formulas, "; ")
}

// print writes the answer for people.
func (a answer) print(w io.Writer) error {
	var b strings.Builder
	if a.Measured != nil {
		printMeasured(&b, *a.Measured, a.Source)
	}
	if a.P90 != nil {
		printEstimates(&b, *a.P90, *a.P99)
		if a.Allowed > 0 && a.P90.Ceiling > 0 {
			fmt.Fprintf(&b, "\nThe manifest lets %s reach %d slots (%d tasks x %d): %s\n", a.Stage, a.Allowed, a.tasks, a.taskSlots, judgement(a.Allowed, a.P90.Ceiling))
		}
	}
	if a.Forecast != nil {
		a.Forecast.print(&b)
	}
	if a.Formula != "" {
		fmt.Fprintf(&b, "\n%s.\nAssumed: %s.\n", a.Formula, strings.Join(a.Assumes, "; "))
	}
	_, err := io.WriteString(w, strings.TrimLeft(b.String(), "\n"))
	return err
}

func judgement(allowed, ceiling int) string {
	if allowed > ceiling {
		return fmt.Sprintf("more than the limits bear; set Ceiling: %d, and it refuses to start until MaxTasks x Slots fits.", ceiling)
	}
	return fmt.Sprintf("within the limits. Ceiling: %d in the manifest keeps it so.", ceiling)
}

func printMeasured(b *strings.Builder, m capacity.Measured, source string) {
	fmt.Fprintf(b, "%d attempts from %s\n\n", m.Attempts, source)
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "MEASURED\tMEDIAN\tP90\tP99\t")
	for _, row := range []struct {
		name string
		capacity.Spread
	}{{"duration, seconds", m.Seconds}, {"requests", m.Requests}, {"input tokens", m.InputTokens}, {"output tokens", m.OutputTokens}} {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t\n", row.name, number(row.Median), number(row.P90), number(row.P99))
	}
	_ = table.Flush() // into memory
}

// printEstimates writes a row for each limit at each percentile, and what follows.
func printEstimates(b *strings.Builder, all ...capacity.Estimate) {
	b.WriteString("\n")
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "LIMIT\tA MINUTE\tAT\tONE ATTEMPT\tSLOTS\t")
	for _, e := range all {
		for _, l := range e.Bounds {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%.1f\t\n", l.Limit, number(float64(l.PerMinute)), e.Percentile, number(l.PerAttempt), l.Slots)
		}
	}
	_ = table.Flush() // into memory
	b.WriteString("\n")
	for _, e := range all {
		if e.Ceiling == 0 {
			fmt.Fprintf(b, "At %s not even one slot stays within the limit of %s: ask for a higher one, or use less an attempt.\n", e.Percentile, e.Binding)
			continue
		}
		fmt.Fprintf(b, "At %s the ceiling is %d slots, bound by %s; start with %d.\n", e.Percentile, e.Ceiling, e.Binding, e.Start)
	}
}

func (f forecast) print(b *strings.Builder) {
	fmt.Fprintf(b, "\n%s x %s a minute against %s arrivals: ", counted(f.Workers), number(f.PerWorker), number(f.Arrivals))
	switch {
	case f.Growth > 0:
		fmt.Fprintf(b, "the backlog grows by %s a minute; %d would keep up.\n", number(f.Growth), f.Needed)
	case f.Backlog == 0:
		b.WriteString("they keep up.\n")
	case f.ClearIn == nil:
		fmt.Fprintf(b, "the backlog stays at %d; one more worker shortens it.\n", f.Backlog)
	default:
		left := time.Duration(*f.ClearIn * float64(time.Second)).Round(time.Second)
		fmt.Fprintf(b, "the backlog shrinks by %s a minute; %d are done in %v.\n", number(-f.Growth), f.Backlog, left)
	}
}

func counted(workers int) string {
	if workers == 1 {
		return "1 worker"
	}
	return fmt.Sprintf("%d workers", workers)
}

// number writes a value with separators, and with decimals only where they say something.
func number(v float64) string {
	digits := 0
	if v != float64(int64(v)) {
		digits = 1
	}
	text := strconv.FormatFloat(v, 'f', digits, 64)
	whole, rest, _ := strings.Cut(text, ".")
	for i := len(whole) - 3; i > 0 && whole[i-1] != '-'; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if rest == "" {
		return whole
	}
	return whole + "." + rest
}

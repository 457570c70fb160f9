package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/stagefleet/stagefleet/pkg/doctor"
)

// printReport writes a report: a block for each finding on a terminal, a line of a table elsewhere; then what was not seen,
// then the sum.
func printReport(w io.Writer, r doctor.Report) error {
	var text strings.Builder
	findings := findingTable
	if newDisplay(w).width > 0 {
		findings = findingBlocks
	}
	findings(&text, r.Findings)
	if len(r.Unseen) > 0 {
		text.WriteString("Not looked at:\n")
		for _, u := range r.Unseen {
			fmt.Fprintf(&text, "  %s, %s: %s\n", u.Part, printable(u.Resource), printable(u.Why))
		}
		text.WriteByte('\n')
	}
	fmt.Fprintf(&text, "%s%s: %s compared, %s, %s.\n", r.Environment, where(r), count(r.Looked, "resource"), count(len(r.Findings), "finding"), unseenText(r))
	_, err := io.WriteString(w, text.String())
	return err
}

func findingBlocks(w io.Writer, all []doctor.Finding) {
	for _, f := range all {
		name := f.Resource
		if f.Field != "" {
			name += ": " + f.Field
		}
		fmt.Fprintf(w, "%s\n  expected  %s\n  found     %s\n  why       %s\n  mend      %s\n\n", printable(name), printable(f.Expected), printable(f.Found), f.Why, printable(f.Mend))
	}
}

func findingTable(w io.Writer, all []doctor.Finding) {
	if len(all) == 0 {
		return
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "RESOURCE\tFIELD\tEXPECTED\tFOUND\tWHY\tMEND")
	for _, f := range all {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", printable(f.Resource), printable(f.Field), printable(f.Expected), printable(f.Found), f.Why, printable(f.Mend))
	}
	fmt.Fprintln(table)
	_ = table.Flush() // into memory
}

func where(r doctor.Report) string {
	if r.Account == "" {
		return ""
	}
	return fmt.Sprintf(" (account %s, %s)", r.Account, r.Region)
}

func unseenText(r doctor.Report) string {
	text := fmt.Sprintf("%d not looked at", len(r.Unseen))
	if len(r.Skipped) > 0 {
		var names []string
		for _, p := range r.Skipped {
			names = append(names, string(p))
		}
		text += ", left out as asked: " + strings.Join(names, ", ")
	}
	return text
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

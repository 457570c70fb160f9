package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/stagefleet/stagefleet/pkg/doctor"
)

// printReport writes a report as people read it: a block for each finding, then what was not seen, then the sum.
func printReport(w io.Writer, r doctor.Report) error {
	var text strings.Builder
	for _, f := range r.Findings {
		name := f.Resource
		if f.Field != "" {
			name += ": " + f.Field
		}
		fmt.Fprintf(&text, "%s\n  expected  %s\n  found     %s\n  why       %s\n  mend      %s\n\n", printable(name), printable(f.Expected), printable(f.Found), f.Why, printable(f.Mend))
	}
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

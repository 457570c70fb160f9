package scaffold

import (
	"fmt"
	"strings"

	"github.com/stagefleet/stagefleet/pkg/stage"
)

func names(p stage.Pipeline) string {
	var all []string
	for _, s := range p {
		all = append(all, s.Name)
	}
	return strings.Join(all, ", ")
}

// Picture draws a pipeline that holds, one line a stage, and points at one of them.
func Picture(p stage.Pipeline, at string) (string, error) {
	stages, err := p.Ordered()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for i, s := range stages {
		arrow, note := "↓", ""
		switch {
		case i == 0:
			arrow = ""
		case stages[i-1].FanOut:
			arrow, note = "↓ ↓ ↓", "a message for each part"
		case s.Join:
			arrow, note = "↘ ↓ ↙", "one message after the last part"
		}
		if arrow != "" {
			fmt.Fprintln(&b, strings.TrimRight(fmt.Sprintf("      %-16s %s", arrow, note), " "))
		}
		mark := ""
		if s.Name == at {
			mark = "  ← new"
		}
		fmt.Fprintf(&b, "  %-20s %s%s\n", s.Name, s.Queue, mark)
	}
	return b.String(), nil
}

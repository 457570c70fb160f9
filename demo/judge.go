package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/stagefleet/stagefleet/pkg/job"
)

// What is promised of the repository's own sample.
const (
	maxErrorRate = 0.20
	minClips     = 3
	minLikeness  = 0.80 // of a burned caption to its cue, letter by letter
	maxCPURatio  = 1.15
	maxWall      = 60 * time.Second
	maxOverhead  = 1500 * time.Millisecond
)

// check is one number and whether it holds.
type check struct {
	name  string
	value string
	bound string
	holds bool
	any   bool // promised of any script, not only of the repository's own
	clock bool // a time: shown against its bound, but another program on the machine must not fail the run
}

// judge compares the result with the truth, and its cost with the tools by hand.
func judge(ctx context.Context, f film, r result, bare time.Duration) ([]check, error) {
	rate := wordErrorRate(f.truth.Words(), r.words())
	missing := unnamed(f.truth.Names(), r)
	captions, err := readCaptions(ctx, r)
	if err != nil {
		return nil, err
	}
	worst, bad := captions.worst()
	wall := r.end.Sub(r.start)
	overhead := wall - r.toolTime()
	ratio := r.cpu.Seconds() / bare.Seconds()
	return []check{
		{"job", string(r.job.State), "completed", r.job.State == job.Completed, false, false},
		{"word error rate", fmt.Sprintf("%.1f %%", 100*rate), fmt.Sprintf("at most %.0f %%", 100*maxErrorRate), rate <= maxErrorRate, false, false},
		{"speakers named", fmt.Sprintf("%d of %d", len(f.truth.Names())-len(missing), len(f.truth.Names())), "all", len(missing) == 0, false, false},
		{"clips", fmt.Sprint(len(r.manifest.Clips)), fmt.Sprintf("at least %d", minClips), len(r.manifest.Clips) >= minClips, false, false},
		{"burned captions read back", fmt.Sprintf("%d (%d at the top), %d unlike their cue, the worst %.0f %% alike", len(captions), captions.atTop(), bad, 100*worst),
			fmt.Sprintf("all at least %.0f %% alike", 100*minLikeness), len(captions) > 0 && bad == 0, false, false},
		{"CPU of all processes", fmt.Sprintf("%.1f s, %.3f times the %.1f s by hand", r.cpu.Seconds(), ratio, bare.Seconds()),
			fmt.Sprintf("at most %.2f times", maxCPURatio), ratio <= maxCPURatio, false, true},
		{"submit to result", fmt.Sprintf("%.1f s", wall.Seconds()), fmt.Sprintf("under %.0f s", maxWall.Seconds()), wall < maxWall, false, true},
		{"the fleet's own share of it", fmt.Sprintf("%.2f s", overhead.Seconds()), fmt.Sprintf("under %.1f s", maxOverhead.Seconds()), overhead < maxOverhead, false, true},
		{"processes left behind", fmt.Sprint(r.orphans), "0", r.orphans == 0, true, false},
	}, nil
}

// unnamed returns the names that no speaker of the result bears.
func unnamed(names []string, r result) []string {
	var missing []string
	for _, name := range names {
		found := false
		for _, s := range r.speakers {
			found = found || strings.EqualFold(s.Name, name)
		}
		if !found {
			missing = append(missing, name)
		}
	}
	return missing
}

// report prints the checks and returns whether all hold that are promised and do not hang on the clock: of the
// repository's own sample all are promised, of another script only some, and the rest is printed without judgement.
func report(out io.Writer, checks []check, own bool) bool {
	all := true
	for _, c := range checks {
		verdict := ""
		if own || c.any {
			switch {
			case c.holds:
				verdict = "holds: " + c.bound
			case c.clock:
				verdict = "OVER: " + c.bound
			default:
				verdict = "FAILS: " + c.bound
				all = false
			}
		}
		fmt.Fprintln(out, strings.TrimRight(fmt.Sprintf("%-28s %-58s %s", c.name, c.value, verdict), " "))
	}
	return all
}

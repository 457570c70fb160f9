package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"

	"golang.org/x/term"

	"github.com/stagefleet/stagefleet/pkg/job"
)

// display shows a job as it changes: a block of lines that is drawn again on a terminal, a line per changed stage elsewhere.
type display struct {
	out   io.Writer
	width int // of the terminal; 0: none

	mu    sync.Mutex // guards what follows, and writing
	last  job.Job
	shown []string // the lines on the screen, or the last said of each stage
}

func newDisplay(out io.Writer) *display {
	d := &display{out: out}
	if file, ok := terminalOf(out); ok {
		d.width = 80
		if width, _, err := term.GetSize(int(file.Fd())); err == nil && width > 0 {
			d.width = width
		}
	}
	return d
}

// terminalOf is the terminal that out writes to, if it is one.
func terminalOf(out io.Writer) (*os.File, bool) {
	if o, ok := out.(*output); ok {
		out = o.Writer
	}
	file, ok := out.(*os.File)
	return file, ok && term.IsTerminal(int(file.Fd()))
}

// tick keeps the running times on a terminal going until ctx ends.
func (d *display) tick(ctx context.Context) {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for d.width > 0 {
		select {
		case <-ctx.Done():
			return
		case now := <-second.C:
			d.mu.Lock()
			d.redraw(rows(d.last, now))
			d.mu.Unlock()
		}
	}
}

func (d *display) job(j job.Job) {
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last = j
	if d.width > 0 {
		d.redraw(rows(j, now))
		return
	}
	for i, r := range rows(j, now) {
		line := r.name + " " + r.state
		if i == len(d.shown) {
			d.shown = append(d.shown, "")
		}
		if d.shown[i] != line {
			d.shown[i] = line
			fmt.Fprintf(d.out, "%s  %s\n", now.Format(time.TimeOnly), r)
		}
	}
}

// note says something beside the job. On a terminal the block is then drawn anew below it.
func (d *display) note(w io.Writer, text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fmt.Fprintln(w, text)
	if d.width > 0 {
		d.shown = nil
	}
}

// redraw goes back to the first line of the block and writes each line anew, cut so that none wraps. The caller holds d.mu.
func (d *display) redraw(list []row) {
	var text strings.Builder
	if len(d.shown) > 0 {
		fmt.Fprintf(&text, "\x1b[%dA", len(d.shown))
	}
	d.shown = d.shown[:0]
	for _, r := range list {
		line := []rune(r.String())
		d.shown = append(d.shown, string(line[:min(len(line), d.width-1)]))
		fmt.Fprintf(&text, "\x1b[2K%s\n", d.shown[len(d.shown)-1])
	}
	_, _ = io.WriteString(d.out, text.String()) // a terminal that is gone ends the command by its signal
}

// row is one stage of a job. The parts of a fan-out share one.
type row struct{ name, state, detail string }

func (r row) String() string {
	return strings.TrimRight(fmt.Sprintf("%-12s %-22s %s", r.name, r.state, r.detail), " ")
}

// rows lists the stages that the job has reached, in their order.
func rows(j job.Job, now time.Time) []row {
	var list []row
	byStage := map[string][]job.Step{}
	for _, s := range j.Steps {
		if byStage[s.Stage] == nil {
			list = append(list, row{name: s.Stage})
		}
		byStage[s.Stage] = append(byStage[s.Stage], s)
	}
	for i := range list {
		steps := byStage[list[i].name]
		if len(steps) == 1 {
			list[i].state, list[i].detail = words(steps[0].State), detail(steps[0], now)
		} else {
			list[i].state, list[i].detail = parts(steps, now)
		}
	}
	return list
}

// parts sums up the steps of one fan-out.
func parts(steps []job.Step, now time.Time) (state, about string) {
	ended := 0
	for _, s := range steps {
		if s.State.Ended() {
			ended++
		}
		if s.State == job.Failed || s.State == job.Rejected {
			return words(s.State), detail(s, now)
		}
	}
	if ended == len(steps) {
		return words(steps[0].State), fmt.Sprintf("%d parts", len(steps))
	}
	return fmt.Sprintf("%d of %d done", ended, len(steps)), ""
}

// detail says what is worth knowing about a step in its state.
func detail(s job.Step, now time.Time) string {
	var facts []string
	if n := len(s.History); n > 0 && s.State == job.Running {
		if running := now.Sub(s.History[n-1].ClaimedAt).Round(time.Second); running > 0 {
			facts = append(facts, running.String())
		}
	}
	if p := s.Progress; p != nil && s.State == job.Running {
		if p.Total > 0 {
			facts = append(facts, fmt.Sprintf("%d of %d %s", p.Done, p.Total, p.Unit))
		} else {
			facts = append(facts, fmt.Sprintf("%d %s", p.Done, p.Unit))
		}
	}
	if s.EndedAt != nil {
		facts = append(facts, s.EndedAt.Sub(s.CreatedAt).Round(100*time.Millisecond).String())
	}
	if s.RetryAt != nil && s.State == job.Retrying {
		facts = append(facts, "again at "+s.RetryAt.Local().Format(time.TimeOnly))
	}
	if s.Attempts > 1 {
		facts = append(facts, fmt.Sprintf("%d attempts", s.Attempts))
	}
	if s.Reason != nil && s.State != job.Completed {
		facts = append(facts, printable(s.Reason.Sentence))
	}
	if n := len(s.History); n > 0 && s.State == job.Failed && s.History[n-1].Reason != "" {
		facts = append(facts, "last: "+s.History[n-1].Reason)
	}
	return strings.Join(facts, ", ")
}

// summary says what came of a job, or how it stands.
func summary(j job.Job) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s", words(j.State))
	if j.EndedAt != nil {
		fmt.Fprintf(&text, " after %v", j.EndedAt.Sub(j.CreatedAt).Round(100*time.Millisecond))
	}
	if j.Reason != nil {
		fmt.Fprintf(&text, ": %s", printable(j.Reason.Sentence))
	}
	text.WriteByte('\n')
	if j.Recovered > 0 {
		fmt.Fprintf(&text, "  recovered it had failed; an operator has set it going again%s\n", often(j.Recovered))
	}
	for _, g := range j.Gaps {
		fmt.Fprintf(&text, "  missing   %s\n", printable(g.Sentence))
	}
	if j.Result != nil {
		fmt.Fprintf(&text, "  folder    %s\n  open      %s\n", j.Result.Dir, j.Result.Index)
	}
	return text.String()
}

// often says how many times, where it is more than once.
func often(n int) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf(", %d times so far", n)
}

// words writes a state as people read it.
func words(s job.State) string { return strings.ReplaceAll(string(s), "_", " ") }

// printable keeps text of a submitter from moving the cursor.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
}

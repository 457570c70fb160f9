package main

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/recording"
)

// result is what came of a recording, and what it took.
type result struct {
	job        job.Job
	start, end time.Time     // of the submitter's command
	cpu        time.Duration // of every process from the fleet's start to its end
	orphans    int           // processes that outlived the fleet

	folder     string
	manifest   manifest
	transcript recording.Transcript
	speakers   []recording.Speaker
}

// manifest is what is used of manifest.json.
type manifest struct {
	Clips []madeClip `json:"clips"`
}

type madeClip struct {
	File    string            `json:"file"`
	Segment recording.Segment `json:"segment"`
	Cues    []recording.Cue   `json:"cues"`
}

// open reads the result's folder, as a program outside would.
func (r *result) open() error {
	if r.job.Result == nil {
		return fmt.Errorf("the job ended %s without a result", r.job.State)
	}
	r.folder = r.job.Result.Dir
	for name, v := range map[string]any{"manifest.json": &r.manifest, "transcript.json": &r.transcript, "speakers.json": &r.speakers} {
		if err := readJSON(filepath.Join(r.folder, name), v); err != nil {
			return err
		}
	}
	return nil
}

// clips are the clips to make by hand: the same ones.
func (r result) clips() []clip {
	var clips []clip
	for _, c := range r.manifest.Clips {
		clips = append(clips, clip{Segment: c.Segment, Cues: c.Cues})
	}
	return clips
}

// words are what the transcript holds.
func (r result) words() string {
	var said []string
	for _, turn := range r.transcript.Turns {
		said = append(said, turn.Text)
	}
	return strings.Join(said, " ")
}

// times prints where the time went: a row per step, from the attempt that succeeded.
func (r result) times(out io.Writer) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "stage\tqueue wait\texecution\tprovider wait\tpublication\ttools' CPU\t")
	steps := slices.Clone(r.job.Steps)
	slices.SortStableFunc(steps, func(a, b job.Step) int { return a.CreatedAt.Compare(b.CreatedAt) })
	for _, s := range steps {
		for _, a := range s.History {
			if a.Outcome != "done" {
				continue
			}
			var cpu time.Duration
			for _, tool := range a.Tools {
				cpu += tool.CPU
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t\n", stepName(s), ms(a.QueueWaitMs), ms(a.ExecutionMs), ms(a.ProviderWaitMs), ms(a.PublicationMs), ms(cpu.Milliseconds()))
		}
	}
	_ = table.Flush() // a terminal that is gone ends the command by its signal
}

func stepName(s job.Step) string {
	if s.Part == nil {
		return s.Stage
	}
	return fmt.Sprintf("%s %d", s.Stage, *s.Part+1)
}

func ms(n int64) string { return fmt.Sprintf("%.3f s", float64(n)/1000) }

// toolTime is how long at least one tool of the job was running.
func (r result) toolTime() time.Duration {
	var runs []job.ToolRun
	for _, s := range r.job.Steps {
		for _, a := range s.History {
			runs = append(runs, a.Tools...)
		}
	}
	return union(runs, r.start, r.end)
}

// union measures the time that the runs cover together between two moments.
func union(runs []job.ToolRun, from, to time.Time) time.Duration {
	sorted := slices.Clone(runs)
	slices.SortFunc(sorted, func(a, b job.ToolRun) int { return cmp.Compare(a.Start.UnixNano(), b.Start.UnixNano()) })
	var covered time.Duration
	for _, run := range sorted {
		start, end := run.Start, run.End
		if start.Before(from) {
			start = from
		}
		if end.After(to) {
			end = to
		}
		if end.After(start) {
			covered += end.Sub(start)
			from = end
		}
	}
	return covered
}

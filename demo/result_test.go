package main

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/job"
)

func TestTheUnionOfToolLifetimesCountsEveryMomentOnce(t *testing.T) {
	zero := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return zero.Add(time.Duration(s) * time.Second) }
	for name, c := range map[string]struct {
		runs [][2]int
		want time.Duration
	}{
		"none":                {nil, 0},
		"one":                 {[][2]int{{2, 5}}, 3 * time.Second},
		"apart, out of order": {[][2]int{{6, 8}, {2, 5}}, 5 * time.Second},
		"overlapping":         {[][2]int{{2, 5}, {4, 7}}, 5 * time.Second},
		"one inside another":  {[][2]int{{2, 8}, {3, 4}, {7, 9}}, 7 * time.Second},
		"touching":            {[][2]int{{2, 5}, {5, 6}}, 4 * time.Second},
		"beyond both ends":    {[][2]int{{-5, 1}, {9, 20}}, 2 * time.Second},
		"outside":             {[][2]int{{-5, -1}, {11, 20}}, 0},
	} {
		var runs []job.ToolRun
		for _, r := range c.runs {
			runs = append(runs, job.ToolRun{Start: at(r[0]), End: at(r[1])})
		}
		if got := union(runs, at(0), at(10)); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestTheTimingTableHasARowForEverySuccess(t *testing.T) {
	part := 1
	created := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	r := result{job: job.Job{Steps: []job.Step{
		{Stage: "compile", Part: &part, CreatedAt: created.Add(time.Second), History: []job.Attempt{
			{Outcome: "crashed", QueueWaitMs: 999_000},
			{Outcome: "done", QueueWaitMs: 12, ExecutionMs: 3_456, PublicationMs: 7, Tools: []job.ToolRun{{CPU: time.Second}, {CPU: 500 * time.Millisecond}}},
		}},
		{Stage: "ingest", CreatedAt: created, History: []job.Attempt{{Outcome: "done", ProviderWaitMs: 1}}},
	}}}
	var out strings.Builder
	r.times(&out)
	var rows [][]string
	for _, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
		rows = append(rows, strings.Fields(line))
	}
	want := [][]string{
		strings.Fields("stage queue wait execution provider wait publication tools' CPU"),
		strings.Fields("ingest 0.000 s 0.000 s 0.001 s 0.000 s 0.000 s"),
		strings.Fields("compile 2 0.012 s 3.456 s 0.000 s 0.007 s 1.500 s"),
	}
	if !reflect.DeepEqual(rows, want) {
		t.Errorf("got %q, want %q", rows, want)
	}
}

package main

import (
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

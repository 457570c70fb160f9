package job

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stagefleet/stagefleet/pkg/internal/sqldb"
)

const (
	forecastSample  = 2000 // of the newest published executions
	forecastMin     = 5    // executions of a stage, below which nothing is said of it
	forecastWorkers = time.Minute
)

// Forecast is when a job that is submitted now would be worked on. What the record cannot tell is absent, and Unknown says why.
type Forecast struct {
	Position    int64      `json:"position"` // unfinished steps that are before it at the first stage
	StartAt     *time.Time `json:"start_at,omitempty"`
	EndAt       *time.Time `json:"end_at,omitempty"`      // if every stage takes its median
	LateEndAt   *time.Time `json:"late_end_at,omitempty"` // if every stage takes as long as the slowest tenth
	Executions  int        `json:"executions"`            // that it rests on, the newest of each stage
	Unknown     string     `json:"unknown,omitempty"`
	Assumptions string     `json:"assumptions"`
}

const assumptions = "The newest published executions of each stage, all tenants' together; the work that is open now goes first, in order, " +
	"on the slots that workers report now; retries, new submissions and limits of providers are left out."

// stageLoad is what the record knows of one stage.
type stageLoad struct {
	open, slots int64
	times       []int64 // microseconds of published executions
	jobs        map[string]bool
}

// Forecast looks at the open work, the workers and the newest executions of the stages, which come in the order of the work.
func (s *Store) Forecast(ctx context.Context, stages []string) (Forecast, error) {
	loads := map[string]*stageLoad{}
	for _, stage := range stages {
		loads[stage] = &stageLoad{jobs: map[string]bool{}}
	}
	var now int64
	err := s.db.View(ctx, "forecast", func(tx *sqldb.Tx) error {
		for _, l := range loads {
			*l = stageLoad{jobs: map[string]bool{}}
		}
		if err := tx.One(ctx, q("clock"), nil, &now); err != nil {
			return err
		}
		return readLoads(ctx, tx, loads)
	})
	if err != nil {
		return Forecast{}, fmt.Errorf("forecast: %w", err)
	}
	workers, err := s.Workers(ctx, forecastWorkers)
	if err != nil {
		return Forecast{}, err
	}
	for _, w := range workers {
		if l := loads[w.Stage]; l != nil {
			l.slots += int64(w.Slots)
		}
	}
	return forecast(now, stages, loads), nil
}

func readLoads(ctx context.Context, tx *sqldb.Tx, loads map[string]*stageLoad) error {
	err := tx.Query(ctx, q("open_steps"), func(scan func(...any) error) error {
		var stage string
		var n int64
		err := scan(&stage, &n)
		if l := loads[stage]; l != nil {
			l.open = n
		}
		return err
	})
	if err != nil {
		return err
	}
	return tx.Query(ctx, q("newest_executions"), func(scan func(...any) error) error {
		var stage, job string
		var took int64
		err := scan(&stage, &job, &took)
		if l := loads[stage]; l != nil {
			l.times = append(l.times, took)
			l.jobs[job] = true
		}
		return err
	}, forecastSample)
}

// forecast adds up, stage by stage, the wait for the work before it and its own time.
func forecast(now int64, stages []string, loads map[string]*stageLoad) Forecast {
	f := Forecast{Assumptions: assumptions}
	var missing []string
	var end, late int64
	for i, stage := range stages {
		l := loads[stage]
		f.Executions += len(l.times)
		if i == 0 {
			f.Position = l.open
		}
		if len(l.times) < forecastMin || l.slots == 0 {
			missing = append(missing, stage)
			continue
		}
		slices.Sort(l.times)
		wait := l.open / l.slots
		parts := (int64(len(l.times)) + int64(len(l.jobs)) - 1) / int64(len(l.jobs)) // of a job, at this stage
		rounds := (parts + l.slots - 1) / l.slots
		if i == 0 {
			f.StartAt = optional(now + wait*quantile(l.times, .5))
		}
		end += (wait + rounds) * quantile(l.times, .5)
		late += (wait + rounds) * quantile(l.times, .9)
	}
	if len(missing) > 0 {
		f.Unknown = fmt.Sprintf("Not known yet of %s: there are fewer than %d executions, or no workers.", strings.Join(missing, ", "), forecastMin)
		return f
	}
	f.EndAt, f.LateEndAt = optional(now+end), optional(now+late)
	return f
}

// quantile is the value that the given share of sorted values does not exceed.
func quantile(sorted []int64, share float64) int64 {
	return sorted[min(len(sorted)-1, int(share*float64(len(sorted))))]
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagefleet/stagefleet/pkg/capacity"
	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/workers"
)

const sizeHelp = `size tells how many slots (handlers at once, over all tasks) a provider's limits bear: from the recorded attempts of
a stage or from a sheet it takes how long an attempt lasts and what it uses, and compares that with the limits a
minute. It names the limit that binds, the ceiling, and what to start with; at p90 of use, and at p99 for comparison.
With --arrivals it forecasts the backlog too.

The sheet is comma-separated with a header: duration_s (seconds), and any of requests, input_tokens, output_tokens.
Recorded attempts are the latest that succeeded; tokens are those that the provider reported.`

// maxExecutions is how many recorded attempts are looked at: enough for a steady p99.
const maxExecutions = 10_000

// size is the noun's command line.
type size struct {
	stage, sheet, database string
	limits                 capacity.Limits
	forecast               capacity.Forecast
	json                   bool
}

func newSize(getenv func(string) string) *cobra.Command {
	var s size
	cmd := &cobra.Command{
		Use: "size", Short: "Tell how many slots a provider's limits bear", Long: sizeHelp, Args: usage(cobra.NoArgs),
		Example: "  fleet size --stage transcribe --database postgres://fleet@db/fleet --requests-per-minute 500\n" +
			"  fleet size --csv attempts.csv --input-tokens-per-minute 2300000\n" +
			"  fleet size --arrivals 15 --workers 2 --rate 6",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := s.check(cmd); err != nil {
				return usageError{err}
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			answer, err := s.answer(ctx)
			switch {
			case err != nil && ctx.Err() != nil:
				return errInterrupted
			case err != nil:
				return err
			case s.json:
				return printJSON(cmd, answer)
			}
			return answer.print(cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&s.stage, "stage", "", "measure the recorded attempts of this stage, and compare with what the manifest lets it reach")
	f.StringVar(&s.sheet, "csv", "", "measure the attempts of this sheet instead; - reads standard input")
	databaseFlag(cmd, &s.database, getenv)
	f.Int64Var(&s.limits.Requests, "requests-per-minute", 0, "the provider's limit of requests")
	f.Int64Var(&s.limits.InputTokens, "input-tokens-per-minute", 0, "the provider's limit of input tokens")
	f.Int64Var(&s.limits.OutputTokens, "output-tokens-per-minute", 0, "the provider's limit of output tokens")
	f.Float64Var(&s.forecast.Arrivals, "arrivals", 0, "messages that arrive a minute")
	f.IntVar(&s.forecast.Workers, "workers", 1, "workers that take them")
	f.Float64Var(&s.forecast.PerWorker, "rate", 0, "messages a minute that one worker finishes (default: slots x 60 / median duration)")
	f.Int64Var(&s.forecast.Backlog, "backlog", 0, "messages that wait already")
	f.BoolVar(&s.json, "json", false, "print JSON")
	return cmd
}

func (s *size) check(cmd *cobra.Command) error {
	measures := s.stage != "" || s.sheet != ""
	limited := s.limits != capacity.Limits{}
	forecasts := cmd.Flags().Changed("arrivals")
	_, known := workers.Stages.Stage(s.stage)
	switch {
	case s.stage != "" && !known:
		return fmt.Errorf("no stage %q in the manifest", s.stage)
	case min(s.limits.Requests, s.limits.InputTokens, s.limits.OutputTokens) < 0:
		return errors.New("a limit must be 0 or more; 0 means that there is none")
	case !within(s.forecast.Arrivals) || !within(s.forecast.PerWorker) || s.forecast.Workers < 1 || s.forecast.Backlog < 0:
		return fmt.Errorf("--arrivals, --rate and --backlog must be 0 or more, the first two at most %d, --workers at least 1", int64(mostPerMinute))
	case !measures && (limited || !forecasts):
		return errors.New("nothing to measure: give --csv FILE, or --stage NAME with --database (see: fleet size --help)")
	case !measures && s.forecast.PerWorker == 0:
		return errors.New("a forecast without attempts needs --rate, the messages a minute that one worker finishes")
	case s.stage != "" && s.sheet == "" && s.database == "":
		return errors.New("--stage alone reads the record: give --database (or FLEET_DATABASE_URL), or a sheet with --csv")
	}
	return nil
}

// mostPerMinute is more than any fleet takes, and keeps what follows from it a number.
const mostPerMinute = 1e12

func within(perMinute float64) bool { return perMinute >= 0 && perMinute <= mostPerMinute }

// answer is what the noun tells, in the form of its JSON.
type answer struct {
	Source    string             `json:"source,omitempty"`
	Stage     string             `json:"stage,omitempty"`
	Allowed   int                `json:"manifest_slots,omitempty"` // what the manifest lets the stage reach
	Measured  *capacity.Measured `json:"measured,omitempty"`
	P90       *capacity.Estimate `json:"p90,omitempty"`
	P99       *capacity.Estimate `json:"p99,omitempty"`
	Forecast  *forecast          `json:"forecast,omitempty"`
	Formula   string             `json:"formula,omitempty"`
	Assumes   []string           `json:"assumptions,omitempty"`
	tasks     int
	taskSlots int
}

// forecast adds what follows from it.
type forecast struct {
	capacity.Forecast
	Growth  float64  `json:"growth_per_minute"`
	Needed  int      `json:"workers_needed"`
	ClearIn *float64 `json:"clear_in_seconds"` // null: it never is
}

func (s *size) answer(ctx context.Context) (answer, error) {
	a := answer{Stage: s.stage}
	slots := 1
	if manifest, ok := workers.Stages.Stage(s.stage); ok {
		p := manifest.Profile
		slots, a.Allowed, a.tasks, a.taskSlots = p.Slots, p.MaxTasks*p.Slots, p.MaxTasks, p.Slots
	}
	if s.stage != "" || s.sheet != "" {
		if err := s.measure(ctx, &a); err != nil {
			return a, err
		}
	}
	if s.forecast.Arrivals > 0 || a.Measured == nil {
		f := forecast{Forecast: s.forecast}
		if f.PerWorker == 0 {
			f.PerWorker = float64(slots) * 60 / a.Measured.Seconds.Median
		}
		f.Growth, f.Needed = f.Forecast.Growth(), f.Forecast.Needed()
		if left, ends := f.Clear(); ends {
			seconds := left.Seconds()
			f.ClearIn = &seconds
		}
		a.Forecast = &f
	}
	a.explain(s.sheet != "")
	return a, nil
}

func (s *size) measure(ctx context.Context, a *answer) error {
	samples, source, err := s.samples(ctx)
	if err != nil {
		return err
	}
	a.Source = source
	m, err := capacity.Measure(samples)
	if err != nil {
		return fmt.Errorf("%s holds %w", source, err)
	}
	a.Measured = &m
	if (s.limits == capacity.Limits{}) {
		return nil
	}
	p90, p99, err := m.Estimate(s.limits)
	if err != nil {
		return fmt.Errorf("%s: %w", source, err)
	}
	a.P90, a.P99 = &p90, &p99
	return nil
}

// samples reads the sheet, or else the record; source names which for people.
func (s *size) samples(ctx context.Context) (_ []capacity.Sample, source string, _ error) {
	if s.sheet == "-" {
		return readSheet(os.Stdin, "the sheet")
	}
	if s.sheet != "" {
		file, err := os.Open(s.sheet)
		if err != nil {
			return nil, "", fmt.Errorf("read the sheet: %w", err)
		}
		defer file.Close()
		return readSheet(file, s.sheet)
	}
	record, err := job.Open(ctx, s.database, job.Options{})
	if err != nil {
		return nil, "", fmt.Errorf("open the record: %w", err)
	}
	defer func() { _ = record.Close() }()
	executions, err := record.Executions(ctx, s.stage, maxExecutions)
	if err != nil {
		return nil, "", err
	}
	samples := make([]capacity.Sample, len(executions))
	for i, e := range executions {
		samples[i] = capacity.Sample{Duration: max(e.Duration, time.Microsecond), Requests: e.Usage.Requests, InputTokens: e.Usage.InputTokens, OutputTokens: e.Usage.OutputTokens}
	}
	return samples, "the record of " + s.stage, nil
}

func readSheet(file *os.File, name string) ([]capacity.Sample, string, error) {
	samples, err := capacity.ReadCSV(file)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", name, err)
	}
	return samples, name, nil
}

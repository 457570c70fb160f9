package capacity_test

import (
	"errors"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stagefleet/stagefleet/pkg/capacity"
)

func measured(t *testing.T) capacity.Measured {
	t.Helper()
	file, err := os.Open("testdata/attempts.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	samples, err := capacity.ReadCSV(file)
	if err != nil {
		t.Fatal(err)
	}
	m, err := capacity.Measure(samples)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestTheCeilingIsWhatTheInputTokensOfAMinuteBear(t *testing.T) {
	m := measured(t)
	if m.Attempts != 100 || m.Seconds.Median != 316 || m.InputTokens.P90 != 129_000 || m.InputTokens.P99 != 492_000 {
		t.Fatalf("measured %+v", m)
	}
	p90, p99, err := m.Estimate(capacity.Limits{Requests: 4000, InputTokens: 2_300_000})
	if err != nil {
		t.Fatal(err)
	}
	if got := math.Round(p90.Bounds[0].Slots*10) / 10; got != 93.9 || p90.Ceiling != 93 || p90.Start != 24 || p90.Binding != "input tokens" {
		t.Errorf("at p90 %.1f: %+v", got, p90)
	}
	if p99.Ceiling != 24 || p99.Start != 6 || p99.Binding != "input tokens" {
		t.Errorf("at p99 %+v", p99)
	}
}

func TestTwoWorkersAtSixAMinuteFallBehindFifteenArrivalsByThree(t *testing.T) {
	f := capacity.Forecast{Workers: 2, PerWorker: 6, Arrivals: 15, Backlog: 10}
	if f.Growth() != 3 || f.Needed() != 3 {
		t.Errorf("grows by %v, needs %d", f.Growth(), f.Needed())
	}
	if _, ends := f.Clear(); ends {
		t.Error("a growing backlog ends")
	}
	f.Workers = 3
	if left, ends := f.Clear(); f.Growth() != -3 || !ends || left != 200*time.Second {
		t.Errorf("three workers: grows by %v, clear after %v (%v)", f.Growth(), left, ends)
	}
}

func TestTheCeilingKeepsEveryLimitAndOneMoreSlotWouldNot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		samples := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) capacity.Sample {
			return capacity.Sample{
				Duration: time.Duration(rapid.Int64Range(1, 7200).Draw(t, "seconds")) * time.Second,
				Requests: rapid.Int64Range(1, 50).Draw(t, "requests"), InputTokens: rapid.Int64Range(1, 1e6).Draw(t, "in"), OutputTokens: rapid.Int64Range(1, 1e5).Draw(t, "out"),
			}
		}), 1, 200).Draw(t, "samples")
		l := capacity.Limits{
			Requests: rapid.Int64Range(0, 1e4).Draw(t, "rpm"), InputTokens: rapid.Int64Range(0, 1e8).Draw(t, "itpm"), OutputTokens: rapid.Int64Range(1, 1e7).Draw(t, "otpm"),
		}
		m, err := capacity.Measure(samples)
		if err != nil {
			t.Fatal(err)
		}
		p90, p99, err := m.Estimate(l)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range []capacity.Estimate{p90, p99} {
			broken := false
			for _, b := range e.Bounds {
				used := func(slots int) float64 { return float64(slots) * 60 / m.Seconds.Median * b.PerAttempt }
				if used(e.Ceiling) > float64(b.PerMinute)*(1+1e-9) {
					t.Errorf("%d slots use %v of %d %s", e.Ceiling, used(e.Ceiling), b.PerMinute, b.Limit)
				}
				broken = broken || used(e.Ceiling+1) > float64(b.PerMinute)*(1-1e-9)
			}
			if !broken || e.Binding != e.Bounds[0].Limit {
				t.Errorf("another slot would fit: %+v", e)
			}
			if 4*e.Start < e.Ceiling || 4*(e.Start-1) >= e.Ceiling && e.Ceiling > 0 || e.Start > e.Ceiling {
				t.Errorf("start %d of %d", e.Start, e.Ceiling)
			}
		}
		if p99.Ceiling > p90.Ceiling {
			t.Errorf("more use bears more slots: %d, %d", p99.Ceiling, p90.Ceiling)
		}
	})
}

func TestTheNeededWorkersKeepUpAndOneFewerDoesNot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := capacity.Forecast{
			PerWorker: float64(rapid.IntRange(1, 1000).Draw(t, "rate")), Arrivals: float64(rapid.IntRange(0, 100_000).Draw(t, "arrivals")),
			Backlog: rapid.Int64Range(0, 1e9).Draw(t, "backlog"),
		}
		f.Workers = f.Needed()
		if f.Growth() > 1e-6 {
			t.Errorf("%d workers fall behind by %v", f.Workers, f.Growth())
		}
		if f.Workers--; f.Workers >= 0 && f.Growth() < -1e-6 {
			t.Errorf("%d workers would do", f.Workers)
		}
	})
}

func TestALimitOfWhatNobodyUsedIsNoCeiling(t *testing.T) {
	m, err := capacity.Measure([]capacity.Sample{{Duration: time.Second, Requests: 1}})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = m.Estimate(capacity.Limits{InputTokens: 1000})
	if unused, ok := errors.AsType[*capacity.UnusedError](err); !ok || unused.Limit != "input tokens" {
		t.Errorf("error %v", err)
	}
	if _, _, err := m.Estimate(capacity.Limits{}); err == nil {
		t.Error("a ceiling without a limit")
	}
	if _, err := capacity.Measure(nil); !errors.Is(err, capacity.ErrNoSamples) {
		t.Errorf("error %v", err)
	}
}

func TestASheetThatCannotBeUsedIsRefusedWithRowAndColumn(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "row 1: the sheet is empty",
		"duration_s;input_tokens\n1;2\n":     "row 1: it must name the columns, separated by commas",
		"input_tokens\n1\n":                  "row 1: it must name the columns",
		"duration_s,duration_s\n1,2\n":       "row 1, column 2 (duration_s): the header names it twice",
		"duration_s\n1\nsoon\n":              `row 3, column 1 (duration_s): "soon" must be a number of seconds above 0`,
		"duration_s\n0\n":                    "row 2, column 1 (duration_s)",
		"duration_s\nNaN\n":                  "row 2, column 1 (duration_s)",
		"id,duration_s,input_tokens\na,1,-2": `row 2, column 3 (input_tokens): "-2" must be a whole number`,
		"duration_s,requests\n1,1.5\n":       `row 2, column 2 (requests): "1.5" must be a whole number`,
		"duration_s,requests\n1\n":           "row 2: it has 1 columns, must have 2",
		"duration_s\n\"1\n":                  "row 2: it cannot be read as comma-separated values",
	} {
		_, err := capacity.ReadCSV(strings.NewReader(text))
		if fault, ok := errors.AsType[*capacity.CSVError](err); !ok || !strings.HasPrefix(fault.Error(), want) || strings.Contains(fault.Error(), "\n") {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestASheetMayHaveAByteOrderMarkOtherColumnsAndAnyOrder(t *testing.T) {
	got, err := capacity.ReadCSV(strings.NewReader("\ufeffinput_tokens,id,Duration_s\r\n7,x,1.5\r\n"))
	if err != nil || len(got) != 1 || got[0] != (capacity.Sample{Duration: 1500 * time.Millisecond, Requests: 1, InputTokens: 7}) {
		t.Errorf("%+v, %v", got, err)
	}
}

func FuzzReadCSV(f *testing.F) {
	f.Add("duration_s,requests\n1,2\n")
	f.Fuzz(func(t *testing.T, text string) {
		samples, err := capacity.ReadCSV(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, s := range samples {
			if s.Duration <= 0 || s.Requests < 0 || s.InputTokens < 0 || s.OutputTokens < 0 {
				t.Errorf("accepted %+v", s)
			}
		}
	})
}

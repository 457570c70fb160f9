package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagefleet/stagefleet/pkg/job"
)

const measuredSheet = "../../pkg/capacity/testdata/attempts.csv"

// sized runs fleet size without an environment.
func sized(args ...string) (code int, out, complaint string) {
	var stdout, stderr bytes.Buffer
	code = run(append([]string{"size"}, args...), func(string) string { return "" }, &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

func TestSizeNamesTheCeilingItsConstraintTheStartAndTheFormula(t *testing.T) {
	code, out, complaint := sized("--csv", measuredSheet, "--input-tokens-per-minute", "2300000", "--requests-per-minute", "4000", "--stage", "transcribe")
	if code != exitDone {
		t.Fatalf("exit %d: %s", code, complaint)
	}
	for _, want := range []string{
		"100 attempts", "316", "129,000", "492,000", "2,300,000", "93.9",
		"At p90 the ceiling is 93 slots, bound by input tokens; start with 24.",
		"At p99 the ceiling is 24 slots, bound by input tokens; start with 6.",
		"slots = limit a minute x median seconds / (60 x use of one attempt)", "Assumed: ",
		"The manifest lets transcribe reach 16 slots (8 tasks x 2): within the limits.",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("lacks %q:\n%s", want, out)
		}
	}
}

func TestSizeForecastsTheBacklog(t *testing.T) {
	const growth = "growth = arrivals - workers x what one finishes a minute.\nAssumed: arrivals and workers stay as they are; every worker is busy all the time.\n"
	for want, args := range map[string][]string{
		"2 workers x 6 a minute against 15 arrivals: the backlog grows by 3 a minute; 3 would keep up.\n": {"--arrivals", "15", "--workers", "2", "--rate", "6"},
		"3 workers x 6 a minute against 15 arrivals: the backlog shrinks by 3 a minute; 10 are done in 3m20s.\n": {"--arrivals", "15", "--workers", "3", "--rate", "6",
			"--backlog", "10"},
		"1 worker x 6 a minute against 6 arrivals: they keep up.\n":                                           {"--arrivals", "6", "--rate", "6"},
		"3 workers x 6 a minute against 18 arrivals: the backlog stays at 10; one more worker shortens it.\n": {"--arrivals", "18", "--workers", "3", "--rate", "6", "--backlog", "10"},
	} {
		if code, out, complaint := sized(args...); code != exitDone || out != want+"\n"+growth {
			t.Errorf("%v: exit %d, %s%s", args, code, out, complaint)
		}
	}
}

func TestSizeSpeaksJSON(t *testing.T) {
	_, out, complaint := sized("--csv", measuredSheet, "--input-tokens-per-minute", "2300000", "--arrivals", "15", "--workers", "2", "--rate", "6", "--json")
	var got struct {
		P90, P99 struct {
			Ceiling, Start int
			Binding        string
		}
		Forecast struct {
			Growth  float64  `json:"growth_per_minute"`
			ClearIn *float64 `json:"clear_in_seconds"`
		}
		Formula     string
		Assumptions []string
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v: %s%s", err, out, complaint)
	}
	if got.P90.Ceiling != 93 || got.P90.Start != 24 || got.P90.Binding != "input tokens" || got.P99.Ceiling != 24 || got.Forecast.Growth != 3 ||
		got.Forecast.ClearIn != nil || got.Formula == "" || len(got.Assumptions) == 0 {
		t.Errorf("%+v", got)
	}
}

func TestSizeRefusesWhatItCannotUseInOneSentence(t *testing.T) {
	dir := t.TempDir()
	sheet, none, free := filepath.Join(dir, "bad.csv"), filepath.Join(dir, "none.csv"), filepath.Join(dir, "free.csv")
	for file, text := range map[string]string{sheet: "duration_s,input_tokens\n1,2\n3,many\n", none: "duration_s\n", free: "duration_s\n1\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	empty := "sqlite:" + filepath.Join(t.TempDir(), "record.db")
	record, err := job.Open(t.Context(), empty, job.Options{Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := record.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		code int
		want string
		args []string
	}{
		{exitFailed, `bad.csv: row 3, column 2 (input_tokens): "many" must be a whole number`, []string{"--csv", sheet}},
		{exitFailed, "none.csv holds no finished attempt to measure", []string{"--csv", none}},
		{exitFailed, "the record of transcribe holds no finished attempt to measure", []string{"--stage", "transcribe", "--database", empty}},
		{exitFailed, "a limit of output tokens a minute is given, but the attempts measured used none", []string{"--csv", free, "--output-tokens-per-minute", "5"}},
		{exitFailed, "no such file", []string{"--csv", "gone.csv"}},
		{exitUsage, "nothing to measure", nil},
		{exitUsage, "nothing to measure", []string{"--arrivals", "3", "--rate", "1", "--requests-per-minute", "5"}},
		{exitUsage, "needs --rate", []string{"--arrivals", "3"}},
		{exitUsage, `no stage "cut"`, []string{"--stage", "cut", "--csv", sheet}},
		{exitUsage, "--stage alone reads the record", []string{"--stage", "compile"}},
		{exitUsage, "must be 0 or more", []string{"--csv", sheet, "--requests-per-minute", "-1"}},
		{exitUsage, "must be 0 or more", []string{"--arrivals", "NaN", "--rate", "1"}},
	} {
		code, out, complaint := sized(c.args...)
		if code != c.code || out != "" || !strings.Contains(complaint, c.want) || strings.Count(complaint, "\n") != 1 {
			t.Errorf("%v: exit %d, %q%q, want %d and %q", c.args, code, out, complaint, c.code, c.want)
		}
	}
}

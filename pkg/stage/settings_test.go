package stage_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/stage"
)

func environment(t *testing.T, p stage.Pipeline, name string) map[string]string {
	t.Helper()
	s, err := p.Settings("test", name)
	if err != nil {
		t.Fatal(err)
	}
	vars, err := s.Env()
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{}
	for _, v := range vars {
		env[v.Name] = v.Value
	}
	return env
}

func lookup(env map[string]string) func(string) string {
	return func(k string) string { return env[k] }
}

func TestAWorkerReadsExactlyWhatTheManifestSays(t *testing.T) {
	p := good()
	for _, s := range p {
		want, err := p.Settings("test", s.Name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := stage.ParseEnv(lookup(environment(t, p, s.Name)), s.Name)
		if err != nil {
			t.Fatal(err)
		}
		if got.Hash() != want.Hash() {
			t.Errorf("%s: read %+v, want %+v", s.Name, got, want)
		}
	}
}

func TestTheSameManifestGivesTheSameBytes(t *testing.T) {
	a, b := environment(t, good(), "split"), environment(t, good(), "split")
	if a[stage.EnvStage] != b[stage.EnvStage] || a[stage.EnvStageHash] != b[stage.EnvStageHash] {
		t.Errorf("%v and %v", a, b)
	}
	other := good()
	other[1].Retry.Attempts = 2
	if c := environment(t, other, "split"); c[stage.EnvStageHash] == a[stage.EnvStageHash] {
		t.Error("another manifest has the same hash")
	}
}

func TestWindowsFollowTheSlotsOfTheManifest(t *testing.T) {
	p := good()
	p[0].Profile = stage.Profile{Slots: 2, MaxTasks: 3, Ceiling: 5}
	p[2].Profile = stage.Profile{Slots: 4}
	others := int64(len(p) - 2)
	for name, want := range map[string]int64{p[0].Name: 5 + 4 + others, "split": 0, "cut": 8, "merge": 0} {
		if r, err := p.Route("test", name); err != nil || r.Window != want {
			t.Errorf("window of %s = %d, want %d (%v)", name, r.Window, want, err)
		}
	}
}

func TestSettingsCarryTheRoutes(t *testing.T) {
	p := good()
	split, _ := p.Settings("test", "split")
	if split.Next == nil || *split.Next != (stage.Route{Stage: "cut", Queue: "stagefleet-test-cut", DLQ: "stagefleet-test-cut-dlq", Window: 2}) {
		t.Errorf("next: %+v", split.Next)
	}
	want := stage.Route{Stage: "merge", Queue: "stagefleet-test-merge.fifo", DLQ: "stagefleet-test-merge-dlq.fifo", FIFO: true, Join: true}
	if split.Join == nil || *split.Join != want {
		t.Errorf("join: %+v", split.Join)
	}
	merge, _ := p.Settings("test", "merge")
	if merge.Next != nil || merge.Join != nil || merge.Own != want {
		t.Errorf("last stage: %+v", merge)
	}
	if first, err := p.First("test"); err != nil || first.Stage != "read" {
		t.Errorf("first: %+v, %v", first, err)
	}
}

func TestTheOrderOfTheEntriesDoesNotMatter(t *testing.T) {
	p := good()
	slices.Reverse(p)
	stages, err := p.Ordered()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range stages {
		names = append(names, s.Name)
	}
	if got := strings.Join(names, " "); got != "read split cut merge" {
		t.Error(got)
	}
}

func TestUnusableSettingsAreRefusedByName(t *testing.T) {
	edit := func(change func(map[string]any)) func(map[string]string) {
		return func(env map[string]string) {
			var m map[string]any
			if err := json.Unmarshal([]byte(env[stage.EnvStage]), &m); err != nil {
				panic(err)
			}
			change(m)
			text, _ := json.Marshal(m)
			env[stage.EnvStage], env[stage.EnvStageHash] = string(text), hashOf(string(text))
		}
	}
	cases := []struct {
		name, variable, as string
		spoil              func(map[string]string)
	}{
		{"nothing set", stage.EnvStage, "cut", func(env map[string]string) { clear(env) }},
		{"another hash", stage.EnvStageHash, "cut", func(env map[string]string) { env[stage.EnvStageHash] = strings.Repeat("0", 64) }},
		{"one byte more", stage.EnvStageHash, "cut", func(env map[string]string) { env[stage.EnvStage] += " " }},
		{"another stage's settings", stage.EnvStage, "read", func(map[string]string) {}},
		{"another environment", stage.EnvName, "cut", func(env map[string]string) { env[stage.EnvName] = "prod" }},
		{"an unknown field", stage.EnvStage, "cut", edit(func(m map[string]any) { m["colour"] = "red" })},
		{"an unknown field of the stage", stage.EnvStage, "cut", edit(func(m map[string]any) { m["stage"].(map[string]any)["colour"] = "red" })},
		{"another version", stage.EnvStage, "cut", edit(func(m map[string]any) { m["v"] = 2 })},
		{"a missing route", stage.EnvStage, "cut", edit(func(m map[string]any) { delete(m, "next") })},
		{"no JSON", stage.EnvStage, "cut", func(env map[string]string) {
			env[stage.EnvStage], env[stage.EnvStageHash] = "{", hashOf("{")
		}},
		{"text after the settings", stage.EnvStage, "cut", func(env map[string]string) {
			env[stage.EnvStage] += "{}"
			env[stage.EnvStageHash] = hashOf(env[stage.EnvStage])
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			env := environment(t, good(), "cut")
			c.spoil(env)
			_, err := stage.ParseEnv(lookup(env), c.as)
			e, ok := errors.AsType[*stage.SettingsError](err)
			if !ok || e.Name != c.variable || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v, want one line that names %s", err, c.variable)
			}
		})
	}
	if _, err := stage.ParseEnv(lookup(environment(t, good(), "cut")), "read"); !errors.Is(err, stage.ErrNotMine) {
		t.Errorf("another stage's settings: %v", err)
	}
}

func TestScaledDurationsHealAKillInSeconds(t *testing.T) {
	s := stage.Stage{Name: "x", Summary: "s"}.Scaled(stage.LocalScale)
	want := stage.Stage{Name: "x", Summary: "s"}.WithDefaults().Durations
	want.Visibility, want.Lease, want.Beat, want.Poll = 21*time.Second, 21*time.Second, 9*time.Second, time.Second
	if s.Durations != want {
		t.Errorf("%+v, want %+v", s.Durations, want)
	}
	if tiny := s.Scaled(1e-9).Durations; tiny.Poll != time.Second {
		t.Errorf("a duration fell below a second: %v", tiny.Poll)
	}
}

func TestTheLongestQueueNameIsAllowedBySQS(t *testing.T) {
	s := stage.Stage{Name: strings.Repeat("a", 32)}
	if n := len(s.DLQName(strings.Repeat("e", 20))); n > 80 {
		t.Errorf("%d bytes", n)
	}
}

func TestAnUnusableEnvironmentNameIsRefused(t *testing.T) {
	for _, env := range []string{"", "Prod", "prod_1", "-prod", strings.Repeat("e", 21)} {
		if _, err := good().Settings(env, "cut"); err == nil {
			t.Errorf("%q accepted", env)
		}
	}
	if _, err := good().Settings("test", "gone"); err == nil {
		t.Error("an unknown stage accepted")
	}
}

func FuzzParseEnv(f *testing.F) {
	s, err := good().Settings("test", "cut")
	if err != nil {
		f.Fatal(err)
	}
	vars, _ := s.Env()
	f.Add(vars[0].Value)
	f.Add(`{"v":1}`)
	f.Fuzz(func(t *testing.T, text string) {
		env := map[string]string{stage.EnvStage: text, stage.EnvStageHash: hashOf(text), stage.EnvName: "test"}
		if got, err := stage.ParseEnv(lookup(env), "cut"); err == nil && got.Validate() != nil {
			t.Errorf("accepted settings that do not hold: %s", text)
		}
	})
}

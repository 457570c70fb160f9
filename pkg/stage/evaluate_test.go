package stage_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/stage"
)

// minutes returns one sample a minute, the latest last.
func minutes(values ...map[stage.Signal]float64) []stage.Sample {
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var samples []stage.Sample
	for i, v := range values {
		samples = append(samples, stage.Sample{At: began.Add(time.Duration(i) * time.Minute), Values: v})
	}
	return samples
}

type seen = map[stage.Signal]float64

func TestTheAlarmsThatRingFollowFromTheSamples(t *testing.T) {
	deep, late := seen{stage.SignalWaiting: 101}, seen{stage.SignalWaiting: 101, stage.SignalAge: 601}
	quiet := seen{stage.SignalWaiting: 100, stage.SignalAge: 599}
	cases := []struct {
		name    string
		samples []stage.Sample
		want    []string
	}{
		{"nothing was seen", nil, nil},
		{"all is at its limits", minutes(quiet, quiet, quiet, quiet, quiet), nil},
		{"one dead letter", minutes(seen{stage.SignalDLQ: 1}), []string{stage.AlarmDLQ, stage.AlarmBroken}},
		{"a dead letter that is gone", minutes(seen{stage.SignalDLQ: 1}, seen{stage.SignalDLQ: 0}), nil},
		{"deep for two of five minutes", minutes(deep, quiet, deep, quiet, quiet), nil},
		{"deep for three of five minutes", minutes(deep, quiet, deep, quiet, deep), []string{stage.AlarmDepth}},
		{"deep three times, once too long ago", minutes(deep, quiet, deep, quiet, quiet, deep), nil},
		{"deep and late", minutes(late, late, late), []string{stage.AlarmDepth, stage.AlarmAge, stage.AlarmBroken}},
		{"a breaker open for four minutes", minutes(slices.Repeat([]seen{{stage.SignalBreaker: 2}}, 4)...), nil},
		{"a breaker open for five minutes", minutes(slices.Repeat([]seen{{stage.SignalBreaker: 2}}, 5)...), []string{stage.AlarmBreaker}},
		{"late because paused", minutes(late, late, seen{stage.SignalWaiting: 101, stage.SignalAge: 601, stage.SignalPaused: 1}), nil},
		{"a dead letter while paused", minutes(seen{stage.SignalDLQ: 1, stage.SignalPaused: 1}), []string{stage.AlarmDLQ, stage.AlarmBroken}},
		{"no progress for the time limit", minutes(slices.Repeat([]seen{{stage.SignalStalled: 5}}, 36)...), []string{stage.AlarmStalled, stage.AlarmBroken}},
		{"progress once within the time limit", minutes(slices.Concat(slices.Repeat([]seen{{stage.SignalStalled: 5}}, 20), []seen{{stage.SignalStalled: 0}},
			slices.Repeat([]seen{{stage.SignalStalled: 5}}, 15))...), nil},
	}
	s := stage.Stage{Name: "cut", Summary: "s"}
	for _, c := range cases {
		if got := s.Firing(c.samples); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestEveryRuleIsOneThatCloudWatchTakes(t *testing.T) {
	rules := append(stage.Stage{Name: "cut", Summary: "s"}.Alarms(), stage.ServerAlarms()...)
	names := map[string]bool{}
	for _, a := range rules {
		if a.Points < 1 || a.Points > a.Of || a.Window() > 24*time.Hour || a.Period%time.Minute != 0 {
			t.Errorf("%s: %s", a.Name, a)
		}
		if names[a.Name] || a.Summary == "" || a.Action == "" || a.Severity != stage.Inform {
			t.Errorf("%+v", a)
		}
		names[a.Name] = true
	}
	for _, c := range []stage.Composite{stage.Stage{Name: "cut", Summary: "s"}.Broken(), stage.Stage{Name: "cut", Summary: "s"}.Attention(), stage.ServerBroken()} {
		for _, term := range c.Any {
			for _, name := range term {
				if !names[name] {
					t.Errorf("%s waits for %s, which there is not", c.Name, name)
				}
			}
		}
	}
}

func TestADeadLetterIsAnnouncedBeforeItIsLost(t *testing.T) {
	// A standard queue's dead letters keep the age that they came with.
	for _, c := range []struct {
		kind stage.Kind
		want time.Duration
	}{{stage.FIFO, 252 * time.Hour}, {stage.Standard, 180 * time.Hour}} {
		for _, a := range (stage.Stage{Name: "cut", Summary: "s", Queue: c.kind}).Alarms() {
			if a.Name == stage.AlarmDLQAge && a.Threshold != c.want.Seconds() {
				t.Errorf("%s: %v s, want %v", c.kind, a.Threshold, c.want)
			}
		}
	}
}

func TestTheBacklogTargetLeavesHalfOfTheObjectiveToNewTasks(t *testing.T) {
	s := stage.Stage{Name: "cut", Summary: "s", Profile: stage.Profile{Slots: 2, TimeLimit: time.Hour, Objective: 10 * time.Minute, Typical: time.Minute}}
	if got := s.BacklogTarget(); got != 12 {
		t.Errorf("%v messages per task, want 2 that are worked on and 10 that wait at most 5 min", got)
	}
}

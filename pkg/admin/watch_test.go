package admin

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagefleet/stagefleet/pkg/stage"
)

func TestAlarmsFollowWhatWasSeenAndAPauseHidesWhatItExplains(t *testing.T) {
	a, err := New(stage.Pipeline{{Name: "cut", Summary: "s"}}, "test", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	see := func(s Stage) []string {
		s.Name, s.Workers = "cut", 1
		now = now.Add(time.Minute)
		a.observe(now, []Stage{s})
		return a.alarms("cut")
	}
	deep := Stage{Visible: 200, Busy: 1, OldestAgeSeconds: 900}
	see(deep)
	see(deep)
	if got := see(deep); !slices.Equal(got, []string{stage.AlarmDepth, stage.AlarmAge, stage.AlarmBroken}) {
		t.Errorf("deep and late for three minutes: %v", got)
	}
	paused := deep
	paused.Paused = true
	if got := see(paused); len(got) != 0 {
		t.Errorf("paused: %v", got)
	}
	paused.DLQ = 1
	if got := see(paused); !slices.Equal(got, []string{stage.AlarmDLQ, stage.AlarmBroken}) {
		t.Errorf("paused with a dead letter: %v", got)
	}
	for range 100 {
		see(Stage{})
	}
	if got := see(Stage{}); len(got) != 0 {
		t.Errorf("quiet: %v", got)
	}
	if n := len(a.watch.samples["cut"]); n > 60 {
		t.Errorf("%d samples are kept, no rule looks back further than 35 minutes", n)
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(a)
	families, err := registry.Gather()
	if err != nil || len(families) != 4 {
		t.Errorf("%s, %v", fmt.Sprint(families), err)
	}
}

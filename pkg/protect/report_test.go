package protect_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagefleet/stagefleet/pkg/protect"
)

func TestMetricsShowProtection(t *testing.T) {
	registry := prometheus.NewRegistry()
	in(t, protect.Config{Metrics: registry}, func(s subject) {
		gather := func() map[string]float64 {
			families, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			all := map[string]float64{}
			for _, f := range families {
				for _, m := range f.GetMetric() {
					name := f.GetName()
					for _, l := range m.GetLabel() {
						name += " " + l.GetValue()
					}
					all[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
				}
			}
			return all
		}
		got := gather()
		if _, there := got["stagefleet_protection_calls_total refused"]; !there || got["stagefleet_protection_protected"] != 0 || got["stagefleet_protection_age_seconds"] != 0 {
			t.Errorf("before: %v", got)
		}
		s.entered()
		s.answer(200, blocked, 0, nil)
		settle(time.Hour)
		s.answer(500, "", 0, nil)
		settle(time.Minute)
		got = gather()
		for name, want := range map[string]float64{
			"stagefleet_protection_calls_total ok": 1, "stagefleet_protection_calls_total refused": 1, "stagefleet_protection_calls_total failed": 1,
			"stagefleet_protection_protected": 0, "stagefleet_protection_age_seconds": 3660,
		} {
			if got[name] != want {
				t.Errorf("%s = %v, want %v", name, got[name], want)
			}
		}
	})
	if _, err := protect.New(protect.Config{Metrics: registry}); err == nil {
		t.Error("two tasks share a registry")
	}
}

func TestConfigThatCannotWorkIsRefused(t *testing.T) {
	for field, cfg := range map[string]protect.Config{
		"Expiry":  {Expiry: time.Second},
		"Expiry ": {Expiry: 49 * time.Hour},
		"Hold":    {Hold: -1},
		"Budget":  {Budget: -1},
		"Ask":     {Ask: -1},
		"Longest": {Longest: -1},
	} {
		if _, err := protect.New(cfg); err == nil || !strings.Contains(err.Error(), strings.TrimSpace(field)+" is ") {
			t.Errorf("%s: %v", field, err)
		}
	}
}

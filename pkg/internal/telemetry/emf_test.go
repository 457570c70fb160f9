package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func TestALineOfMetricsSaysStatesAndTheGrowthOfCounters(t *testing.T) {
	registry := prometheus.NewRegistry()
	ends := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stagefleet_pool_ends_total", ConstLabels: prometheus.Labels{"pool": "cut"}}, []string{"end"})
	paused := prometheus.NewGauge(prometheus.GaugeOpts{Name: "stagefleet_control_paused"})
	lag := prometheus.NewGauge(prometheus.GaugeOpts{Name: "fleet_job_outbox_lag_seconds"})
	registry.MustRegister(ends, paused, lag)
	paused.Set(1)
	ends.WithLabelValues("panic").Add(2)
	ends.WithLabelValues("quarantine").Add(1)
	ends.WithLabelValues("done").Add(50)

	var out bytes.Buffer
	e := &Emitter{Out: &out, Gatherer: registry, Env: "prod", Stage: "cut", Failed: func(err error) { t.Error(err) }}
	line := func() map[string]any {
		t.Helper()
		out.Reset()
		if err := e.emit(time.UnixMilli(1234)); err != nil {
			t.Fatal(err)
		}
		var fields map[string]any
		if strings.Count(out.String(), "\n") != 1 || json.Unmarshal(out.Bytes(), &fields) != nil {
			t.Fatalf("not one line of JSON: %s", out.String())
		}
		return fields
	}
	first := line()
	for name, want := range map[string]any{"Environment": "prod", "Stage": "cut", "Paused": 1., "Quarantines": 3., "LeaseLosses": 0.} {
		if first[name] != want {
			t.Errorf("%s is %v, want %v", name, first[name], want)
		}
	}
	if _, said := first["OutboxLag"]; said {
		t.Error("a worker says the server's metric")
	}
	about, _ := json.Marshal(first["_aws"])
	want := `{"CloudWatchMetrics":[{"Dimensions":[["Environment","Stage"]],"Metrics":[{"Name":"LeaseLosses"},{"Name":"Paused"},{"Name":"Quarantines"},{"Name":"ProtectionRefused"}],"Namespace":"Stagefleet"}],"Timestamp":1234}`
	if string(about) != want {
		t.Errorf("directive\n%s\nwant\n%s", about, want)
	}
	ends.WithLabelValues("panic").Add(1)
	if got := line()["Quarantines"]; got != 1. {
		t.Errorf("grown by %v, want 1", got)
	}
	e.Server, e.Stage = true, "server"
	if got := line(); got["OutboxLag"] != 0. || got["Paused"] != nil {
		t.Errorf("the server says %v", got)
	}
}

func TestALineIsWrittenEachMinuteAndAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		var out bytes.Buffer
		e := &Emitter{Out: &out, Gatherer: registry, Env: "prod", Stage: "cut", Failed: func(err error) { t.Error(err) }}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { e.Run(ctx); close(done) }()
		timer := time.NewTimer(150 * time.Second)
		<-timer.C
		stop()
		<-done
		if got := strings.Count(out.String(), "\n"); got != 4 {
			t.Errorf("%d lines in 150 s, want 4: at once, after 60 and 120 s, and at the end", got)
		}
	})
}

package worker

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagefleet/stagefleet/pkg/provider"
)

func TestCallsOfProvidersAreTimedByKindAndResult(t *testing.T) {
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprint(w, `{"id":"m","type":"message","role":"assistant","model":"x","stop_reason":"end_turn","content":[{"type":"text","text":"{}"}]}`)
	}))
	defer server.Close()
	model, err := provider.NewAnthropic("key", server.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	s := &service{latency: newLatency()}
	a := &attempt{answered: s.answered}
	ask := func(call func(context.Context) error) { _ = a.provider(t.Context(), call) }
	question := provider.Question{Instructions: "Say.", Input: "x", Schema: map[string]any{"type": "object"}, MaxTokens: 10}
	language := func(ctx context.Context) error { _, err := model.Answer(ctx, question); return err }
	vision := func(ctx context.Context) error { _, err := model.Look(ctx, question, nil); return err }
	ask(language)
	ask(vision)
	ask(vision)
	status = http.StatusInternalServerError
	ask(language)
	ask(func(ctx context.Context) error { _, err := provider.Declining{}.Answer(ctx, question); return err })
	registry := prometheus.NewRegistry()
	registry.MustRegister(s.latency)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]uint64{}
	for _, m := range families[0].GetMetric() {
		got[m.GetLabel()[0].GetValue()+" "+m.GetLabel()[1].GetValue()] = m.GetHistogram().GetSampleCount()
	}
	if want := map[string]uint64{"language ok": 1, "language failed": 1, "vision ok": 2}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %v, want %v", families[0].GetName(), got, want)
	}
}

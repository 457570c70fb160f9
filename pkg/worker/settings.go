package worker

import (
	"context"
	"fmt"
	"net/http"

	"go.opentelemetry.io/otel"

	"github.com/stagefleet/stagefleet/pkg/breaker"
	"github.com/stagefleet/stagefleet/pkg/control"
	"github.com/stagefleet/stagefleet/pkg/internal/outbound"
	"github.com/stagefleet/stagefleet/pkg/outcome"
	"github.com/stagefleet/stagefleet/pkg/pool"
	"github.com/stagefleet/stagefleet/pkg/protect"
)

// poolConfig says the stage's settings in the pool's terms.
func (s *service) poolConfig(run execute) pool.Config {
	r, st := s.res, s.res.Settings.Stage
	d := st.Durations
	x := &executor{
		run: run, store: r.Record, objects: r.Objects, scratch: s.scratch.path,
		limit: st.Profile.MaxInput, fanOut: st.FanOut, call: s.callProvider, log: r.Log, answered: s.answered,
	}
	return pool.Config{
		Name: st.Name, Handler: x.handle, Slots: st.Profile.Slots,
		Visibility: d.Visibility, Beat: d.Beat, Wait: d.Poll, TimeLimit: st.Profile.TimeLimit,
		Drain: d.Drain, Grace: d.Grace, Settle: d.Settle,
		MaxReceives: st.Retry.MaxReceives,
		Ledger:      newLedger(r.Record, outbound.New(r.Queue), r.Settings, r.ID, r.Log),
		Gates:       []pool.Gate{s.control, s.breaker, s.protection}, Protector: s.protection,
		Log: r.Log, Metrics: r.Metrics, Tracer: otel.GetTracerProvider(),
	}
}

// cooldownJitter keeps the workers of a fleet from probing a dependency at once.
const cooldownJitter = 0.3

func (s *service) breakerConfig() breaker.Config {
	b := s.res.Settings.Stage.Breaker
	return breaker.Config{
		Name: s.res.Settings.Stage.Name, Window: b.Window, Ratio: b.Ratio, MinSamples: b.MinSamples,
		Cooldown: b.Open, Jitter: cooldownJitter, Log: s.res.Log, Metrics: s.res.Metrics,
		OnChange: func(_, _ breaker.State) { s.look() },
	}
}

// callProvider makes a call through the breaker. A failure that opens the circuit,
// or finds it still broken, is the provider's and not the step's: it defers the
// step, so that an outage of any length costs no more attempts than it took to see it.
func (s *service) callProvider(ctx context.Context, call func(context.Context) error) error {
	err := s.breaker.Do(ctx, call)
	v := outcome.Of(err)
	theirs := v.Kind == outcome.KindRetry || v.Kind == outcome.KindQuarantine && breaker.IsOutage(err)
	if !theirs || ctx.Err() != nil || s.breaker.State() == breaker.Closed {
		return err
	}
	wait := max(v.After, s.res.Settings.Stage.Breaker.Open)
	return fmt.Errorf("%w: %w", outcome.Defer(wait, "provider_down"), err)
}

// protectConfig bounds continuous protection by the longest attempt: a task that
// is never without it cannot be deployed over.
func (s *service) protectConfig() protect.Config {
	st := s.res.Settings.Stage
	return protect.Config{
		Name: st.Name, Endpoint: s.res.Agent, Expiry: st.Durations.Protection, Longest: st.Profile.TimeLimit,
		Client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, // calls are minutes apart
		Log:    s.res.Log, Metrics: s.res.Metrics,
	}
}

func (s *service) controlConfig() control.Config {
	st := s.res.Settings.Stage
	return control.Config{
		Stage: st.Name, Switch: s.res.Switch, Record: pauses{s.res.Record},
		Wait: st.Durations.Poll, Retention: st.Durations.Retention, Log: s.res.Log, Metrics: s.res.Metrics,
	}
}

// look asks for an early report of the status. It never blocks.
func (s *service) look() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

package pool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/stagefleet/stagefleet/pkg/outcome"
	"github.com/stagefleet/stagefleet/pkg/pool"
)

// gather reads a registry into "name{label=value,...}".
func gather(t *testing.T, r *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				if l.GetName() != "pool" {
					labels = append(labels, l.GetName()+"="+l.GetValue())
				}
			}
			name := strings.TrimPrefix(f.GetName(), "stagefleet_pool_") + "{" + strings.Join(labels, ",") + "}"
			all[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return all
}

func TestMetricsSayWhatHappenedInABoundedVocabulary(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		registry := prometheus.NewRegistry()
		run := r.run(pool.Config{Slots: 20, Metrics: registry, Handler: func(ctx context.Context, m pool.Message) error {
			switch m.Body {
			case "body 0":
				return outcome.Quarantine("code "+m.ID, nil) // a code made from data must not become a label
			case "body 1":
				return outcome.Reject("bad", "x")
			case "body 2":
				panic("x")
			}
			return sleeper(15*time.Second)(ctx, m)
		}})
		r.sendN(10)
		settle(20 * time.Second)
		got := gather(t, registry)
		for _, kind := range outcome.Kinds() { // what alarms watch must have a value before it grows
			if _, there := got["ends_total{end="+string(kind)+"}"]; !there {
				t.Errorf("no series of ends of kind %s", kind)
			}
		}
		for name, want := range map[string]float64{
			"messages_total{}": 10, "ends_total{end=done}": 7, "ends_total{end=quarantine}": 1, "ends_total{end=reject}": 1, "ends_total{end=panic}": 1,
			"beats_total{of=visibility,result=ok}": 1, "slots{}": 20, "running{}": 0, "held{}": 0, "receiving{}": 1, "handler_seconds{}": 10,
			"beat_late_seconds{}": 7, "settle_calls_total{action=dead_letter}": 1, "duplicate_receives_total{}": 0, "stuck{}": 0,
			"settled_total{action=delete}": 9, "settled_total{action=hide}": 1,
		} {
			if got[name] != want {
				t.Errorf("%s = %v, want %v", name, got[name], want)
			}
		}
		for name := range got {
			if strings.Contains(name, "code") {
				t.Errorf("label from data: %s", name)
			}
		}
		if _, err := pool.New(r, pool.Config{QueueURL: r.queue, Handler: run0, Metrics: registry}); err == nil {
			t.Error("two pools of one name share a registry")
		}
		if _, err := pool.New(r, pool.Config{Name: "other", QueueURL: r.queue, Handler: run0, Metrics: registry}); err != nil {
			t.Error(err)
		}
		run.stop()
		<-run.done
	})
}

func run0(context.Context, pool.Message) error { return nil }

func TestSettleFailuresAreCountedByReason(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		registry := prometheus.NewRegistry()
		r.sendN(2)
		r.edits(func(op string, out any) {
			o, ok := out.(*sqs.DeleteMessageBatchOutput)
			if !ok || len(o.Successful) != 2 {
				return
			}
			o.Failed = []types.BatchResultErrorEntry{{Id: o.Successful[0].Id, SenderFault: true}, {Id: o.Successful[1].Id}}
			o.Successful = nil
		})
		r.run(pool.Config{Metrics: registry})
		settle(time.Minute)
		got := gather(t, registry)
		if got["settle_failures_total{action=delete,reason=receipt_gone}"] != 1 || got["settle_failures_total{action=delete,reason=service}"] != 1 {
			t.Errorf("failures %v", got)
		}
		if n := got["settled_total{action=delete}"]; n != 1 {
			t.Errorf("%v deleted, want the one that the queue confirmed", n)
		}
	})
}

const canary = "xyzzy-canary"

func TestNothingOfThePayloadIsLoggedTracedOrCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		core, logs := observer.New(zap.DebugLevel)
		registry := prometheus.NewRegistry()
		spans := tracetest.NewSpanRecorder()
		b := newBook(30 * time.Second)
		b.closeErr = func(n int) error {
			if n == 1 {
				return errors.New(canary)
			}
			return nil
		}
		run := r.run(pool.Config{Slots: 1, Ledger: b, Log: zap.New(core), Metrics: registry, TimeLimit: 30 * time.Second, StuckAfter: time.Second, Drain: time.Second, Wait: time.Second,
			Tracer: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)),
			Handler: func(_ context.Context, m pool.Message) error {
				switch strings.TrimPrefix(m.Body, canary) {
				case "0":
					return errors.New(m.Body)
				case "1":
					panic(m.Body)
				case "2":
					return outcome.Quarantine("bad", errors.New(m.Body))
				case "3":
					return outcome.Reject("bad", m.Body)
				case "4":
					return pool.JSON(func(context.Context, pool.Message, int) error { return nil })(t.Context(), m)
				case "5":
					pause(time.Minute)
				}
				return nil
			}})
		for i := range 7 {
			r.send(fmt.Sprint(canary, i))
		}
		settle(40 * time.Second)
		r.fail(func(call) error { return errors.New(canary) })
		settle(20 * time.Minute)
		run.stop()
		<-run.done
		if len(logs.All()) < 20 || len(spans.Ended()) < 7 {
			t.Fatalf("%d log entries, %d spans: the test does not reach what it checks", len(logs.All()), len(spans.Ended()))
		}
		for _, e := range logs.All() {
			if text := fmt.Sprint(e.Message, e.ContextMap()); strings.Contains(text, canary) {
				t.Errorf("logged: %s", text)
			}
		}
		for _, s := range spans.Ended() {
			if text := fmt.Sprint(s.Name(), s.Attributes(), s.Status(), s.Events()); strings.Contains(text, canary) {
				t.Errorf("traced: %s", text)
			}
		}
		for name := range gather(t, registry) {
			if strings.Contains(name, canary) {
				t.Errorf("counted: %s", name)
			}
		}
	})
}

func TestEndsAreLoggedWithWhoAndWhy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		core, logs := observer.New(zap.InfoLevel)
		r.run(pool.Config{Name: "stage", Ledger: newBook(time.Minute), Log: zap.New(core), Handler: func(context.Context, pool.Message) error {
			return outcome.Quarantine("bad", errNoLuck)
		}})
		r.send("a")
		settle(time.Second)
		entries := logs.FilterMessage("handler returned").All()
		if len(entries) != 1 {
			t.Fatalf("%d entries", len(entries))
		}
		fields := entries[0].ContextMap()
		for _, k := range []string{"operation", "pool", "message", "job", "attempt", "receives", "end", "reason", "took", "error"} {
			if _, ok := fields[k]; !ok {
				t.Errorf("no field %s in %v", k, fields)
			}
		}
		if entries[0].Level != zap.ErrorLevel || fields["reason"] != "bad" {
			t.Errorf("entry %+v", entries[0])
		}
	})
}

func TestSpanLinksToItsSender(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		spans := tracetest.NewSpanRecorder()
		provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
		ctx, sender := provider.Tracer("test").Start(t.Context(), "send")
		if _, err := r.client.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &r.queue, MessageBody: new("a"), MessageAttributes: pool.Inject(ctx, nil)}); err != nil {
			t.Fatal(err)
		}
		r.run(pool.Config{Name: "stage", Ledger: newBook(time.Minute), Tracer: provider, Handler: func(context.Context, pool.Message) error { return errNoLuck }})
		settle(time.Second)
		if len(spans.Ended()) != 1 {
			t.Fatalf("%d spans", len(spans.Ended()))
		}
		s := spans.Ended()[0]
		if s.Name() != "process stage" || s.Parent().IsValid() || len(s.Links()) != 1 || s.Links()[0].SpanContext.SpanID() != sender.SpanContext().SpanID() {
			t.Errorf("span %s, parent %v, links %v, want a root that links to its sender", s.Name(), s.Parent(), s.Links())
		}
		if s.Status().Code != codes.Error || !slices.ContainsFunc(s.Attributes(), func(kv attribute.KeyValue) bool { return kv.Key == "job" }) {
			t.Errorf("status %v, attributes %v", s.Status(), s.Attributes())
		}
	})
}

func TestTraceNeverCostsASend(t *testing.T) {
	t.Parallel()
	ctx, _ := sdktrace.NewTracerProvider().Tracer("test").Start(t.Context(), "send")
	full := map[string]types.MessageAttributeValue{}
	for i := range 10 {
		full[fmt.Sprint("a", i)] = types.MessageAttributeValue{}
	}
	if got := pool.Inject(ctx, full); len(got) != 10 {
		t.Errorf("%d attributes, want the ten that fit", len(got))
	}
	delete(full, "a0")
	if got := pool.Inject(ctx, full); len(got) != 10 || got["traceparent"].StringValue == nil {
		t.Errorf("attributes %v, want a tenth", got)
	}
	if got := pool.Inject(ctx, full); len(got) != 10 {
		t.Errorf("%d attributes after a second time", len(got))
	}
}

func TestHealthEndpointsTellReceivingFromSilence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		p := r.pool(pool.Config{Name: "idle"})
		get := func(h interface {
			Ready() error
			Live() error
		}, path string) (int, bool) {
			w := httptest.NewRecorder()
			h.(*pool.Pool).Health().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
			var body struct{ OK bool }
			if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
				t.Fatal(err)
			}
			return w.Code, body.OK
		}
		if code, ok := get(p, "/readyz"); code != 503 || ok {
			t.Errorf("ready before it runs: %d", code)
		}
		if code, _ := get(p, "/healthz"); code != 200 {
			t.Errorf("not alive before it runs: %d", code)
		}
		run := r.run(pool.Config{})
		settle(10 * time.Hour)
		if code, ok := get(run.Pool, "/readyz"); code != 200 || !ok {
			t.Errorf("idle for hours: %d", code)
		}
		run.stop()
		synctest.Wait()
		if code, _ := get(run.Pool, "/readyz"); code != 503 {
			t.Errorf("ready while stopping: %d", code)
		}
		if code, _ := get(run.Pool, "/healthz"); code != 200 {
			t.Errorf("not alive while stopping: %d", code)
		}
	})
}

func TestFullPoolIsHealthyHoweverLongItsHandlers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		r.send("a")
		run := r.run(pool.Config{Slots: 1, Handler: sleeper(5 * time.Hour)})
		settle(4 * time.Hour)
		if err := errors.Join(run.Ready(), run.Live()); err != nil {
			t.Error(err)
		}
		settle(time.Hour + time.Second) // it polls again, and has received nothing for hours
		if err := errors.Join(run.Ready(), run.Live()); err != nil {
			t.Error(err)
		}
	})
}

func TestWatchdogNoticesAHeartbeatThatStopped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		blocked := make(chan struct{})
		core, _ := observer.New(zap.ErrorLevel)
		log := zap.New(core, zap.Hooks(func(zapcore.Entry) error {
			<-blocked // a log that takes nothing more: the heartbeat reports a stuck handler to it, and waits for ever
			return nil
		}))
		free := make(chan struct{})
		run := r.run(pool.Config{Slots: 2, Log: log, TimeLimit: time.Second, StuckAfter: time.Second, Handler: func(context.Context, pool.Message) error {
			<-free
			return nil
		}})
		r.send("a")
		settle(5 * time.Minute)
		if err := run.Live(); err != nil {
			t.Errorf("early: %v", err)
		}
		settle(time.Hour + 10*time.Minute)
		if err := run.Live(); err == nil || !strings.Contains(err.Error(), "heartbeat") {
			t.Errorf("not noticed: %v", err)
		}
		close(blocked)
		close(free)
		settle(time.Minute)
		if err := run.Live(); err != nil {
			t.Errorf("not forgotten: %v", err)
		}
	})
}

func TestMessagesGivenBackUnstartedAreCountedByReason(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		registry := prometheus.NewRegistry()
		b := newBook(30 * time.Second)
		b.ill = errIll
		r.sendN(3)
		run := r.run(pool.Config{Ledger: b, Metrics: registry})
		settle(time.Minute)
		b.with(func() { b.ill = nil })
		settle(time.Minute)
		run.stop()
		r.send("late")
		<-run.done
		got := gather(t, registry)
		if got["not_started_total{reason=store_unreachable}"] < 3 || got["not_started_total{reason=draining}"] != 1 {
			t.Errorf("counted %v", got)
		}
		r.wantCounts(1, 0, 0)
	})
}

func TestPoolThatHasNotBegunReceivesNothingAndNeverDid(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		newRig(t, "q", nil).pool(pool.Config{Metrics: registry})
		if got := gather(t, registry); got["receiving{}"] != 0 || got["last_receive_timestamp_seconds{}"] != 0 {
			t.Errorf("receiving %v, last receive %v, want nothing", got["receiving{}"], got["last_receive_timestamp_seconds{}"])
		}
	})
}

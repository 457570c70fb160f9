package control_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/stagefleet/stagefleet/pkg/control"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pause is time that an answer takes.
func pause(d time.Duration) { time.Sleep(d) }

func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

var errDown = errors.New("no route to host")

// places is a switch and a record by hand.
type places struct {
	mu       sync.Mutex
	start    time.Time
	disabled bool
	pauses   []control.Pause
	err      error
	hang     bool
	slow     time.Duration   // between a look and its answer
	foreign  bool            // moments have a zone of their own each time, as decoders make one
	looks    []time.Duration // at the switch
}

func (p *places) Enabled(ctx context.Context, stage string) (bool, error) {
	p.mu.Lock()
	p.looks = append(p.looks, time.Since(p.start))
	disabled, err, hang, slow := p.disabled, p.err, p.hang, p.slow
	p.mu.Unlock()
	pause(slow)
	if hang {
		<-ctx.Done()
		return false, ctx.Err()
	}
	return !disabled, err
}

func (p *places) Pauses(ctx context.Context) ([]control.Pause, error) {
	p.mu.Lock()
	pauses, err, hang, slow, foreign := slices.Clone(p.pauses), p.err, p.hang, p.slow, p.foreign
	p.mu.Unlock()
	pause(slow)
	if hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	for i := range pauses {
		if foreign {
			pauses[i].Since = pauses[i].Since.In(time.FixedZone("", 3601))
		}
	}
	return pauses, err
}

func (p *places) set(f func(p *places)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(p)
}

type subject struct {
	*testing.T
	*control.Control
	*places
}

func in(t *testing.T, cfg control.Config, before func(p *places), f func(s subject)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &places{start: time.Now()}
		before(p)
		cfg.Stage, cfg.Switch, cfg.Record = "compile", p, p
		c, err := control.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if n, _, reason := c.Admit(1); n != 0 || reason != control.ReasonUnknown {
			t.Errorf("%d admitted before anything is known", n)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			if err := c.Run(ctx); err != nil {
				t.Error(err)
			}
		}()
		t.Cleanup(func() { cancel(); <-done })
		synctest.Wait()
		f(subject{t, c, p})
	})
}

func healthy(*places) {}

// want checks the verdict; "" lets everything through.
func (s subject) want(reason string) {
	s.Helper()
	n, done, got := s.Admit(7)
	if got != reason || (n == 7) != (reason == "") || done != nil {
		s.Errorf("at %v: %d admitted, reason %q, want %q", time.Since(s.start), n, got, reason)
	}
}

func TestFlipsAreSeenWithinThePollAndItsJitter(t *testing.T) {
	for name, flip := range map[string]struct {
		on, off func(p *places)
		reason  string
	}{
		"switch": {func(p *places) { p.disabled = true }, func(p *places) { p.disabled = false }, control.ReasonSwitch},
		"stage":  {func(p *places) { p.pauses = []control.Pause{{Stage: "compile"}} }, func(p *places) { p.pauses = nil }, control.ReasonPaused},
		"all":    {func(p *places) { p.pauses = []control.Pause{{Stage: control.All}} }, func(p *places) { p.pauses = nil }, control.ReasonPaused},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, control.Config{}, healthy, func(s subject) {
				s.Bound()
				s.want("")
				s.set(flip.on)
				settle(15*time.Second - 1)
				s.want("") // not before the next look
				settle(3*time.Second + 1)
				s.want(flip.reason)
				settle(time.Hour)
				s.want(flip.reason)
				changed := s.Changed()
				s.set(flip.off)
				settle(18 * time.Second)
				s.want("")
				select {
				case <-changed:
				default:
					t.Error("nobody was told")
				}
			})
		})
	}
}

func TestSlowAnswersAreWithinTheBoundToo(t *testing.T) {
	for name, flip := range map[string]func(p *places){
		"switch": func(p *places) { p.disabled = true },
		"record": func(p *places) { p.pauses = []control.Pause{{Stage: "compile"}} },
	} {
		t.Run(name, func(t *testing.T) {
			in(t, control.Config{Jitter: 1}, func(p *places) { p.slow = 4 * time.Second }, func(s subject) {
				s.set(flip) // just after the first look
				settle(s.Bound())
				if s.reason() == "" {
					t.Errorf("not seen within %v", s.Bound())
				}
			})
		})
	}
}

func TestOtherStagesPauseDoesNotHoldThisOne(t *testing.T) {
	in(t, control.Config{}, func(p *places) { p.pauses = []control.Pause{{Stage: "publish"}} }, func(s subject) {
		s.want("")
		if _, paused := s.Paused(); paused {
			s.Error("paused")
		}
	})
}

func TestPauseAtTheStartHoldsFromTheFirstMoment(t *testing.T) {
	in(t, control.Config{}, func(p *places) { p.pauses = []control.Pause{{Stage: "compile", By: "ann", Reason: "provider bill"}} }, func(s subject) {
		s.want(control.ReasonPaused)
		if p, paused := s.Paused(); !paused || p.By != "ann" || p.Reason != "provider bill" {
			s.Errorf("pause %+v", p)
		}
	})
}

func TestPauseEndsByItselfAtItsTime(t *testing.T) {
	in(t, control.Config{}, func(p *places) {
		p.pauses = []control.Pause{{Stage: "compile", Until: p.start.Add(20 * time.Second)}}
	}, func(s subject) {
		settle(20*time.Second - 1)
		s.want(control.ReasonPaused)
		settle(1)
		s.want("")
		settle(time.Hour) // though the record still has it
		s.want("")
	})
}

func TestLastKnownValueHoldsWhileNothingCanBeRead(t *testing.T) {
	for name, trouble := range map[string]func(p *places){
		"error": func(p *places) { p.err = errDown },
		"hang":  func(p *places) { p.hang = true },
	} {
		t.Run(name, func(t *testing.T) {
			in(t, control.Config{}, func(p *places) { p.disabled = true }, func(s subject) {
				s.want(control.ReasonSwitch)
				s.set(trouble)
				settle(24 * time.Hour)
				s.want(control.ReasonSwitch)
				s.set(func(p *places) { p.err, p.hang, p.disabled = nil, false, false })
				settle(23 * time.Second)
				s.want("")
				s.set(trouble)
				settle(24 * time.Hour)
				s.want("")
			})
		})
	}
}

func TestUnreadableAtAColdStartIsEnabledOnceAsked(t *testing.T) {
	in(t, control.Config{}, func(p *places) { p.hang = true }, func(s subject) {
		settle(5*time.Second - 1)
		s.want(control.ReasonUnknown)
		settle(1)
		s.want("")
	})
}

func TestLooksAreSpreadByJitter(t *testing.T) {
	in(t, control.Config{}, healthy, func(s subject) {
		settle(time.Hour)
		s.set(func(p *places) {
			distinct := map[time.Duration]bool{}
			for i := 1; i < len(p.looks); i++ {
				gap := p.looks[i] - p.looks[i-1]
				distinct[gap] = true
				if gap < 15*time.Second || gap > 18*time.Second {
					t.Errorf("a gap of %v", gap)
				}
			}
			if len(distinct) < 10 || len(p.looks) > 241 {
				t.Errorf("%d looks with %d different gaps in an hour", len(p.looks), len(distinct))
			}
		})
	})
}

func TestPauseNearTheRetentionIsWarnedOfOnce(t *testing.T) {
	for name, c := range map[string]struct {
		before func(p *places)
		after  time.Duration
	}{
		"it lasts": {func(p *places) { p.pauses = []control.Pause{{Stage: "compile", Since: p.start}} }, 72 * time.Hour},
		"it is to last": {func(p *places) {
			p.pauses = []control.Pause{{Stage: "compile", Since: p.start, Until: p.start.Add(80 * time.Hour)}}
		}, 0},
		"in another form each time": {func(p *places) {
			p.pauses, p.foreign = []control.Pause{{Stage: "compile", Since: p.start}}, true
		}, 72 * time.Hour},
		"switch is off": {func(p *places) { p.disabled = true }, 72 * time.Hour},
		"a short one not": {func(p *places) {
			p.pauses = []control.Pause{{Stage: "compile", Since: p.start, Until: p.start.Add(time.Hour)}}
		}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			core, logs := observer.New(zap.WarnLevel)
			in(t, control.Config{Retention: 96 * time.Hour, Log: zap.New(core)}, c.before, func(s subject) {
				warnings := func() int {
					return logs.FilterMessage("pause nears the retention of the queue: messages will be lost").Len()
				}
				if c.after > 0 {
					settle(c.after - 18*time.Second)
					if warnings() != 0 {
						t.Error("warned early")
					}
				}
				settle(36 * time.Second)
				want := 1
				if c.after < 0 {
					want = 0
				}
				if warnings() != want {
					t.Errorf("%d warnings, want %d", warnings(), want)
				}
				settle(time.Hour)
				if warnings() != want {
					t.Errorf("%d warnings an hour later", warnings())
				}
			})
		})
	}
}

func TestWithoutPlacesEverythingIsLetThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := control.New(control.Config{Stage: "compile"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = c.Run(ctx) }()
		synctest.Wait()
		if n, _, _ := c.Admit(3); n != 3 {
			t.Error("not let through")
		}
		cancel()
		synctest.Wait()
	})
}

func TestMetricsShowTheBoundAndTheVerdict(t *testing.T) {
	registry := prometheus.NewRegistry()
	in(t, control.Config{Wait: 20 * time.Second, Metrics: registry}, func(p *places) { p.disabled = true }, func(s subject) {
		s.set(func(p *places) { p.err = errDown })
		settle(18 * time.Second)
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				got[f.GetName()] += m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
		for name, want := range map[string]float64{
			"stagefleet_control_bound_seconds": 15 + 3 + 5 + 20, "stagefleet_control_paused": 1, "stagefleet_control_unreadable_total": 2,
		} {
			if got[name] != want {
				t.Errorf("%s = %v, want %v", name, got[name], want)
			}
		}
		s.set(func(p *places) { p.err, p.disabled = nil, false })
		settle(18 * time.Second)
		if families, _ = registry.Gather(); families[1].GetMetric()[0].GetGauge().GetValue() != 0 {
			t.Errorf("%v while enabled", families[1])
		}
	})
	if _, err := control.New(control.Config{Stage: "compile", Metrics: registry}); err == nil {
		t.Error("two controls of one stage share a registry")
	}
}

// TestAWorkerThatHasAskedNobodyYetIsNotPaused: one that dies and starts again and again would silence its stage's alarms.
func TestAWorkerThatHasAskedNobodyYetIsNotPaused(t *testing.T) {
	registry := prometheus.NewRegistry()
	c, err := control.New(control.Config{Stage: "compile", Metrics: registry})
	if err != nil {
		t.Fatal(err)
	}
	if n, _, reason := c.Admit(1); n != 0 || reason != control.ReasonUnknown {
		t.Errorf("admits %d, reason %q", n, reason)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "stagefleet_control_paused" && f.GetMetric()[0].GetGauge().GetValue() != 0 {
			t.Error("it says that it is paused")
		}
	}
}

func TestConfigThatCannotWorkIsRefused(t *testing.T) {
	for field, cfg := range map[string]control.Config{
		"Stage":     {},
		"Stage ":    {Stage: control.All},
		"Every":     {Stage: "x", Every: -1},
		"Jitter":    {Stage: "x", Jitter: -1},
		"Wait":      {Stage: "x", Wait: -1},
		"Retention": {Stage: "x", Retention: -1},
	} {
		if _, err := control.New(cfg); err == nil || !strings.Contains(err.Error(), strings.TrimSpace(field)+" is ") {
			t.Errorf("%s: %v", field, err)
		}
	}
}

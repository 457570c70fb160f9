package breaker_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/stagefleet/stagefleet/pkg/breaker"
	"github.com/stagefleet/stagefleet/pkg/outcome"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pause is time that a handler, or a fault, takes.
func pause(d time.Duration) { time.Sleep(d) }

func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

var errDown = errors.New("503")

// subject is a breaker that notes its changes.
type subject struct {
	*testing.T
	*breaker.Breaker
	mu      sync.Mutex
	changes []breaker.State
}

func newSubject(t *testing.T, cfg breaker.Config) *subject {
	t.Helper()
	s := &subject{T: t}
	cfg.Name = "speech"
	cfg.OnChange = func(_, to breaker.State) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.changes = append(s.changes, to)
	}
	b, err := breaker.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.Breaker = b
	return s
}

// call makes one call that ends at once, or after d.
func (s *subject) call(end error, d ...time.Duration) error {
	return s.Do(context.Background(), func(context.Context) error {
		for _, d := range d {
			time.Sleep(d)
		}
		return end
	})
}

func (s *subject) calls(n int, end error) {
	for range n {
		_ = s.call(end)
	}
}

func (s *subject) want(state breaker.State) {
	s.Helper()
	if got := s.State(); got != state {
		s.Errorf("state %s, want %s", got, state)
	}
}

// open makes it open.
func (s *subject) open() {
	s.Helper()
	s.calls(10, errDown)
	s.want(breaker.Open)
}

func in(t *testing.T, cfg breaker.Config, f func(s *subject)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(newSubject(t, cfg)) })
}

func TestOpensAtHalfOfTheFinishedCalls(t *testing.T) {
	in(t, breaker.Config{}, func(s *subject) {
		s.calls(6, nil)
		s.calls(5, errDown)
		s.want(breaker.Closed) // 5 of 11
		s.calls(1, errDown)
		s.want(breaker.Open)
	})
}

func TestStaysClosedBelowTheMinimumSample(t *testing.T) {
	in(t, breaker.Config{}, func(s *subject) {
		s.calls(9, errDown)
		s.want(breaker.Closed)
		s.calls(1, errDown)
		s.want(breaker.Open)
	})
}

func TestCallsUnderWayDoNotDiluteTheRatio(t *testing.T) {
	in(t, breaker.Config{}, func(s *subject) {
		for range 50 {
			go func() { _ = s.call(nil, time.Second) }()
		}
		synctest.Wait()
		s.calls(10, errDown)
		s.want(breaker.Open)
		settle(time.Minute)
	})
}

func TestCallsLongerThanTheWindowCountAsTheyFinish(t *testing.T) {
	in(t, breaker.Config{}, func(s *subject) {
		for range 10 {
			go func() { _ = s.call(errDown, 2*time.Minute) }()
		}
		settle(2*time.Minute - 1)
		s.want(breaker.Closed)
		settle(1)
		s.want(breaker.Open)
	})
}

func TestOldCallsLeaveTheWindow(t *testing.T) {
	in(t, breaker.Config{}, func(s *subject) {
		s.calls(9, errDown)
		settle(33 * time.Second)
		s.calls(9, errDown)
		s.want(breaker.Closed)
		s.calls(1, errDown)
		s.want(breaker.Open)
	})
}

func TestOpenRefusesWithADeferral(t *testing.T) {
	in(t, breaker.Config{}, func(s *subject) {
		s.open()
		settle(10 * time.Second)
		err := s.Do(context.Background(), func(context.Context) error { s.Error("called while open"); return nil })
		v := outcome.Of(err)
		if !errors.Is(err, breaker.ErrOpen) || v.Kind != outcome.KindDefer || v.Reason != breaker.ReasonOpen || v.After != 20*time.Second {
			s.Errorf("refused with %v: %+v", err, v)
		}
	})
}

func TestCooldownEndsByItselfAndOneCallDecides(t *testing.T) {
	in(t, breaker.Config{}, func(s *subject) {
		s.open()
		settle(30 * time.Second)
		s.want(breaker.Open) // it is still open at the very end
		settle(1)
		s.mu.Lock()
		told := slices.Clone(s.changes)
		s.mu.Unlock()
		if !slices.Equal(told, []breaker.State{breaker.Open, breaker.HalfOpen}) {
			s.Errorf("changes %v, want half open without anybody asking", told)
		}
		go func() { _ = s.call(nil, time.Second) }()
		synctest.Wait()
		err := s.call(nil)
		if v := outcome.Of(err); !errors.Is(err, breaker.ErrOpen) || v.Reason != breaker.ReasonProbing {
			s.Errorf("a second call while one finds out: %v", err)
		}
		settle(time.Second)
		s.want(breaker.Closed)
		settle(time.Hour)
		s.want(breaker.Closed)
	})
}

func TestFailedProbeOpensAgain(t *testing.T) {
	in(t, breaker.Config{}, func(s *subject) {
		s.open()
		settle(30*time.Second + 1)
		_ = s.call(errDown)
		s.want(breaker.Open)
		settle(30*time.Second + 1)
		s.want(breaker.HalfOpen)
	})
}

func TestProbeThatNeverReportsIsReportedAsFailed(t *testing.T) {
	for name, probe := range map[string]func(ctx context.Context) error{
		"hangs until its context ends": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"ignores its context":          func(context.Context) error { pause(time.Hour); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			in(t, breaker.Config{}, func(s *subject) {
				s.open()
				settle(30*time.Second + 1)
				go func() { _ = s.Do(context.Background(), probe) }()
				settle(time.Minute - 1)
				s.want(breaker.HalfOpen)
				settle(1)
				s.want(breaker.Open)
				settle(30*time.Second + 1)
				_ = s.call(nil)
				s.want(breaker.Closed)
				settle(2 * time.Hour) // the late result decides nothing
				s.want(breaker.Closed)
			})
		})
	}
}

func TestProbeThatDoesNotReturnIsReported(t *testing.T) {
	for name, fault := range map[string]func(){"panics": func() { panic("x") }, "ends its goroutine": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			in(t, breaker.Config{}, func(s *subject) {
				s.open()
				settle(30*time.Second + 1)
				go func() {
					defer func() { _ = recover() }()
					_ = s.Do(context.Background(), func(context.Context) error { fault(); return nil })
				}()
				synctest.Wait()
				s.want(breaker.Open)
			})
		})
	}
}

func TestResultFromBeforeTheChangeDecidesNothing(t *testing.T) {
	in(t, breaker.Config{}, func(s *subject) {
		go func() { _ = s.call(errDown, 35*time.Second) }()
		go func() { _ = s.call(nil, 36*time.Second) }()
		synctest.Wait()
		s.open()
		settle(36 * time.Second)
		s.want(breaker.HalfOpen)
		_ = s.call(nil)
		s.want(breaker.Closed)
	})
}

func TestEndsThatSayNothingAboutTheDependencyDoNotCount(t *testing.T) {
	in(t, breaker.Config{}, func(s *subject) {
		for _, end := range []error{
			outcome.Reject("bad", "x"), outcome.Quarantine("bad", nil), outcome.Defer(time.Second, "x"),
			outcome.RetryAfter(time.Second, errDown), outcome.ErrDraining, outcome.ErrLeaseLost, outcome.ErrSuperseded,
		} {
			s.calls(20, end)
		}
		s.want(breaker.Closed)
		s.calls(9, errDown) // nor did they fill the sample
		s.want(breaker.Closed)
		s.calls(1, errDown)
		s.want(breaker.Open)
	})
}

func TestCallersEndIsNotTheDependencysFaultButItsTimeLimitIs(t *testing.T) {
	in(t, breaker.Config{}, func(s *subject) {
		cancelled, cancel := context.WithCancelCause(context.Background())
		cancel(outcome.ErrDraining)
		limited, stop := context.WithDeadlineCause(context.Background(), time.Now(), outcome.ErrTimeLimit)
		defer stop()
		broken := func(context.Context) error { return errDown }
		for range 20 {
			if err := s.Do(cancelled, broken); !errors.Is(err, errDown) {
				s.Fatalf("the call's error became %v", err)
			}
		}
		s.want(breaker.Closed)
		for range 10 {
			_ = s.Do(limited, broken)
		}
		s.want(breaker.Open)
	})
}

func TestNeutralProbeLetsTheNextOneFindOut(t *testing.T) {
	in(t, breaker.Config{}, func(s *subject) {
		s.open()
		settle(30*time.Second + 1)
		_ = s.call(outcome.Reject("bad", "x"))
		s.want(breaker.HalfOpen)
		_ = s.call(nil)
		s.want(breaker.Closed)
	})
}

func TestCallbackMayUseTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b *breaker.Breaker
		var seen []breaker.State
		b, err := breaker.New(breaker.Config{Name: "x", MinSamples: 1, OnChange: func(_, to breaker.State) {
			if state := b.State(); state != to {
				t.Errorf("state %s in the callback of %s", state, to)
			}
			_ = b.Do(t.Context(), func(context.Context) error { return nil })
			seen = append(seen, to)
		}})
		if err != nil {
			t.Fatal(err)
		}
		_ = b.Do(t.Context(), func(context.Context) error { return errDown })
		settle(time.Minute)
		if !slices.Equal(seen, []breaker.State{breaker.Open, breaker.HalfOpen, breaker.Closed}) {
			t.Errorf("told of %v", seen)
		}
	})
}

func TestJitterStretchesTheCooldown(t *testing.T) {
	in(t, breaker.Config{Jitter: 1}, func(s *subject) {
		s.open()
		settle(30 * time.Second)
		s.want(breaker.Open)
		settle(30*time.Second + 1)
		s.want(breaker.HalfOpen)
	})
}

func TestMetricsShowTheStateAndRefusals(t *testing.T) {
	registry := prometheus.NewRegistry()
	in(t, breaker.Config{Metrics: registry}, func(s *subject) {
		s.open()
		_ = s.call(nil)
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			m := f.GetMetric()[0]
			if want := map[string]float64{"stagefleet_breaker_state": 2, "stagefleet_breaker_refused_total": 1}[f.GetName()]; m.GetGauge().GetValue()+m.GetCounter().GetValue() != want {
				t.Errorf("%s = %v, want %v", f.GetName(), m, want)
			}
		}
	})
	if _, err := breaker.New(breaker.Config{Name: "speech", Metrics: registry}); err == nil {
		t.Error("two breakers of one name share a registry")
	}
}

func TestConfigThatCannotWorkIsRefused(t *testing.T) {
	for field, cfg := range map[string]breaker.Config{
		"Name":       {},
		"Window":     {Name: "x", Window: time.Microsecond},
		"Ratio":      {Name: "x", Ratio: 1.5},
		"MinSamples": {Name: "x", MinSamples: -1},
		"Cooldown":   {Name: "x", Cooldown: -1},
		"Jitter":     {Name: "x", Jitter: 2},
		"Probe":      {Name: "x", Probe: -1},
	} {
		if _, err := breaker.New(cfg); err == nil || !strings.Contains(err.Error(), field+" is ") {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// status is a dependency's refusal.
type status int

func (s status) Error() string { return "refused" }
func (s status) Outage() bool  { return s >= 500 }

func TestOutageThatSaysWhenItEndsCountsAndALimitOfOursDoesNot(t *testing.T) {
	in(t, breaker.Config{}, func(s *subject) {
		s.calls(20, outcome.RetryAfter(30*time.Second, status(429)))
		s.want(breaker.Closed)
		s.calls(20, outcome.Quarantine("bad_request", status(400)))
		s.want(breaker.Closed)
		s.calls(8, outcome.RetryAfter(30*time.Second, status(503)))
		s.calls(1, outcome.Quarantine("credentials", status(511)))
		s.want(breaker.Closed)
		s.calls(1, outcome.RetryAfter(30*time.Second, status(529)))
		s.want(breaker.Open)
	})
}

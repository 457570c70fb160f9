package protect_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/stagefleet/stagefleet/pkg/protect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pause is time that a handler, or a fault, takes.
func pause(d time.Duration) { time.Sleep(d) }

func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

type subject struct {
	*protect.Task
	*agent
}

// in runs f with a task and its agent in a bubble.
func in(t *testing.T, cfg protect.Config, f func(s subject)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a := &agent{T: t, start: time.Now(), status: 200}
		cfg.Endpoint, cfg.Client = "http://agent", &http.Client{Transport: a}
		task, err := protect.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			if err := task.Run(ctx); err != nil {
				t.Error(err)
			}
		}()
		t.Cleanup(func() { cancel(); <-done })
		synctest.Wait()
		f(subject{task, a})
	})
}

func (s subject) wantState(want protect.State) {
	s.Helper()
	if got := s.State(); got != want {
		s.Errorf("state %s, want %s", got, want)
	}
}

// entered enters and returns how long that took.
func (s subject) entered() time.Duration {
	start := time.Now()
	s.Enter(context.Background())
	return time.Since(start)
}

func TestProtectionGoesOnBeforeTheFirstMessageAndOffAfterAMinuteIdle(t *testing.T) {
	in(t, protect.Config{}, func(s subject) {
		settle(time.Hour)
		s.want() // idle: no call
		s.answer(200, "", time.Second, nil)
		if took := s.entered(); took != time.Second {
			s.Errorf("entered after %v, want after the answer", took)
		}
		s.wantState(protect.Protected)
		settle(10 * time.Minute)
		s.Leave()
		settle(time.Minute - 1)
		s.wantState(protect.Protected)
		settle(1 + time.Second)
		s.wantState(protect.Off)
		settle(24 * time.Hour)
		s.want("+1h0m0s", "-1h11m1s")
		if s.asks[0].minutes != 120 || s.asks[1].minutes != 0 {
			s.Errorf("asked for %d minutes", s.asks[0].minutes)
		}
	})
}

func TestManyShortMessagesAreOneBusyPeriod(t *testing.T) {
	in(t, protect.Config{}, func(s subject) {
		for range 1000 {
			s.Enter(context.Background())
			settle(time.Second)
			s.Leave()
			settle(500 * time.Millisecond)
		}
		settle(time.Hour)
		s.want("+0s", "-25m59.5s")
	})
}

func TestProtectionIsRenewedAtHalfOfItsExpiry(t *testing.T) {
	in(t, protect.Config{Expiry: time.Hour}, func(s subject) {
		s.entered()
		settle(2 * time.Hour)
		s.want("+0s", "+30m0s", "+1h0m0s", "+1h30m0s", "+2h0m0s")
		if s.asks[1].minutes != 60 {
			s.Errorf("renewed for %d minutes", s.asks[1].minutes)
		}
	})
}

func TestMessagesThatComeWhileProtectionIsAskedForWaitToo(t *testing.T) {
	in(t, protect.Config{}, func(s subject) {
		s.answer(200, "", 3*time.Second, nil)
		var waits sync.WaitGroup
		for i := range 3 {
			waits.Go(func() {
				pause(time.Duration(i) * time.Second)
				s.Enter(context.Background())
				if at := time.Since(s.start); at != 3*time.Second {
					s.Errorf("entered at %v, want with the answer at 3 s", at)
				}
			})
		}
		waits.Wait()
		s.want("+0s")
	})
}

func TestNothingWaitsLongerThanTheBudget(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		delay  time.Duration
		err    error
		wait   time.Duration
	}{
		"hang":                {200, "", time.Hour, nil, 4 * time.Second},
		"agent timed out":     {504, cancelled, 4*time.Second - 1, nil, 4*time.Second - 1},
		"throttled":           {400, throttled, 0, nil, 0},
		"no agent":            {0, "", 0, errors.New("connection refused"), 0},
		"garbage":             {200, "<html>", 0, nil, 0},
		"garbage error":       {502, "<html>", 0, nil, 0},
		"empty object":        {200, "{}", 0, nil, 0},
		"not what was asked":  {200, released, 0, nil, 0},
		"error with a 200":    {200, throttled, 0, nil, 0},
		"no role":             {403, `{"error":{"Code":"AccessDeniedException"}}`, 0, nil, 0},
		"failure with a 4xx":  {400, `{"error":{"Code":"InvalidParameterException"}}`, 0, nil, 0},
		"answer without body": {200, " ", 0, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, protect.Config{}, func(s subject) {
				s.answer(c.status, c.body, c.delay, c.err)
				if took := s.entered(); took != c.wait {
					s.Errorf("waited %v, want %v", took, c.wait)
				}
				synctest.Wait()
				s.wantState(protect.Failing)
				if n, _, reason := s.Admit(10); n != 10 {
					s.Errorf("%d admitted (%s): it must fail open", n, reason)
				}
				s.Leave()
				if took := s.entered(); took != 0 {
					s.Errorf("the next message waited %v for an agent that is down", took)
				}
				settle(10 * time.Minute)
				if n := len(s.asks); n < 5 || n > 20 {
					s.Errorf("asked %d times in ten minutes", n)
				}
				s.answer(200, "", 0, nil)
				settle(time.Minute + 4*time.Second)
				s.wantState(protect.Protected)
			})
		})
	}
}

func TestRefusalStopsReceivingAndIsAskedAboutEachMinute(t *testing.T) {
	in(t, protect.Config{}, func(s subject) {
		s.answer(200, blocked, 0, nil)
		if took := s.entered(); took != 0 {
			s.Errorf("waited %v", took)
		}
		s.wantState(protect.Refused)
		changed := s.Changed()
		if n, _, reason := s.Admit(10); n != 0 || reason != protect.ReasonRefused {
			s.Errorf("%d admitted, reason %q", n, reason)
		}
		settle(90 * time.Second)
		s.Leave() // it asks on, though nothing runs
		settle(90 * time.Second)
		s.want("+0s", "+1m0s", "+2m0s", "+3m0s")
		s.answer(500, "", 0, nil) // no answer is not a grant
		settle(time.Minute)
		s.wantState(protect.Refused)
		s.answer(200, "", 0, nil)
		settle(time.Minute)
		<-changed
		s.wantState(protect.Protected)
		if n, _, _ := s.Admit(10); n != 10 {
			s.Errorf("%d admitted once granted", n)
		}
		settle(time.Hour) // nothing came: it is given up again
		s.wantState(protect.Off)
	})
}

func TestRefusedRenewalIsARefusalAndWhatIsLeftIsGivenUpWhenIdle(t *testing.T) {
	in(t, protect.Config{Expiry: time.Hour}, func(s subject) {
		s.entered()
		s.answer(200, blocked, 0, nil)
		settle(30 * time.Minute)
		s.wantState(protect.Refused)
		settle(30 * time.Second)
		s.answer(200, "", 0, nil)
		s.Leave()
		synctest.Wait()
		if last := s.asks[len(s.asks)-1]; last.enabled {
			s.Errorf("calls %v, want what was granted given up", s.asks)
		}
		s.wantState(protect.Refused)
		settle(time.Minute)
		s.wantState(protect.Protected)
	})
}

func TestFailedRenewalLeavesWhatWasGranted(t *testing.T) {
	in(t, protect.Config{Expiry: time.Hour}, func(s subject) {
		s.entered()
		s.answer(400, throttled, 0, nil)
		settle(time.Hour - time.Second)
		s.wantState(protect.Protected)
		settle(2 * time.Minute)
		s.wantState(protect.Failing) // it has expired
		s.answer(200, "", 0, nil)
		settle(2 * time.Minute)
		s.wantState(protect.Protected)
	})
}

func TestFailedReleaseIsTriedAgain(t *testing.T) {
	in(t, protect.Config{}, func(s subject) {
		s.entered()
		s.Leave()
		s.answer(400, throttled, 0, nil)
		settle(time.Minute + time.Second)
		s.answer(200, "", 0, nil)
		settle(time.Minute)
		s.wantState(protect.Off)
		s.want("+0s", "-1m0s", "-1m5s")
	})
}

func TestTaskOfNoServiceNeedsNoProtection(t *testing.T) {
	in(t, protect.Config{}, func(s subject) {
		s.answer(200, noService, 0, nil)
		s.entered()
		s.wantState(protect.Absent)
		if n, _, _ := s.Admit(10); n != 10 {
			s.Errorf("%d admitted", n)
		}
		s.Leave()
		s.entered()
		settle(24 * time.Hour)
		s.want("+0s")
	})
}

func TestWithoutAnAgentNothingHappens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		task, err := protect.New(protect.Config{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = task.Run(ctx) }()
		task.Enter(ctx)
		if n, _, _ := task.Admit(3); n != 3 || task.State() != protect.Absent {
			t.Errorf("%d admitted, state %s", n, task.State())
		}
		task.Leave()
		settle(time.Hour)
		cancel()
		synctest.Wait()
	})
}

func TestMessageThatComesDuringAReleaseWaitsForNewProtection(t *testing.T) {
	in(t, protect.Config{}, func(s subject) {
		s.entered()
		s.Leave()
		s.answer(200, "", 2*time.Second, nil)
		settle(time.Minute + time.Second)
		if took := s.entered(); took != 3*time.Second {
			s.Errorf("waited %v, want for the release and the grant after it", took)
		}
		s.wantState(protect.Protected)
		s.want("+0s", "-1m0s", "+1m2s")
	})
}

func TestProtectionWithoutABreakIsEndedAfterTheLongestAttempt(t *testing.T) {
	in(t, protect.Config{Longest: 3 * time.Hour}, func(s subject) {
		s.entered()
		settle(3*time.Hour - 1)
		if n, _, _ := s.Admit(1); n != 1 {
			s.Error("refused early")
		}
		settle(1)
		changed := s.Changed()
		if n, _, reason := s.Admit(1); n != 0 || reason != protect.ReasonLong {
			s.Errorf("%d admitted, reason %q", n, reason)
		}
		settle(time.Minute)
		s.Leave()
		synctest.Wait() // without the usual minute
		s.wantState(protect.Off)
		<-changed
		if n, _, _ := s.Admit(1); n != 1 {
			s.Error("refused after the release")
		}
	})
}

func TestStoppingProcessMakesNoCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &agent{T: t, start: time.Now(), status: 200}
		task, err := protect.New(protect.Config{Endpoint: "http://agent", Client: &http.Client{Transport: a}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = task.Run(ctx) }()
		task.Enter(ctx)
		a.answer(200, "", time.Second, nil)
		settle(time.Hour) // the renewal is under way
		cancel()
		<-done
		task.Leave()
		task.Enter(ctx)
		settle(24 * time.Hour)
		a.want("+0s", "+1h0m0s")
	})
}

func TestEntryEndsWithItsContext(t *testing.T) {
	in(t, protect.Config{}, func(s subject) {
		s.answer(200, "", time.Hour, nil)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		s.Enter(ctx)
		if at := time.Since(s.start); at != time.Second {
			s.Errorf("entered at %v", at)
		}
	})
}

func TestRefusedTaskWhoseReleaseFailsAsksAgainOnceItsGrantHasExpired(t *testing.T) {
	in(t, protect.Config{Expiry: time.Hour}, func(s subject) {
		s.entered()
		s.answer(200, blocked, 0, nil)
		settle(30 * time.Minute)
		s.wantState(protect.Refused)
		s.answer(400, throttled, 0, nil)
		s.Leave()
		settle(35 * time.Minute)
		if last := s.asks[len(s.asks)-1]; !last.enabled {
			t.Errorf("it still asks to be released at %v, from what has expired", last.at)
		}
		s.answer(200, "", 0, nil)
		settle(time.Minute + time.Second)
		s.wantState(protect.Protected)
	})
}

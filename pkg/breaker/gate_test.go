package breaker_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/breaker"
)

func TestGateReceivesNothingWhileOpen(t *testing.T) {
	in(t, breaker.Config{}, func(s *subject) {
		if n, done, _ := s.Admit(10); n != 10 || done != nil {
			s.Errorf("%d admitted while closed", n)
		}
		s.open()
		changed := s.Changed()
		if n, _, reason := s.Admit(10); n != 0 || reason != breaker.ReasonOpen {
			s.Errorf("%d admitted while open, reason %q", n, reason)
		}
		settle(30 * time.Second)
		select {
		case <-changed:
			s.Error("changed while still open")
		default:
		}
		settle(1)
		select {
		case <-changed:
		default:
			s.Error("not told of the end of the cooldown")
		}
	})
}

func TestGateLetsOneMessageThroughWhileHalfOpen(t *testing.T) {
	in(t, breaker.Config{}, func(s *subject) {
		s.open()
		settle(30*time.Second + 1)
		n, done, _ := s.Admit(10)
		if n != 1 || done == nil {
			s.Fatalf("%d admitted", n)
		}
		if n, _, reason := s.Admit(10); n != 0 || reason != breaker.ReasonProbing {
			s.Errorf("a second message: %d, %q", n, reason)
		}
		changed := s.Changed()
		done() // it came to nothing
		<-changed
		if n, done, _ = s.Admit(10); n != 1 {
			s.Errorf("%d admitted after a message that did not decide", n)
		}
		_ = s.call(errDown)
		settle(30*time.Second + 1)
		done() // late: belongs to an earlier turn
		if n, _, _ := s.Admit(10); n != 1 {
			s.Errorf("%d admitted in the next turn", n)
		}
		if n, _, _ := s.Admit(10); n != 0 {
			s.Errorf("%d admitted beside it", n)
		}
	})
}

func TestGateOpensByDegreesAfterARecovery(t *testing.T) {
	recovered := func(s *subject) {
		s.open()
		settle(30*time.Second + 1)
		_ = s.call(nil)
	}
	in(t, breaker.Config{}, func(s *subject) {
		recovered(s)
		var sizes []int
		for range 8 {
			n, _, _ := s.Admit(100)
			sizes = append(sizes, n)
			_ = s.call(nil)
		}
		if !slices.Equal(sizes, []int{1, 2, 4, 8, 16, 32, 64, 100}) {
			s.Errorf("admitted %v", sizes)
		}
	})
	in(t, breaker.Config{}, func(s *subject) {
		recovered(s)
		settle(30*time.Second - 1)
		if n, _, _ := s.Admit(100); n != 1 {
			s.Errorf("%d admitted within the window", n)
		}
		settle(1)
		if n, _, _ := s.Admit(100); n != 100 {
			s.Errorf("%d admitted after a quiet window", n)
		}
	})
}

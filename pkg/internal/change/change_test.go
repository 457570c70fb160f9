package change_test

import (
	"testing"

	"github.com/stagefleet/stagefleet/pkg/internal/change"
)

func TestFireWakesThoseWhoWaitAndNobodyLater(t *testing.T) {
	var s change.Signal
	s.Fire() // nobody waits
	first, same := s.Next(), s.Next()
	select {
	case <-first:
		t.Fatal("woken by a change of the past")
	default:
	}
	s.Fire()
	<-first
	<-same
	select {
	case <-s.Next():
		t.Error("a later waiter was woken")
	default:
	}
}

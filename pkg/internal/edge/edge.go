// Package edge checks timed behaviour where it changes, in a synctest bubble: a nanosecond before its moment nothing has happened, at
// its moment it has, and an hour later nothing more has. It serves tests alone.
package edge

import (
	"testing"
	"testing/synctest"
	"time"
)

// Edge is one moment at which something happens. Look says what can be seen, counters included, so that what happens twice shows.
type Edge struct {
	At     time.Duration // from the call of Check
	Look   func() string
	Before string
	Then   string // at At and, unless Later says otherwise, an hour after it
	Later  string
}

// Check lets the time of the bubble pass and compares what can be seen.
func (e Edge) Check(t testing.TB) {
	t.Helper()
	if e.Before == e.Then {
		t.Fatalf("an edge between %q and the same is none", e.Before)
	}
	if e.Later == "" {
		e.Later = e.Then
	}
	for _, step := range []struct {
		wait  time.Duration
		when  string
		wants string
	}{{e.At - 1, "a nanosecond before", e.Before}, {1, "at", e.Then}, {time.Hour, "an hour after", e.Later}} {
		settle(step.wait)
		if got := e.Look(); got != step.wants {
			t.Errorf("%s %v: %q, want %q", step.when, e.At, got, step.wants)
		}
	}
}

// settle lets d pass and everything that it causes happen.
func settle(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // the clock of a bubble
	synctest.Wait()
}

package breaker_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/breaker"
	"github.com/stagefleet/stagefleet/pkg/internal/edge"
)

// seen is the state with all changes so far.
func (s *subject) seen() string {
	state := s.State()
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprint(state, slices.Clone(s.changes))
}

const opened = "open[open]"

func TestEdgesOfTheBreaker(t *testing.T) {
	for name, e := range map[string]func(s *subject) edge.Edge{
		"it is open for half a minute, to the very end": func(s *subject) edge.Edge {
			s.open()
			return edge.Edge{At: 30*time.Second + 1, Look: s.seen, Before: opened, Then: "half_open[open half_open]"}
		},
		"a probe has a minute": func(s *subject) edge.Edge {
			s.open()
			settle(30*time.Second + 1)
			go func() {
				_ = s.Do(context.Background(), func(context.Context) error { pause(time.Hour); return nil })
			}()
			return edge.Edge{At: time.Minute, Look: s.seen, Before: "half_open[open half_open]", Then: "open[open half_open open]", Later: "half_open[open half_open open half_open]"}
		},
		"the gate is wide open a quiet window after a recovery": func(s *subject) edge.Edge {
			s.open()
			settle(30*time.Second + 1)
			s.calls(1, nil)
			admitted := func() string { n, _, _ := s.Admit(100); return fmt.Sprint(n) }
			return edge.Edge{At: 30 * time.Second, Look: admitted, Before: "1", Then: "100"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, breaker.Config{}, func(s *subject) { e(s).Check(t) })
		})
	}
}

// The window moves by a tenth: what was counted in one tenth leaves it together, as the tenth after the last of it begins.
func TestEdgeOfTheWindow(t *testing.T) {
	for name, c := range map[string]struct {
		began, after time.Duration
		want         breaker.State
	}{
		"a tenth's first call within the window":    {0, 30*time.Second - 1, breaker.Open},
		"and beyond it":                             {0, 30 * time.Second, breaker.Closed},
		"an hour later":                             {0, time.Hour, breaker.Closed},
		"a tenth's last call leaves with the tenth": {3*time.Second - 1, 27 * time.Second, breaker.Open},
		"as the window moves on":                    {3*time.Second - 1, 27*time.Second + 1, breaker.Closed},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, breaker.Config{}, func(s *subject) {
				settle(c.began)
				s.calls(9, errDown)
				settle(c.after)
				s.calls(1, errDown)
				s.want(c.want)
			})
		})
	}
}

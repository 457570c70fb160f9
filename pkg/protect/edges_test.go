package protect_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/internal/edge"
	"github.com/stagefleet/stagefleet/pkg/protect"
)

// seen is the state, with all calls so far: + asks for protection, - gives it up.
func (s subject) seen() string {
	state := s.State()
	s.mu.Lock()
	defer s.mu.Unlock()
	signs := ""
	for _, a := range s.asks {
		signs += map[bool]string{true: "+", false: "-"}[a.enabled]
	}
	return fmt.Sprint(state, " ", signs)
}

func TestEdgesOfProtection(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  protect.Config
		edge func(s subject) edge.Edge
	}{
		"it is given up a minute after the last message": {protect.Config{}, func(s subject) edge.Edge {
			s.entered()
			s.Leave()
			return edge.Edge{At: time.Minute, Look: s.seen, Before: "protected +", Then: "off +-"}
		}},
		"and not if a message comes in time": {protect.Config{}, func(s subject) edge.Edge {
			s.entered()
			s.Leave()
			settle(time.Minute - 1)
			s.entered()
			s.Leave()
			return edge.Edge{At: time.Minute, Look: s.seen, Before: "protected +", Then: "off +-"}
		}},
		"it is renewed at half of its two hours": {protect.Config{}, func(s subject) edge.Edge {
			s.entered()
			return edge.Edge{At: time.Hour, Look: s.seen, Before: "protected +", Then: "protected ++", Later: "protected +++"}
		}},
		"a refused task asks again after a minute": {protect.Config{}, func(s subject) edge.Edge {
			s.answer(200, blocked, 0, nil)
			s.entered()
			s.answer(200, "", 0, nil)
			return edge.Edge{At: time.Minute, Look: s.seen, Before: "refused +", Then: "protected ++", Later: "protected +++"}
		}},
		"a call without an answer is over after four seconds": {protect.Config{}, func(s subject) edge.Edge {
			s.answer(200, "", 10*time.Hour, nil)
			entered := make(chan struct{})
			go func() { s.Enter(context.Background()); close(entered) }()
			look := func() string {
				s.mu.Lock()
				defer s.mu.Unlock()
				select {
				case <-entered:
					return fmt.Sprint("runs ", len(s.asks) > 0)
				default:
					return fmt.Sprint("waits ", len(s.asks) > 0)
				}
			}
			return edge.Edge{At: 4 * time.Second, Look: look, Before: "waits true", Then: "runs true"}
		}},
		"and repeated five seconds after that": {protect.Config{}, func(s subject) edge.Edge {
			s.answer(400, throttled, 0, nil)
			s.entered()
			s.answer(200, "", 0, nil)
			return edge.Edge{At: 5 * time.Second, Look: s.seen, Before: "failing +", Then: "protected ++", Later: "protected +++"}
		}},
		"nothing is received after the longest attempt": {protect.Config{Longest: 90 * time.Minute}, func(s subject) edge.Edge {
			s.entered()
			look := func() string { n, _, reason := s.Admit(10); return fmt.Sprint(n, reason) }
			return edge.Edge{At: 90 * time.Minute, Look: look, Before: "10", Then: "0" + protect.ReasonLong}
		}},
		"what cannot be renewed is gone when it expires": {protect.Config{Expiry: time.Hour}, func(s subject) edge.Edge {
			s.entered()
			s.answer(400, throttled, 0, nil)
			settle(30 * time.Minute) // then at once and after 5, 15, 35 and 75 s, then every minute from 135 s on
			return edge.Edge{At: 30*time.Minute + 15*time.Second, Look: func() string { return string(s.State()) }, Before: "protected", Then: "failing"}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, c.cfg, func(s subject) { c.edge(s).Check(t) })
		})
	}
}

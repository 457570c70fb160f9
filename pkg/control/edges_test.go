package control_test

import (
	"fmt"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/stagefleet/stagefleet/pkg/control"
	"github.com/stagefleet/stagefleet/pkg/internal/edge"
)

func (s subject) reason() string {
	_, _, reason := s.Admit(7)
	return reason
}

func TestEdgesOfControl(t *testing.T) {
	for name, c := range map[string]struct {
		before func(p *places)
		edge   func(s subject) edge.Edge
	}{
		"a pause ends at its time": {func(p *places) {
			p.pauses = []control.Pause{{Stage: "compile", Until: p.start.Add(100 * time.Second)}}
		}, func(s subject) edge.Edge {
			return edge.Edge{At: 100 * time.Second, Look: s.reason, Before: control.ReasonPaused, Then: ""}
		}},
		"a place that does not answer is waited for five seconds": {func(p *places) { p.hang = true }, func(s subject) edge.Edge {
			return edge.Edge{At: 5 * time.Second, Look: s.reason, Before: control.ReasonUnknown, Then: ""}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, control.Config{}, c.before, func(s subject) { c.edge(s).Check(t) })
		})
	}
}

func TestEdgeOfTheWarningBeforeTheRetention(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	until := func(p *places) { // the look at its end comes at that very moment
		p.pauses = []control.Pause{
			{Stage: "compile", Since: p.start},
			{Stage: control.All, Since: p.start, Until: p.start.Add(72 * time.Hour)},
		}
	}
	in(t, control.Config{Retention: 96 * time.Hour, Log: zap.New(core)}, until, func(s subject) {
		warnings := func() string {
			return fmt.Sprint(logs.FilterMessage("pause nears the retention of the queue: messages will be lost").Len())
		}
		edge.Edge{At: 72 * time.Hour, Look: warnings, Before: "0", Then: "1"}.Check(t)
	})
}

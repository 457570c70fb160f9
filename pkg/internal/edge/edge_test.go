package edge_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagefleet/stagefleet/pkg/internal/edge"
)

// judge is a test that notes that it was failed.
type judge struct {
	testing.TB
	failures int
}

func (j *judge) Helper()               {}
func (j *judge) Errorf(string, ...any) { j.failures++ }
func (j *judge) Fatalf(string, ...any) { j.failures++ }

func TestEdgeIsMetAtItsMomentAlone(t *testing.T) {
	for name, c := range map[string]struct {
		at       []time.Duration // when the counter rises
		failures int
	}{
		"on time": {[]time.Duration{time.Minute}, 0},
		"early":   {[]time.Duration{time.Minute - 1}, 1},
		"late":    {[]time.Duration{time.Minute + 1}, 1},
		"twice":   {[]time.Duration{time.Minute, 61 * time.Minute}, 1},
		"never":   {nil, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n atomic.Int64
				for _, at := range c.at {
					time.AfterFunc(at, func() { n.Add(1) })
				}
				j := &judge{TB: t}
				edge.Edge{At: time.Minute, Look: func() string { return fmt.Sprint(n.Load()) }, Before: "0", Then: "1"}.Check(j)
				if j.failures != c.failures {
					t.Errorf("%d failures, want %d", j.failures, c.failures)
				}
			})
		})
	}
}

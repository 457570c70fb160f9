package main

import (
	"flag"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/stagefleet/stagefleet/pkg/internal/bench/bounds"
)

// maxBody is what SQS takes as a body (SQS developer guide, message quotas).
const maxBody = 1 << 20

// check ends the process if a flag cannot work.
func (p plan) check() {
	bounds.Exit(
		bounds.None(flag.Args()),
		bounds.Between("rounds", p.Rounds, 1, 1000),
		bounds.Between("n", p.Messages, 1, 10_000_000),
		bounds.Between("body", p.BodyBytes, 1, maxBody),
		bounds.Between("slots", p.Slots, 1, 100_000),
		bounds.Between("latency", p.Latency, 0, time.Second),
		bounds.Between("idle", p.Idle, 0, time.Hour),
		bounds.Among("only", strings.Join(p.names(), ","), slices.Sorted(maps.Keys(consumers))...),
		p.folder(),
	)
}

// folder makes the one for the profiles.
func (p plan) folder() error {
	if p.Profiles == "" {
		return nil
	}
	return os.MkdirAll(p.Profiles, 0o755)
}

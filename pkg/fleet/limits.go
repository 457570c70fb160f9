package fleet

import (
	"fmt"
	"strconv"

	"github.com/stagefleet/stagefleet/pkg/job"
)

// The variables that set the limits of a server, and their defaults. Each of 10,000 jobs under way costs the record a few rows;
// ten times as many may wait before submitters are sent away.
const (
	EnvSoftLimit     = "FLEET_SOFT_LIMIT"
	EnvHardLimit     = "FLEET_HARD_LIMIT"
	DefaultSoftLimit = 10_000
	DefaultHardLimit = 100_000
)

// Limits bound the jobs of all accounts together. Zero: no limit.
type Limits struct {
	Soft int64 // with so many in flight, further ones wait for capacity
	Hard int64 // with so many, waiting ones included, further ones are refused with 503 and a time to come back
}

// ParseLimits reads both numbers. The error names the flag and the variable to mend.
func ParseLimits(soft, hard string) (Limits, error) {
	var l Limits
	for _, f := range []struct {
		to              *int64
		text, flag, env string
	}{{&l.Soft, soft, "--soft-limit", EnvSoftLimit}, {&l.Hard, hard, "--hard-limit", EnvHardLimit}} {
		n, err := strconv.ParseInt(f.text, 10, 64)
		if err != nil || n < 0 {
			return Limits{}, fmt.Errorf("%s (%s) is %q, must be a number of jobs from 0", f.flag, f.env, f.text)
		}
		*f.to = n
	}
	if l.Hard > 0 && (l.Soft > l.Hard || l.Soft == 0) {
		return Limits{}, fmt.Errorf("--soft-limit (%s) is %s, must be 1 to --hard-limit (%s), %s", EnvSoftLimit, soft, EnvHardLimit, hard)
	}
	return l, nil
}

// of sets the limits of a record's options.
func (l Limits) of(o job.Options) job.Options {
	o.SoftLimit, o.HardLimit = l.Soft, l.Hard
	return o
}

package fleet

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

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

// EnvProxies is the variable that names the proxies that are trusted.
const EnvProxies = "FLEET_TRUSTED_PROXIES"

// ParseProxies reads addresses and networks such as "10.0.0.0/24,192.0.2.7". The error names the flag and the variable to mend.
func ParseProxies(text string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for entry := range strings.SplitSeq(text, ",") {
		if text == "" {
			break
		}
		entry = strings.TrimSpace(entry)
		network, err := netip.ParsePrefix(entry)
		if a, single := netip.ParseAddr(entry); single == nil {
			network, err = netip.PrefixFrom(a.WithZone(""), a.BitLen()), nil
		}
		if err != nil || network.Bits() == 0 || network.Addr().Is4In6() {
			return nil, fmt.Errorf("--trusted-proxies (%s) has %q, must be addresses and networks such as 10.0.0.0/24 with commas between them, and not everybody's", EnvProxies, entry)
		}
		all = append(all, network.Masked())
	}
	return all, nil
}

// of sets the limits of a record's options.
func (l Limits) of(o job.Options) job.Options {
	o.SoftLimit, o.HardLimit = l.Soft, l.Hard
	return o
}

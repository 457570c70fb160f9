package breaker

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// Defaults of the fields of Config that are zero.
const (
	DefaultWindow     = 30 * time.Second
	DefaultRatio      = 0.5
	DefaultMinSamples = 10
	DefaultCooldown   = 30 * time.Second
)

// buckets is how many parts the rolling window has: calls leave it by a tenth at a time.
const buckets = 10

// Config is the whole of a breaker. The zero value but for Name is usable.
type Config struct {
	Name       string        // the dependency, in metrics and logs; required
	Window     time.Duration // over which finished calls are judged; should be twice as long as the slowest call; 10 ms or more; 0: DefaultWindow
	Ratio      float64       // of failures to finished calls at which it opens; at most 1; 0: DefaultRatio
	MinSamples int           // finished calls in the window below which it never opens; 0: DefaultMinSamples
	Cooldown   time.Duration // open for this long, then one call is let through; 0: DefaultCooldown
	Jitter     float64       // 0 to 1: Cooldown is stretched by up to this share of itself, once per breaker, so that a fleet does not probe at once
	Probe      time.Duration // a probing call that is not back by then counts as failed; 0: twice Window

	// OnChange is told of each change of state, in order, outside every lock; it may call the breaker. It must not block. May be nil.
	OnChange func(from, to State)

	Log     *zap.Logger           // nil: silent
	Metrics prometheus.Registerer // nil: not exported
}

func (c Config) withDefaults() Config {
	setDefault(&c.Window, DefaultWindow)
	setDefault(&c.Ratio, DefaultRatio)
	setDefault(&c.MinSamples, DefaultMinSamples)
	setDefault(&c.Cooldown, DefaultCooldown)
	setDefault(&c.Probe, 2*c.Window)
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	return c
}

func setDefault[T comparable](field *T, def T) {
	var zero T
	if *field == zero {
		*field = def
	}
}

// Validate reports the first field that cannot work, with its value and bound. Zero fields stand for their defaults.
func (c Config) Validate() error {
	if c.Name == "" {
		return fmt.Errorf("Name is empty, must name the dependency")
	}
	c = c.withDefaults()
	switch {
	case c.Window < buckets*time.Millisecond:
		return fmt.Errorf("Window is %v, must be %v or more", c.Window, buckets*time.Millisecond)
	case c.Ratio < 0 || c.Ratio > 1:
		return fmt.Errorf("Ratio is %g, must be above 0 and at most 1", c.Ratio)
	case c.MinSamples < 1:
		return fmt.Errorf("MinSamples is %d, must be 1 or more", c.MinSamples)
	case c.Cooldown < 0:
		return fmt.Errorf("Cooldown is %v, must be above 0", c.Cooldown)
	case c.Jitter < 0 || c.Jitter > 1:
		return fmt.Errorf("Jitter is %g, must be between 0 and 1", c.Jitter)
	case c.Probe < 0:
		return fmt.Errorf("Probe is %v, must be above 0", c.Probe)
	}
	return nil
}

package protect

import (
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// Defaults of the fields of Config that are zero. The bounds of Expiry are those of the ECS API (UpdateTaskProtection).
const (
	DefaultExpiry = 2 * time.Hour
	DefaultHold   = time.Minute
	DefaultBudget = 4 * time.Second
	DefaultAsk    = time.Minute

	MinExpiry = time.Minute
	MaxExpiry = 48 * time.Hour
)

// Config is the whole of a task's protection.
type Config struct {
	Name     string        // label task of the metrics; empty: they have none
	Endpoint string        // the value of ECS_AGENT_URI; empty: there is nothing to protect, and Task does nothing
	Expiry   time.Duration // asked for at a time, and renewed at half; whole minutes, MinExpiry to MaxExpiry; 0: DefaultExpiry
	Hold     time.Duration // idle for this long before protection is given up, because ECS limits how often it may change; 0: DefaultHold
	Budget   time.Duration // for one call, and for the wait of a message that is about to start; 0: DefaultBudget
	Ask      time.Duration // how often a refused task asks again; 0: DefaultAsk
	Longest  time.Duration // after so much protection without a break nothing is received until it was given up once; 0: any length

	Client  *http.Client          // nil: one of its own
	Log     *zap.Logger           // nil: silent
	Metrics prometheus.Registerer // nil: not exported
}

func (c Config) withDefaults() Config {
	setDefault(&c.Expiry, DefaultExpiry)
	setDefault(&c.Hold, DefaultHold)
	setDefault(&c.Budget, DefaultBudget)
	setDefault(&c.Ask, DefaultAsk)
	if c.Client == nil {
		c.Client = &http.Client{}
	}
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
	c = c.withDefaults()
	if c.Expiry < MinExpiry || c.Expiry > MaxExpiry || c.Expiry%time.Minute != 0 {
		return fmt.Errorf("Expiry is %v, must be whole minutes between %v and %v", c.Expiry, MinExpiry, MaxExpiry)
	}
	for _, f := range []struct {
		name  string
		value time.Duration
	}{{"Hold", c.Hold}, {"Budget", c.Budget}, {"Ask", c.Ask}, {"Longest", c.Longest}} {
		if f.value < 0 {
			return fmt.Errorf("%s is %v, must be 0 or more", f.name, f.value)
		}
	}
	return nil
}

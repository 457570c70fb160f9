// Package control stops a stage from receiving, at once and without a deployment: by a kill switch in an SSM parameter, and by a
// pause in the durable record. Both are polled; while one cannot be read its last known value holds. Running work goes on.
//
// A Control is a gate of a pool. It never writes either place: operators do, through package admin or the AWS console.
package control

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/stagefleet/stagefleet/pkg/internal/change"
)

// All in place of a stage's name means every stage.
const All = "all"

// Reasons for which nothing should be received.
const (
	ReasonSwitch  = "kill_switch"
	ReasonPaused  = "paused"
	ReasonUnknown = "control_unknown" // at the start, until both places were asked once
)

// Defaults of the fields of Config that are zero.
const (
	DefaultEvery  = 15 * time.Second
	DefaultJitter = 3 * time.Second
)

// readTimeout bounds one look at either place.
const readTimeout = 5 * time.Second

// Pause is an entry of the durable record.
type Pause struct {
	Stage  string    // or All
	Reason string    // for people
	By     string    // who paused
	Since  time.Time // when
	Until  time.Time // when it ends by itself; zero: not before somebody resumes
}

// active tells whether the pause holds the stage at the given time.
func (p Pause) active(stage string, now time.Time) bool {
	return (p.Stage == stage || p.Stage == All) && (p.Until.IsZero() || now.Before(p.Until))
}

// same compares moments, which every look may give in another form.
func (p Pause) same(other Pause) bool {
	return p.Stage == other.Stage && p.Reason == other.Reason && p.By == other.By && p.Since.Equal(other.Since) && p.Until.Equal(other.Until)
}

// Record reads the pauses of all stages from the durable record.
type Record interface {
	Pauses(ctx context.Context) ([]Pause, error)
}

// Switch reads whether a stage is enabled.
type Switch interface {
	Enabled(ctx context.Context, stage string) (bool, error)
}

// Config is the whole of a Control. Stage is required; without a Switch or a Record that place is not asked.
type Config struct {
	Stage     string
	Switch    Switch
	Record    Record
	Every     time.Duration // from one look at a place to the next; 0: DefaultEvery
	Jitter    time.Duration // each look comes up to so much later; 0: DefaultJitter
	Wait      time.Duration // the pool's long poll, for the bound that is exported; 0: none
	Retention time.Duration // of the queue's messages; a pause that comes near it is warned of. 0: unknown

	Log     *zap.Logger           // nil: silent
	Metrics prometheus.Registerer // nil: not exported
}

// Validate reports the first field that cannot work, with its value and bound. Zero fields stand for their defaults.
func (c Config) Validate() error {
	if c.Stage == "" || c.Stage == All {
		return fmt.Errorf("Stage is %q, must be the name of one stage", c.Stage)
	}
	for _, f := range []struct {
		name  string
		value time.Duration
	}{{"Every", c.Every}, {"Jitter", c.Jitter}, {"Wait", c.Wait}, {"Retention", c.Retention}} {
		if f.value < 0 {
			return fmt.Errorf("%s is %v, must be 0 or more", f.name, f.value)
		}
	}
	return nil
}

// Control knows whether one stage may receive. Make it with New and start Run. Its methods may be called concurrently.
type Control struct {
	cfg     Config
	changed change.Signal
	errors  *prometheus.CounterVec

	mu      sync.Mutex
	asked   int   // places that were asked at least once
	off     Pause // the kill switch, as a pause since it was first seen; zero: enabled
	pauses  []Pause
	reason  string // why nothing may be received; empty: it may
	warned  Pause  // the last pause that was warned of
	current Pause  // the one that holds the stage
}

// New makes a Control that lets nothing through until Run has asked.
func New(cfg Config) (*Control, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configure control: %w", err)
	}
	if cfg.Every == 0 {
		cfg.Every = DefaultEvery
	}
	if cfg.Jitter == 0 {
		cfg.Jitter = DefaultJitter
	}
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	c := &Control{cfg: cfg, reason: ReasonUnknown}
	if err := c.register(); err != nil {
		return nil, fmt.Errorf("register metrics of control: %w", err)
	}
	return c, nil
}

// Run polls both places until ctx ends.
func (c *Control) Run(ctx context.Context) error {
	var loops sync.WaitGroup
	loops.Go(func() { c.poll(ctx, c.readSwitch) })
	loops.Go(func() { c.poll(ctx, c.readRecord) })
	loops.Wait()
	return nil
}

// poll asks one place again and again. The end of a pause comes between two looks if it must.
func (c *Control) poll(ctx context.Context, read func(context.Context)) {
	for first := true; ; first = false {
		began := time.Now() // what a slow look tells may be as old as that
		asking, cancel := context.WithTimeout(ctx, readTimeout)
		read(asking)
		cancel()
		if first {
			c.mu.Lock()
			c.asked++
			c.mu.Unlock()
		}
		next := began.Add(c.cfg.Every + rand.N(c.cfg.Jitter+1))
		for {
			wait, ends := c.judge(time.Now(), next)
			if !sleep(ctx, wait) {
				return
			}
			if !ends {
				break
			}
		}
	}
}

func (c *Control) readSwitch(ctx context.Context) {
	if c.cfg.Switch == nil {
		return
	}
	enabled, err := c.cfg.Switch.Enabled(ctx, c.cfg.Stage)
	if err != nil {
		c.unreadable("switch", err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case enabled:
		c.off = Pause{}
	case c.off.Stage == "":
		c.off = Pause{Stage: All, Reason: ReasonSwitch, Since: time.Now()}
	}
}

func (c *Control) readRecord(ctx context.Context) {
	if c.cfg.Record == nil {
		return
	}
	pauses, err := c.cfg.Record.Pauses(ctx)
	if err != nil {
		c.unreadable("record", err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pauses = pauses
}

func (c *Control) unreadable(place string, err error) {
	c.errors.WithLabelValues(place).Inc()
	c.cfg.Log.Warn("control unreadable, last known value holds", zap.String("place", place), zap.String("error", fmt.Sprintf("%T", err)))
}

// judge forms the verdict from what is known. It returns how long it stands at most: until the next look, or the end of the pause.
func (c *Control) judge(now, next time.Time) (wait time.Duration, ends bool) {
	c.mu.Lock()
	before := c.reason
	c.reason, c.current = "", c.off
	for _, p := range c.pauses {
		if !p.active(c.cfg.Stage, now) {
			continue
		}
		if c.current.Stage == "" {
			c.reason, c.current = ReasonPaused, p
		}
		if !p.Until.IsZero() && p.Until.Before(next) {
			next, ends = p.Until, true
		}
	}
	switch {
	case c.asked < 2:
		c.reason = ReasonUnknown
	case c.off.Stage != "":
		c.reason = ReasonSwitch
	}
	after, pause := c.reason, c.current
	warn := c.nearRetention(pause, now)
	c.mu.Unlock()
	if before != after {
		c.changed.Fire()
		c.cfg.Log.Info("control", zap.String("was", before), zap.String("is", after), zap.String("by", pause.By))
	}
	if warn {
		c.cfg.Log.Warn("pause nears the retention of the queue: messages will be lost", zap.Time("since", pause.Since),
			zap.Time("until", pause.Until), zap.Duration("retention", c.cfg.Retention))
	}
	return next.Sub(now), ends
}

// nearRetention tells, once per pause, that it has lasted or will last for three quarters of the retention. It runs under mu.
func (c *Control) nearRetention(p Pause, now time.Time) bool {
	if p.Stage == "" || c.cfg.Retention == 0 || c.warned.same(p) {
		return false
	}
	limit := p.Since.Add(c.cfg.Retention * 3 / 4)
	if now.Before(limit) && (p.Until.IsZero() || p.Until.Before(limit)) {
		return false
	}
	c.warned = p
	return true
}

// Changed returns a channel that is closed when Admit may answer differently. With Admit it makes the Control a gate of a pool.
func (c *Control) Changed() <-chan struct{} { return c.changed.Next() }

// Admit lets everything through, or nothing.
func (c *Control) Admit(want int) (n int, done func(), reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reason != "" {
		return 0, nil, c.reason
	}
	return want, nil, ""
}

// Paused returns the pause that holds the stage, if one does. A kill switch that is off is one since it was first seen.
func (c *Control) Paused() (Pause, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current, c.current.Stage != ""
}

// Bound is the longest time from a flip to the last receive.
func (c *Control) Bound() time.Duration { return c.cfg.Every + c.cfg.Jitter + readTimeout + c.cfg.Wait }

func (c *Control) register() error {
	labels := prometheus.Labels{"stage": c.cfg.Stage}
	c.errors = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "stagefleet_control_unreadable_total", Help: "Looks at the switch or the record that failed.", ConstLabels: labels,
	}, []string{"place"})
	if c.cfg.Metrics == nil {
		return nil
	}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "stagefleet_control_" + name, Help: help, ConstLabels: labels}, value)
	}
	for _, m := range []prometheus.Collector{
		c.errors,
		gauge("bound_seconds", "Longest time from a flip to the last receive.", func() float64 { return c.Bound().Seconds() }),
		// Not what Admit says: a worker that dies before it has asked is not paused, and must not silence the alarms of its stage.
		gauge("paused", "1 while a pause or the kill switch holds the stage.", func() float64 {
			if _, paused := c.Paused(); paused {
				return 1
			}
			return 0
		}),
	} {
		if err := c.cfg.Metrics.Register(m); err != nil {
			return err
		}
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

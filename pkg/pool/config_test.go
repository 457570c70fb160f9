package pool_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagefleet/stagefleet/pkg/outcome"
	"github.com/stagefleet/stagefleet/pkg/pool"
)

func TestConfigThatCannotWorkIsRefusedByFieldValueAndBound(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		set  func(c *pool.Config)
		want string
	}{
		"no queue":                     {func(c *pool.Config) { c.QueueURL = "" }, "QueueURL is empty"},
		"no handler":                   {func(c *pool.Config) { c.Handler = nil }, "Handler is nil"},
		"middleware that is none":      {func(c *pool.Config) { c.Middleware = []pool.Middleware{nil} }, "Middleware[0] is nil"},
		"gate that is none":            {func(c *pool.Config) { c.Gates = []pool.Gate{nil} }, "Gates[0] is nil"},
		"no client":                    {func(*pool.Config) {}, "SQS is nil"},
		"policy":                       {func(c *pool.Config) { c.Policy.MaxAttempts = -1 }, "Policy.MaxAttempts is -1"},
		"visibility of a second":       {func(c *pool.Config) { c.Visibility = time.Second }, "Visibility is 1s, must be between 2s and 12h0m0s"},
		"visibility beyond SQS":        {func(c *pool.Config) { c.Visibility = 13 * time.Hour }, "Visibility is 13h0m0s"},
		"visibility of half a second":  {func(c *pool.Config) { c.Visibility = 2500 * time.Millisecond }, "Visibility is 2.5s, must be whole seconds"},
		"beat too rare":                {func(c *pool.Config) { c.Visibility, c.Beat = 30*time.Second, 16*time.Second }, "Beat is 16s, must be between 1ns and 15s"},
		"poll beyond SQS":              {func(c *pool.Config) { c.Wait = 21 * time.Second }, "Wait is 21s, must be between 1s and 20s"},
		"poll outlasts the drain":      {func(c *pool.Config) { c.Wait, c.Drain = 10*time.Second, 5*time.Second }, "Wait is 10s, must be between 1s and 5s"},
		"poll in parts of a second":    {func(c *pool.Config) { c.Wait = 1500 * time.Millisecond }, "Wait is 1.5s, must be whole seconds"},
		"drain shorter than any poll":  {func(c *pool.Config) { c.Drain = time.Millisecond }, "Drain is 1ms, must be between 1s"},
		"time limit beyond SQS":        {func(c *pool.Config) { c.TimeLimit = 12 * time.Hour }, "TimeLimit is 12h0m0s"},
		"no slots":                     {func(c *pool.Config) { c.Slots = -1 }, "Slots is -1, must be 1 or more"},
		"negative stuck bound":         {func(c *pool.Config) { c.MaxStuck = -1 }, "MaxStuck is -1"},
		"negative receive limit":       {func(c *pool.Config) { c.MaxReceives = -1 }, "MaxReceives is -1"},
		"negative grace":               {func(c *pool.Config) { c.Grace = -1 }, "Grace is -1ns"},
		"negative settle":              {func(c *pool.Config) { c.Settle = -1 }, "Settle is -1ns"},
		"negative stuck after":         {func(c *pool.Config) { c.StuckAfter = -1 }, "StuckAfter is -1ns"},
		"dead letters of another type": {func(c *pool.Config) { c.DeadLetterURL = "https://sqs/dead.fifo" }, "DeadLetterURL is https://sqs/dead.fifo, must be"},
		"dead letters to itself":       {func(c *pool.Config) { c.DeadLetterURL = c.QueueURL }, "DeadLetterURL is https://sqs/q, must be"},
		"wait in process is no policy": {func(c *pool.Config) { c.Policy.Waits = []time.Duration{-1} }, "Policy.Waits[0] is -1ns"},
	} {
		cfg := pool.Config{QueueURL: "https://sqs/q", Handler: run0}
		c.set(&cfg)
		if _, err := pool.New(nil, cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestSmallVisibilitiesWork(t *testing.T) {
	t.Parallel()
	for _, visibility := range []time.Duration{2 * time.Second, 3 * time.Second, 5 * time.Second, 6 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, "q", nil)
			c := &counter{}
			r.sendN(5)
			p := r.pool(pool.Config{Visibility: visibility, Middleware: []pool.Middleware{c.wrap}, Handler: sleeper(20 * time.Second)})
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { defer close(done); _, _ = p.Run(ctx) }()
			settle(10 * time.Minute)
			if c.total() != 5 || c.overlap != 1 {
				t.Errorf("visibility of %d s: %d runs of 5", visibility, c.total())
			}
			r.wantCounts(0, 0, 0)
			cancel()
			<-done
		})
	}
}

func TestTwoPoolsOnTwoQueuesKeepTheirOwnTimes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		slow := r.create("slow", nil)
		r.send("a")
		r.run(pool.Config{Name: "quick", Handler: sleeper(time.Minute)})
		r.run(pool.Config{Name: "slow", QueueURL: slow, Visibility: 5 * time.Minute, Beat: 2 * time.Minute, Handler: sleeper(time.Minute)})
		settle(5 * time.Minute)
		for _, h := range r.made("hide") {
			if h.timeouts[0] != 30 {
				t.Errorf("hidden for %d s, want the 30 of its own queue", h.timeouts[0])
			}
		}
	})
}

func TestWaitsOfThePolicyGoBackToTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		r.send("a")
		run := r.run(pool.Config{Slots: 1, Policy: outcome.Policy{Waits: []time.Duration{45 * time.Second}}, Handler: func(context.Context, pool.Message) error { return errNoLuck }})
		settle(time.Second)
		if s := run.Status(); s.Held != 0 || s.Running != 0 {
			t.Errorf("status %+v: a wait longer than the visibility is held in the process", s)
		}
		r.wantCounts(0, 1, 0)
	})
}

func TestMemoryOfUndeletedMessagesIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		r.sendN(5000)
		c := &counter{}
		r.fail(failing("delete", "hide"))
		r.run(pool.Config{Slots: 5000, Middleware: []pool.Middleware{c.wrap}})
		settle(time.Minute)
		r.fail(nil)
		settle(time.Hour)
		r.wantCounts(0, 0, 0)
		if n := c.total(); n < 5000 || n > 5000+2000 {
			t.Errorf("%d runs of 5,000, want no second ones but for the oldest that were forgotten", n)
		}
	})
}

func TestMiddlewareThatMakesNoHandlerIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		_, err := pool.New(r, pool.Config{QueueURL: r.queue, Handler: sleeper(0), Middleware: []pool.Middleware{
			func(next pool.Handler) pool.Handler { return next },
			func(pool.Handler) pool.Handler { return nil },
		}})
		if err == nil || !strings.Contains(err.Error(), "Middleware[1]") {
			t.Errorf("error %v, want one that names the middleware", err)
		}
	})
}

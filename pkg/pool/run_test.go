package pool_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagefleet/stagefleet/pkg/pool"
)

func TestRunCanBeCalledOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		run := r.run(pool.Config{})
		run.drained(pool.Report{})
		if _, err := run.Run(t.Context()); err == nil {
			t.Error("a second Run is no error")
		}
	})
}

func TestQueueThatDoesNotExistEndsTheRunAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		run := r.run(pool.Config{QueueURL: r.queue + "-not"})
		settle(time.Second)
		if !run.ended() || run.err == nil {
			t.Errorf("ended %v with %v, want an error at once", run.ended(), run.err)
		}
	})
}

func TestQueueThatVanishesLaterIsAskedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		run := r.run(pool.Config{})
		settle(time.Minute)
		r.fail(func(call) error { return errors.Join(&notThere{}) })
		settle(10 * time.Minute)
		if run.ended() {
			t.Error("ended by an error that came later")
		}
		if run.Live() == nil || run.Ready() == nil {
			t.Error("healthy without a receive for ten minutes")
		}
		r.fail(nil)
		settle(time.Minute)
		if err := run.Live(); err != nil {
			t.Error(err)
		}
	})
}

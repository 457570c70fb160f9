package pool_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagefleet/stagefleet/pkg/pool"
)

func TestStuckHandlerKeepsNoProtection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		s, free := &shield{}, make(chan struct{})
		r.run(pool.Config{Slots: 2, TimeLimit: time.Second, StuckAfter: time.Second, Protector: s, Handler: func(_ context.Context, m pool.Message) error {
			if m.Attempt == 1 {
				<-free
			}
			return nil
		}})
		r.send("hangs")
		settle(2*time.Second - 1)
		if _, inner := s.counts(); inner != 1 {
			t.Errorf("protected %d, want it until the handler is given up", inner)
		}
		settle(1)
		if _, inner := s.counts(); inner != 0 {
			t.Errorf("protected %d, want nobody: nothing of what the handler still does will count", inner)
		}
		settle(time.Minute)
		close(free)
		settle(time.Minute)
		if enters, inner := s.counts(); enters != 2 || inner != 0 {
			t.Errorf("entered %d times, %d inside, want each left once", enters, inner)
		}
	})
}

func TestPoolThatOnlyStuckHandlersAreLeftOfIsNotAlive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		free := make(chan struct{})
		run := r.run(pool.Config{Slots: 3, MaxStuck: 1, TimeLimit: time.Hour, StuckAfter: time.Second, Handler: func(_ context.Context, m pool.Message) error {
			if m.Body == "long" {
				pause(45 * time.Minute)
				return nil
			}
			<-free
			return nil
		}})
		r.send("hangs", "hangs too")
		settle(30 * time.Minute)
		r.send("long")
		settle(30*time.Minute + 2*time.Second)
		if st := run.Status(); st.Stuck != 2 || st.Running != 3 || st.Reason != "handlers_stuck" {
			t.Errorf("status %+v, want two stuck handlers, one more than may be replaced", st)
		}
		settle(14 * time.Minute)
		if err := run.Live(); err != nil {
			t.Errorf("not alive while one handler still works: %v", err)
		}
		settle(6 * time.Minute)
		if run.Live() == nil {
			t.Error("alive, though nothing runs and nothing will be received")
		}
		close(free)
		settle(time.Minute)
		if err := run.Live(); err != nil {
			t.Errorf("not alive after they returned: %v", err)
		}
	})
}

func TestStuckHandlersOfAFullPoolAreTheReasonThatIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		free := make(chan struct{})
		run := r.run(pool.Config{Slots: 1, TimeLimit: time.Second, StuckAfter: time.Second, Handler: func(context.Context, pool.Message) error {
			<-free
			return nil
		}})
		r.sendN(3)
		settle(time.Minute)
		if st := run.Status(); st.Stuck != 2 || st.Reason != "handlers_stuck" {
			t.Errorf("status %+v, want two stuck handlers to be the reason", st)
		}
		close(free)
		settle(time.Hour)
		r.wantCounts(0, 0, 0)
	})
}

func TestPermitOfAMessageThatTheStopAbandonsIsGivenBackOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		v := &valve{limit: 1}
		s := &shield{}
		r.send("a")
		r.fail(func(c call) error {
			if c.op == "delete" {
				return errHang
			}
			return nil
		})
		run := r.run(pool.Config{Slots: 1, Gates: []pool.Gate{v}, Protector: s})
		settle(time.Second)
		run.stop()
		<-run.done
		settle(time.Minute)
		v.mu.Lock()
		defer v.mu.Unlock()
		if v.out != 0 {
			t.Errorf("%d permits out, want none and none given back twice", v.out)
		}
		if _, inner := s.counts(); inner != 0 {
			t.Errorf("%d inside, want each left once", inner)
		}
	})
}

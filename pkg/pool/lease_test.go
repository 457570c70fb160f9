package pool_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagefleet/stagefleet/pkg/outcome"
	"github.com/stagefleet/stagefleet/pkg/pool"
)

func TestRecordsAreRenewedFirstInOneCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		b := newBook(30 * time.Second)
		r.run(pool.Config{Slots: 40, Ledger: b, Handler: sleeper(25 * time.Second)})
		r.sendN(37)
		settle(24 * time.Second)
		if !slices.Equal(b.sizes, []int{37, 37}) {
			t.Errorf("renewals of %v grants at %v, want two of all 37", b.sizes, b.renewals)
		}
	})
}

func TestLeaseThatCannotBeRenewedEndsTheHandlerBeforeItLapses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		b := newBook(30 * time.Second)
		h := &caused{start: r.start}
		run := r.run(pool.Config{Ledger: b, Slots: 1, Handler: h.handle})
		r.send("a")
		settle(11 * time.Second) // one good beat at 10 s
		b.with(func() { b.renewErr = errIll })
		settle(26*time.Second - 1)
		h.notYet(t)
		settle(1)
		h.want(t, outcome.ErrLeaseLost, 37*time.Second)
		if run.Status().Running != 0 {
			t.Error("still running")
		}
		settle(time.Second)
		if n := len(b.renewals); n < 9 { // 10, then 20 and every two seconds
			t.Errorf("renewals at %v, want retries within seconds", b.renewals)
		}
	})
}

func TestFailingVisibilityAloneDoesNotEndWorkThatTheRecordPermits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		b := newBook(30 * time.Second)
		c := &counter{}
		r.fail(failing("hide"))
		r.run(pool.Config{Ledger: b, Slots: 1, Middleware: []pool.Middleware{c.wrap}, Handler: sleeper(5 * time.Minute)})
		r.send("a")
		settle(10 * time.Minute)
		if p := b.only(); !p.done || c.total() != 1 {
			t.Errorf("record %+v after %d runs, want done in one", p, c.total())
		}
	})
}

func TestTakenWorkIsToldAtTheNextBeat(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{outcome.ErrLeaseLost, outcome.ErrSuperseded, outcome.ErrCancelled} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, "q", nil)
			b := newBook(30 * time.Second)
			h := &caused{start: r.start}
			r.run(pool.Config{Ledger: b, Handler: h.handle})
			r.send("a")
			settle(5 * time.Second)
			b.with(func() { b.only0().told = cause })
			settle(5 * time.Second)
			h.want(t, cause, 10*time.Second)
		})
	}
}

func TestLateOwnerChangesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		b := newBook(30 * time.Second)
		r.send("a")
		// The first worker hangs: it neither renews nor notices, and finishes two minutes later.
		r.run(pool.Config{Name: "hangs", Slots: 1, Ledger: &unrenewed{book: b}, StuckAfter: time.Hour, Handler: deaf(2 * time.Minute)})
		settle(time.Second)
		r.fail(failing("hide"))
		second := &counter{}
		r.run(pool.Config{Name: "second", Ledger: b, Middleware: []pool.Middleware{second.wrap}, Handler: sleeper(3 * time.Second)})
		settle(10 * time.Minute)
		if p := b.only(); !p.done || len(p.ends) != 1 || p.attempts != 1 || second.total() != 1 {
			t.Errorf("record %+v, %d runs of the second, want its result alone", p, second.total())
		}
		r.wantCounts(0, 0, 0)
	})
}

// unrenewed is a book whose renewals fail.
type unrenewed struct{ *book }

func (unrenewed) Renew(context.Context, []pool.Grant) ([]error, error) { return nil, errIll }

// only0 is the one page there is. It runs under the book's lock.
func (b *book) only0() *page {
	for _, p := range b.pages {
		return p
	}
	return nil
}

func TestEndIsRecordedInSpiteOfHiccups(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		b := newBook(30 * time.Second)
		b.closeErr = func(n int) error {
			if n < 5 {
				return errIll
			}
			return nil
		}
		c := &counter{}
		r.run(pool.Config{Ledger: b, Middleware: []pool.Middleware{c.wrap}})
		r.send("a")
		settle(time.Minute)
		if p := b.only(); !p.done || c.total() != 1 || b.closes != 5 {
			t.Errorf("record %+v, %d runs, %d closes", p, c.total(), b.closes)
		}
		r.wantCounts(0, 0, 0)
	})
}

func TestEndThatCannotBeRecordedIsGivenUpWithTheLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		b := newBook(30 * time.Second)
		b.closeErr = func(int) error { return errIll }
		run := r.run(pool.Config{Ledger: b, Slots: 1})
		r.send("a")
		settle(5 * time.Second)
		b.with(func() { b.renewErr = errIll })
		r.fail(failing("receive"))
		settle(25*time.Second + 5*time.Second)
		if run.Status().Held != 0 {
			t.Error("held beyond its lease")
		}
		n := b.closes
		settle(time.Hour)
		if b.closes != n {
			t.Error("closes after the lease")
		}
	})
}

func TestShortAnswerOfALedgerIsARenewalToRepeat(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		b := &brief{book: newBook(30 * time.Second)}
		r.run(pool.Config{Ledger: b, Handler: sleeper(15 * time.Second)})
		r.send("a")
		settle(14 * time.Second)
		if b.calls < 2 {
			t.Errorf("%d renewals, want a second within seconds", b.calls)
		}
	})
}

// brief is a book that answers its first renewal with nothing and its second with a doubt.
type brief struct {
	*book
	calls int
}

func (b *brief) Renew(ctx context.Context, grants []pool.Grant) ([]error, error) {
	b.calls++
	switch b.calls {
	case 1:
		return nil, nil
	case 2:
		return []error{errors.New("row locked")}, nil
	}
	return b.book.Renew(ctx, grants)
}

func TestHangingQueueKeepsNoRecordFromBeingRenewed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		r.sendN(400)
		b := newBook(30 * time.Second)
		c := &counter{}
		r.run(pool.Config{Slots: 400, Ledger: b, Middleware: []pool.Middleware{c.wrap}, Handler: sleeper(3 * time.Minute)})
		settle(5 * time.Second)
		r.fail(func(c call) error {
			if c.op != "hide" {
				return nil
			}
			return errHang
		})
		settle(2 * time.Minute)
		r.fail(nil)
		settle(10 * time.Minute)
		b.with(func() {
			for id, p := range b.pages {
				if !p.done || p.runs != 1 {
					t.Fatalf("record of %s is %+v, want done in one run", id, *p)
				}
			}
		})
	})
}

func TestWorkThatIsTakenOrLapsesBeforeItsHandlerStartsIsNotStarted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lease time.Duration
		told  error
		end   outcome.Kind
	}{
		"taken":      {30 * time.Second, outcome.ErrSuperseded, outcome.KindSuperseded},
		"cannot ask": {4500 * time.Millisecond, errors.New("row locked"), outcome.KindLost},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, "q", nil)
				b := newBook(c.lease)
				h := &caused{start: r.start}
				run := r.run(pool.Config{Ledger: b, Beat: time.Second, Protector: &shield{wait: 4 * time.Second}, Visibility: 30 * time.Second, Handler: h.handle})
				r.send("a")
				settle(500 * time.Millisecond)
				b.with(func() { b.only0().told = c.told })
				settle(4 * time.Second)
				p := b.only()
				if h.runs != 0 || len(p.ends) != 1 || p.ends[0] != c.end {
					t.Errorf("%d runs, ends %v, want no start and the end %s", h.runs, p.ends, c.end)
				}
				if st := run.Status(); st.Running != 0 || st.Held != 0 {
					t.Errorf("status %+v", st)
				}
			})
		})
	}
}

package job

import (
	"context"
	"fmt"
	"time"

	"github.com/stagefleet/stagefleet/pkg/internal/sqldb"
)

const (
	entryCharge    = "charge"
	entryRefund    = "refund"
	entryGrant     = "grant"
	entryRecovered = "recovered"
)

// settleAccount books the end of a job: one place in flight less and, if something is due, a refund that the unique
// entry makes happen once however often the job ends.
func (u *unit) settleAccount(j *jobRow) error {
	amount, err := u.dueBack(j)
	if err != nil {
		return err
	}
	if amount > 0 {
		n, err := u.entry(j, entryRefund, amount, j.Code)
		if err != nil {
			return err
		}
		amount *= n
	}
	if _, err := u.tx.Exec(u.ctx, q("job_ended"), j.Tenant, amount); err != nil {
		return fmt.Errorf("book the end of a job: %w", err)
	}
	return nil
}

// dueBack: nobody pays for a failure or a refusal, nor for a job that was stopped before anything ran.
func (u *unit) dueBack(j *jobRow) (int64, error) {
	switch j.State {
	case jobFailed, jobRefused:
		return j.Price, nil
	case jobCancelled, jobSuperseded:
		var ran int64
		if err := u.tx.One(u.ctx, q("job_has_attempts"), []any{j.ID}, &ran); err != nil {
			return 0, fmt.Errorf("count executions: %w", err)
		}
		if ran == 0 {
			return j.Price, nil
		}
	}
	return 0, nil
}

// entry adds a line to a job's account and reports 1, or 0 when there is one of this kind already.
func (u *unit) entry(j *jobRow, kind string, amount int64, note string) (int64, error) {
	n, err := u.tx.Exec(u.ctx, q("insert_entry"), u.newID(), j.Tenant, j.ID, kind, j.ID+"/"+kind, amount, note)
	if err != nil {
		return 0, fmt.Errorf("book a %s: %w", kind, err)
	}
	return n, nil
}

// charge is the admission: one guarded statement, and if it declines, a look at why.
func (u *unit) charge(sub Submission, job string) error {
	today := u.now / (24 * time.Hour).Microseconds()
	n, err := u.tx.Exec(u.ctx, q("admit"), sub.Tenant, sub.Price, today)
	if err != nil {
		return fmt.Errorf("admit: %w", err)
	}
	if n == 0 {
		return u.whyDeclined(sub, today)
	}
	_, err = u.entry(&jobRow{ID: job, Tenant: sub.Tenant}, entryCharge, -sub.Price, "")
	return err
}

// whyDeclined names the first reason in the order in which a submitter can do something about it: wait, then pay.
func (u *unit) whyDeclined(sub Submission, today int64) error {
	var a struct{ balance, unlimited, inFlight, maxInFlight, cap, day, spent int64 }
	err := u.tx.One(u.ctx, q("read_account"), []any{sub.Tenant}, &a.balance, &a.unlimited, &a.inFlight, &a.maxInFlight, &a.cap, &a.day, &a.spent)
	if err != nil {
		return fmt.Errorf("read account: %w", err)
	}
	if a.day != today {
		a.spent = 0
	}
	switch {
	case a.maxInFlight > 0 && a.inFlight >= a.maxInFlight:
		return &Refused{Reason: RefusedInFlight, RetryAfter: retrySoon}
	case a.cap > 0 && a.spent+sub.Price > a.cap:
		day := (24 * time.Hour).Microseconds()
		return &Refused{Reason: RefusedDailyCap, RetryAfter: micro(day - u.now%day)}
	}
	return &Refused{Reason: RefusedBalance}
}

func (u *unit) inFlight() (int64, error) {
	var n int64
	if err := u.tx.One(u.ctx, q("in_flight"), nil, &n); err != nil {
		return 0, fmt.Errorf("count jobs in flight: %w", err)
	}
	return n, nil
}

// hardLimit protects the store itself, so it is looked at before anything is locked and may be passed by a few.
func (s *Store) hardLimit(ctx context.Context) error {
	if s.opt.HardLimit == 0 {
		return nil
	}
	var n int64
	err := s.db.View(ctx, "hard_limit", func(tx *sqldb.Tx) error {
		return tx.One(ctx, q("in_flight"), nil, &n)
	})
	if err != nil {
		return fmt.Errorf("count jobs in flight: %w", err)
	}
	if n >= s.opt.HardLimit {
		return &Refused{Reason: RefusedCapacity, RetryAfter: retrySoon}
	}
	return nil
}

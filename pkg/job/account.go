package job

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/stagefleet/stagefleet/pkg/internal/envelope"
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
	if _, err := u.tx.Exec(u.ctx, q("job_ended"), j.Tenant, amount, flag(j.waited), today(born(j.ID))); err != nil {
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
	n, err := u.tx.Exec(u.ctx, q("insert_entry"), u.entryArgs(j, kind, amount, note)...)
	if err != nil {
		return 0, fmt.Errorf("book a %s: %w", kind, err)
	}
	return n, nil
}

func (u *unit) entryArgs(j *jobRow, kind string, amount int64, note string) []any {
	once := j.ID + "/" + kind
	if kind == entryRecovered { // may happen again
		once = fmt.Sprintf("%s/%d", once, j.Recovered)
	}
	return []any{u.newID(), j.Tenant, j.ID, kind, once, amount, note}
}

// charge is the admission: one guarded statement, and if it declines, a look at why. The entry goes with the job.
func (u *unit) charge(sub Submission) (load, error) {
	var l load
	err := u.tx.One(u.ctx, q("admit"), []any{sub.Tenant, sub.Price, today(u.now)}, &l.underWay, &l.waiting, &l.weight)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return l, u.whyDeclined(sub, today(u.now))
	case err != nil:
		return l, fmt.Errorf("admit: %w", err)
	}
	return l, nil
}

type accountRow struct{ balance, unlimited, inFlight, maxInFlight, cap, day, spent, waiting, weight int64 }

func (u *unit) readAccount(tenant string) (accountRow, error) {
	var a accountRow
	err := u.tx.One(u.ctx, q("read_account"), []any{tenant},
		&a.balance, &a.unlimited, &a.inFlight, &a.maxInFlight, &a.cap, &a.day, &a.spent, &a.waiting, &a.weight)
	if err != nil {
		err = fmt.Errorf("read account: %w", err)
	}
	return a, err
}

// whyDeclined names the first reason in the order in which a submitter can do something about it: wait, then pay.
func (u *unit) whyDeclined(sub Submission, day int64) error {
	a, err := u.readAccount(sub.Tenant)
	if err != nil {
		return err
	}
	if a.day != day {
		a.spent = 0
	}
	switch {
	case a.maxInFlight > 0 && a.inFlight >= a.maxInFlight:
		return &Refused{Reason: RefusedInFlight, RetryAfter: retrySoon}
	case a.cap > 0 && a.spent+sub.Price > a.cap:
		length := (24 * time.Hour).Microseconds()
		return &Refused{Reason: RefusedDailyCap, RetryAfter: micro(length - u.now%length)}
	}
	return &Refused{Reason: RefusedBalance}
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

// Account is what a tenant has and may do.
type Account struct {
	Tenant      string `json:"tenant"`
	Balance     int64  `json:"balance"`   // the sum of all entries
	Unlimited   bool   `json:"unlimited"` // the balance may go below zero
	InFlight    int64  `json:"in_flight"`
	Waiting     int64  `json:"waiting"`       // of those in flight: what waits for capacity
	MaxInFlight int64  `json:"max_in_flight"` // zero: no limit
	DailyCap    int64  `json:"daily_cap"`     // spent per UTC day; zero: no limit
	SpentToday  int64  `json:"spent_today"`
	Weight      int64  `json:"weight"` // its share beside other tenants, 1 to MaxWeight
}

// Declines returns why a job of this price would not be admitted, or nothing: what Submit refuses with.
func (a Account) Declines(price int64) string {
	switch {
	case a.MaxInFlight > 0 && a.InFlight >= a.MaxInFlight:
		return RefusedInFlight
	case a.DailyCap > 0 && a.SpentToday+price > a.DailyCap:
		return RefusedDailyCap
	case !a.Unlimited && a.Balance < price:
		return RefusedBalance
	}
	return ""
}

// Account returns a tenant's account, or ErrNotFound before its first job, limit or grant.
func (s *Store) Account(ctx context.Context, tenant string) (Account, error) {
	a := Account{Tenant: tenant}
	err := s.db.View(ctx, "account", func(tx *sqldb.Tx) error {
		var unlimited, day, now int64
		err := tx.One(ctx, q("read_account"), []any{tenant}, &a.Balance, &unlimited, &a.InFlight, &a.MaxInFlight, &a.DailyCap, &day, &a.SpentToday, &a.Waiting, &a.Weight)
		if err != nil {
			return err
		}
		a.Unlimited = unlimited == 1
		if err := tx.One(ctx, q("clock"), nil, &now); err != nil {
			return err
		}
		if day != today(now) {
			a.SpentToday = 0
		}
		return nil
	})
	if errors.Is(err, sql.ErrNoRows) {
		return Account{}, ErrNotFound
	}
	if err != nil {
		return Account{}, fmt.Errorf("read account: %w", err)
	}
	return a, nil
}

// MaxWeight bounds how many times the share of an ordinary tenant one may have.
const MaxWeight = 100

// SetLimits says what a tenant may do; of a only Tenant, Unlimited, MaxInFlight, DailyCap and Weight (zero means 1) are read.
func (s *Store) SetLimits(ctx context.Context, a Account, who string) error {
	a.Weight = cmp.Or(a.Weight, 1)
	if !envelope.ValidID(a.Tenant) || a.MaxInFlight < 0 || a.DailyCap < 0 || a.Weight < 1 || a.Weight > MaxWeight {
		return errLimits
	}
	return s.audited(ctx, who, "limit", a.Tenant, "", func(tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, q("set_limits"), a.Tenant, flag(a.Unlimited), a.MaxInFlight, a.DailyCap, a.Weight)
		return err
	})
}

// maxGrant keeps a balance, which is a sum of grants, within what a database counts.
const maxGrant = 1_000_000_000_000

// Grant adds to a tenant's balance, or takes from it when amount is negative. The same id grants once; false: it was known.
func (s *Store) Grant(ctx context.Context, tenant, id string, amount int64, who string) (bool, error) {
	if !envelope.ValidID(tenant) || !envelope.ValidID(id) {
		return false, &Invalid{"A grant's tenant and id must be 1 to 64 of a-z, A-Z, 0-9, dot, dash and underscore."}
	}
	if amount > maxGrant || amount < -maxGrant {
		return false, &Invalid{fmt.Sprintf("A grant is at most %d units, to either side.", int64(maxGrant))}
	}
	fresh := false
	err := s.audited(ctx, who, "grant", tenant, id, func(tx *sqldb.Tx) error {
		if _, err := tx.Exec(ctx, q("ensure_account"), tenant); err != nil {
			return err
		}
		n, err := tx.Exec(ctx, q("insert_entry"), newToken(), tenant, "", entryGrant, entryGrant+"/"+tenant+"/"+id, amount, "")
		if fresh = n == 1; err != nil || !fresh {
			return err
		}
		_, err = tx.Exec(ctx, q("add_balance"), tenant, amount)
		return err
	})
	return fresh, err
}

func today(now int64) int64 { return now / (24 * time.Hour).Microseconds() }

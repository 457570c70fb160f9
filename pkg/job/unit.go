package job

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stagefleet/stagefleet/pkg/internal/envelope"
	"github.com/stagefleet/stagefleet/pkg/internal/sqldb"
)

// unit is one transaction: it locks and reads rows, its methods decide on them in plain Go, and flush writes
// back what has changed, one statement for each table however many rows there are.
//
// Locks are taken in the order account, target, job, step. Accounts come first although only some endings need
// them, so a unit that finds out too late gives up with errNeedAccounts and is run again.
type unit struct {
	ctx      context.Context
	tx       *sqldb.Tx
	now      int64 // the database's clock, read after the locks were taken
	accounts bool  // are locked
	claims   bool  // the inputs of steps are read

	steps   map[string]*stepRow
	jobs    map[string]*jobRow
	targets map[string]*targetRow

	newSteps []newStep
	opened   []attemptRow
	closed   []closedRow
	outbox   []outboxRow
	ended    []*jobRow  // in this unit
	over     []*stepRow // have ended in this unit
	died     bool       // a step has: whether its job ends with it must be decided on the locked job
	token    string     // of the outbox rows that this unit leases to its committer
}

var (
	errNeedAccounts = errors.New("job: the accounts must be locked first")
	// errNeedDisk: more than a claim was decided. What is sent or settled because of it must not be forgotten.
	errNeedDisk = errors.New("job: the commit must wait for the disk")
)

type locking int

const (
	lockSteps   locking = iota // enough to claim
	lockAll                    // and their jobs and targets
	lockAllPaid                // and the accounts
)

// locks says what a unit locks before it decides.
type locks struct {
	level  locking
	steps  []string
	effect string // an await that the unit parks, locked before its step
	claims bool   // reads inputs; and if the machine fails, so do those who have claimed
}

// update runs decide on the locked steps. It may run several times; only the last one counts.
func (s *Store) update(ctx context.Context, name string, l locks, decide func(*unit) error) error {
	run, withMachine := s.db.Update, l.claims
	if withMachine {
		run = s.db.UpdateWithMachine
	}
	for {
		var u *unit
		err := run(ctx, name, func(tx *sqldb.Tx) (err error) {
			if u, err = newUnit(ctx, tx, l); err != nil {
				return err
			}
			if err := decide(u); err != nil {
				return err
			}
			if withMachine && (u.died || len(u.ended) > 0 || len(u.outbox) > 0) {
				return errNeedDisk
			}
			return u.flush()
		})
		switch {
		case errors.Is(err, errNeedDisk):
			withMachine, run = false, s.db.Update
		case errors.Is(err, errNeedAccounts) && l.level != lockAllPaid:
			l.level = lockAllPaid
		case err == nil:
			s.metrics.count(u)
			return nil
		default:
			return err
		}
	}
}

// updateAndHand is update for a unit whose messages the relay sends.
func (s *Store) updateAndHand(ctx context.Context, name string, l locks, decide func(*unit)) error {
	var rows []Outgoing
	err := s.update(ctx, name, l, func(u *unit) error {
		decide(u)
		rows = u.outgoing(0)
		return nil
	})
	if err == nil {
		s.hand(rows)
	}
	return err
}

// decide runs a unit that locks what it needs by itself, and hands its messages to the relay.
func (s *Store) decide(ctx context.Context, name string, do func(*unit) error) error {
	var u *unit
	err := s.db.Update(ctx, name, func(tx *sqldb.Tx) error {
		u = emptyUnit(ctx, tx)
		if err := do(u); err != nil {
			return err
		}
		return u.flush()
	})
	if err == nil {
		s.metrics.count(u)
		s.hand(u.outgoing(0))
	}
	return err
}

func emptyUnit(ctx context.Context, tx *sqldb.Tx) *unit {
	return &unit{ctx: ctx, tx: tx, steps: map[string]*stepRow{}, jobs: map[string]*jobRow{}, targets: map[string]*targetRow{}}
}

func newUnit(ctx context.Context, tx *sqldb.Tx, l locks) (*unit, error) {
	u := emptyUnit(ctx, tx)
	u.accounts, u.claims = l.level == lockAllPaid, l.claims
	if u.accounts {
		if _, err := tx.Exec(ctx, q("lock_accounts_of_steps"), sqldb.Rows(idRows(l.steps))); err != nil {
			return nil, fmt.Errorf("lock accounts: %w", err)
		}
	}
	if l.effect != "" {
		if _, _, err := u.lockAwait(l.effect); err != nil {
			return nil, err
		}
	}
	return u, u.load(l.level, l.steps)
}

// lockAccount comes before all other locks.
func (u *unit) lockAccount(tenant string) error {
	u.accounts = true
	if _, err := u.tx.Exec(u.ctx, q("lock_accounts"), sqldb.Rows([]idRow{{tenant}})); err != nil {
		return fmt.Errorf("lock an account: %w", err)
	}
	return nil
}

// lockAllText locks the jobs and the targets of steps too, and reads the same columns.
var lockAllText = strings.Replace(q("lock_steps"), "FOR UPDATE OF s", "FOR UPDATE OF t, j, s", 1)

// load locks and reads steps with their jobs and targets.
func (u *unit) load(l locking, ids []string) error {
	text := q("lock_steps")
	if l != lockSteps {
		text = lockAllText
	}
	if err := u.tx.Query(u.ctx, text, u.scan, sqldb.Rows(idRows(ids)), flag(u.claims)); err != nil {
		return fmt.Errorf("lock steps: %w", err)
	}
	if len(u.steps) > 0 {
		return nil
	}
	return u.tx.One(u.ctx, q("clock"), nil, &u.now)
}

func (u *unit) scan(scan func(...any) error) error {
	row := &struct {
		step, asRead stepRow
		job          jobRow
		target       targetRow
	}{}
	s, j, t := &row.step, &row.job, &row.target
	var now int64
	err := scan(&s.ID, &s.Job, &s.Tenant, &s.Stage, &s.Part, &s.Parent, &s.PartsLeft, &s.IsFirst, &s.IsJoin, &s.Queue, &s.DLQ, &s.FIFO,
		&s.State, &s.Code, &s.Sentence, &s.Emission, &s.EmittedAt, &s.NotBefore, &s.Token, &s.LeaseEnd, &s.Attempt,
		&s.Attempts, &s.Crashes, &s.Rounds, &s.Worker, &s.Input, &s.Event, &s.Trace, &s.EndedAt,
		&j.Target, &j.Version, &j.State, &j.Code, &j.Sentence, &j.GapsJSON, &j.Price, &j.Recovered, &j.EndedAt,
		&t.Name, &t.Latest, &t.Ingested, &t.Current, &t.CurJob, &now)
	if err != nil {
		return err
	}
	u.now = max(u.now, now)
	s.Phase = phaseOf(s.State)
	j.ID, j.Tenant, t.ID = s.Job, s.Tenant, j.Target
	s.target = keep(u.targets, t.ID, t)
	s.job = keep(u.jobs, j.ID, j)
	row.asRead, s.asRead = *s, &row.asRead
	keep(u.steps, s.ID, s)
	return nil
}

// keep adds a row unless an earlier load has read it: that one may have been changed since.
func keep[T any](rows map[string]*T, id string, row *T) *T {
	if known, ok := rows[id]; ok {
		return known
	}
	rows[id] = row
	return row
}

// loadJobs locks and reads every step of some jobs of targets that are locked already.
func (u *unit) loadJobs(ids []string) ([]*stepRow, error) {
	steps, err := u.list(q("steps_of_jobs"), sqldb.Rows(idRows(ids)))
	if err != nil {
		return nil, fmt.Errorf("list steps of jobs: %w", err)
	}
	if err := u.load(lockAll, steps); err != nil {
		return nil, err
	}
	rows := make([]*stepRow, 0, len(steps))
	for _, id := range steps {
		rows = append(rows, u.steps[id])
	}
	return rows, nil
}

// list reads one column of identifiers.
func (u *unit) list(text string, args ...any) ([]string, error) {
	var ids []string
	err := u.tx.Query(u.ctx, text, func(scan func(...any) error) error {
		var id string
		err := scan(&id)
		ids = append(ids, id)
		return err
	}, args...)
	return ids, err
}

// outboxToken leases every row of this unit: who has one of them has sent that one, and says so by its identifier.
func (u *unit) outboxToken() string {
	if u.token == "" {
		u.token = u.newID()
	}
	return u.token
}

func (u *unit) newID() string { return envelope.NewID(time.UnixMicro(u.now)) }

// flush writes everything that has changed, sorted by identifier.
func (u *unit) flush() error {
	if (u.died || len(u.ended) > 0) && !u.accounts {
		return errNeedAccounts
	}
	for _, j := range u.ended {
		if err := u.settleAccount(j); err != nil {
			return err
		}
	}
	targets := dirty(u.targets, func(t *targetRow) bool { return t.dirty })
	jobs := dirty(u.jobs, func(j *jobRow) bool { return j.dirty })
	saved, claimed, done := byChange(dirty(u.steps, func(s *stepRow) bool { return s.dirty }))
	var w writes
	add(&w, "save_targets", targets)
	add(&w, "save_jobs", jobs)
	add(&w, "save_steps", saved)
	add(&w, "claim_steps", claimed)
	add(&w, "finish_steps", done)
	add(&w, "insert_steps", u.newSteps)
	add(&w, "close_attempts", u.closed)
	add(&w, "insert_attempts", u.opened)
	add(&w, "insert_outbox", slices.DeleteFunc(u.outbox, func(r outboxRow) bool { return r.dropped }))
	if err := u.addHooks(&w); err != nil {
		return err
	}
	return w.run(u)
}

// writes are set-based statements that go to the database together.
type writes struct {
	names      []string
	statements []sqldb.Statement
	meant      []int64
}

func add[T any](w *writes, name string, rows []T) {
	if len(rows) == 0 {
		return
	}
	w.names = append(w.names, name)
	w.statements = append(w.statements, sqldb.Statement{Text: q(name), Args: []any{sqldb.Rows(rows)}})
	w.meant = append(w.meant, int64(len(rows)))
}

// anyNumber of rows may be changed by a statement that chooses by itself.
const anyNumber = -1

// run checks that every statement has changed as many rows as were meant.
func (w writes) run(u *unit) error {
	changed, err := u.tx.ExecAll(u.ctx, w.statements)
	if err != nil {
		return fmt.Errorf("write the unit: %w", err)
	}
	for i, n := range changed {
		if w.meant[i] != anyNumber && n != w.meant[i] {
			return fmt.Errorf("%s: %d rows changed, %d meant", w.names[i], n, w.meant[i])
		}
	}
	return nil
}

// dirty returns the rows that have changed, sorted by identifier.
func dirty[T any](rows map[string]*T, changed func(*T) bool) []*T {
	var ids []string
	for id, row := range rows {
		if changed(row) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	out := make([]*T, len(ids))
	for i, id := range ids {
		out[i] = rows[id]
	}
	return out
}

func sortedKeys[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }

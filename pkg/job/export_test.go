package job

import (
	"context"
	"errors"
	"time"

	"github.com/stagefleet/stagefleet/pkg/internal/sqldb"
)

// Handed returns what the store's own commits have left for its relay.
func (s *Store) Handed() []Outgoing {
	var all []Outgoing
	for {
		select {
		case rows := <-s.handed:
			all = append(all, rows...)
		default:
			return all
		}
	}
}

// Change runs a statement behind the store's back.
func (s *Store) Change(ctx context.Context, text string, args ...any) error {
	return s.db.Update(ctx, "test", func(tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, text, args...)
		return err
	})
}

// Inject lets commits fail.
func (s *Store) Inject(f sqldb.Fault) { s.db.Inject(f) }

// InDoubt is how many claims this process does not know the outcome of.
func (s *Store) InDoubt() int {
	s.doubts.mu.Lock()
	defer s.doubts.mu.Unlock()
	return len(s.doubts.waiting)
}

// Int reads one number behind the store's back.
func (s *Store) Int(ctx context.Context, text string, args ...any) (int64, error) {
	var n int64
	err := s.db.View(ctx, "test", func(tx *sqldb.Tx) error { return tx.One(ctx, text, args, &n) })
	return n, err
}

// Strings reads one column of text behind the store's back.
func (s *Store) Strings(ctx context.Context, text string, args ...any) ([]string, error) {
	var all []string
	err := s.db.View(ctx, "test", func(tx *sqldb.Tx) error {
		all = nil
		return tx.Query(ctx, text, func(scan func(...any) error) error {
			var v string
			err := scan(&v)
			all = append(all, v)
			return err
		}, args...)
	})
	return all, err
}

// Age moves every stored moment of leases, waits and outbox rows into the past.
func (s *Store) Age(ctx context.Context, d time.Duration) error {
	us := d.Microseconds()
	for _, text := range []string{
		"UPDATE step SET lease_until = lease_until - $1 WHERE lease_until > 0",
		"UPDATE step SET not_before = not_before - $1 WHERE not_before > 0",
		"UPDATE step SET emitted_at = emitted_at - $1",
		"UPDATE outbox SET ready_at = ready_at - $1, due_at = due_at - $1, not_before = not_before - $1",
		"UPDATE await SET deadline = deadline - $1 WHERE deadline > 0",
		"UPDATE attempt SET closed_at = closed_at - $1 WHERE closed_at > 0",
		"UPDATE webhook SET ready_at = ready_at - $1 WHERE ready_at > 0",
		"UPDATE webhook SET created_at = created_at - $1",
	} {
		if err := s.Change(ctx, text, us); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) RelayOnce(ctx context.Context, to Sender) error {
	rows, err := s.takeDue(ctx)
	if err != nil {
		return err
	}
	return s.Dispatch(ctx, to, rows)
}

func (s *Store) ReconcileOnce(ctx context.Context, c Counter, empty map[string]int) error {
	entered := s.Enter(ctx)
	uncounted, fault := s.reconcileOnce(ctx, c, empty)
	return errors.Join(entered, uncounted, fault)
}

// Enter lets in what there is room for.
func (s *Store) Enter(ctx context.Context) error { return s.enter(ctx) }

// EnterJobs is what a server does that has found room for n jobs.
func (s *Store) EnterJobs(ctx context.Context, tenant string, window, n int64) error {
	return s.enterJobsOf(ctx, tenant, window, n)
}

func (s *Store) MendAccounts(ctx context.Context) error { return s.mendAccounts(ctx) }

func (s *Store) Postgres() bool { return s.db.Postgres() }

// Statements gives the named SQL text to tests of plans.
func Statements() map[string]string { return statements }

// SplitStatements reads a file of SQL as the package reads its own.
func SplitStatements(text string) map[string]string {
	found := map[string]string{}
	splitStatements(text, found)
	return found
}

// Rows for the plans of statements that take some.
var (
	StepRows    = sqldb.Rows([]*stepRow{{ID: "s1"}, {ID: "s2"}})
	JobRows     = sqldb.Rows([]*jobRow{{ID: "j1"}})
	TargetRows  = sqldb.Rows([]*targetRow{{ID: "t1"}})
	ClosedRows  = sqldb.Rows([]closedRow{{ID: "a1"}})
	RenewalRows = sqldb.Rows([]renewalRow{{ID: "s1"}})
	SentRows    = sqldb.Rows([]tokenRow{{ID: "o1"}})
	NameRows    = sqldb.Rows([]nameRow{{Tenant: "acme", Name: "talk"}})
	AccountRows = sqldb.Rows([]idRow{{ID: "acme"}})
)

// Hold locks a step, its job and its target until let is closed.
func (s *Store) Hold(ctx context.Context, step string, locked chan<- struct{}, let <-chan struct{}) error {
	return s.update(ctx, "hold", locks{level: lockAll, steps: []string{step}}, func(*unit) error {
		close(locked)
		<-let
		return nil
	})
}

// HoldImport locks an import until let is closed.
func (s *Store) HoldImport(ctx context.Context, id string, locked chan<- struct{}, let <-chan struct{}) error {
	return s.db.Update(ctx, "hold", func(tx *sqldb.Tx) error {
		_, err := lockImport(ctx, tx, id)
		close(locked)
		<-let
		return err
	})
}

// HoldAwait locks an await until let is closed, and then takes in an event.
func (s *Store) HoldAwait(ctx context.Context, effect, event string, locked chan<- struct{}, let <-chan struct{}) error {
	return s.db.Update(ctx, "hold", func(tx *sqldb.Tx) error {
		if _, _, err := emptyUnit(ctx, tx).lockAwait(effect); err != nil {
			return err
		}
		close(locked)
		<-let
		_, err := tx.Exec(ctx, q("insert_event"), "p", event, effect, "{}")
		return err
	})
}

// Plan returns how the database would run a named statement.
func (s *Store) Plan(ctx context.Context, name string, args ...any) ([]string, error) {
	var lines []string
	err := s.db.View(ctx, "test", func(tx *sqldb.Tx) error {
		lines = nil
		explain := "EXPLAIN QUERY PLAN "
		if s.Postgres() {
			explain = "EXPLAIN "
		}
		return tx.Query(ctx, explain+q(name), func(scan func(...any) error) error {
			var line string
			var n int64
			err := scan(&line)
			if !s.Postgres() {
				err = scan(&n, &n, &n, &line)
			}
			lines = append(lines, line)
			return err
		}, args...)
	})
	return lines, err
}

// RepairFound is what follows when steps were found without a message.
func (s *Store) RepairFound(ctx context.Context, age time.Duration, steps ...string) (int, error) {
	return s.reissue(ctx, "repair", steps, restsSince(age))
}

// HoldHooks takes the webhooks that are due and keeps them locked until let is closed.
func (s *Store) HoldHooks(ctx context.Context, took chan<- int, let <-chan struct{}) error {
	return s.db.Update(ctx, "hold", func(tx *sqldb.Tx) error {
		n, err := tx.Exec(ctx, q("take_webhooks"), hookLease.Microseconds(), hooksOfTenant, 100, sqldb.Rows([]idRow{}))
		if err != nil {
			return err
		}
		took <- int(n)
		<-let
		return nil
	})
}

// ExpireAwait is what follows when an await was found overdue.
func (s *Store) ExpireAwait(ctx context.Context, effect string) error {
	return s.wake(ctx, "expire_await", effect, true, func(*unit) error { return nil })
}

func (s *Store) Forget(ctx context.Context) error { return s.forget(ctx) }

// SubmitTogether submits in one transaction.
func (s *Store) SubmitTogether(ctx context.Context, subs ...Submission) error {
	_, err := s.submitBatch(ctx, subs)
	return err
}

// ClaimTogether claims in one transaction. A claim that was refused is nil.
func (s *Store) ClaimTogether(ctx context.Context, rs ...ClaimRequest) ([]*Claim, error) {
	for i := range rs {
		rs[i].MaxCrashes, rs[i].token = DefaultMaxCrashes, newToken()
	}
	got, err := s.claimBatch(ctx, rs)
	claims := make([]*Claim, len(got))
	for i := range got {
		if got[i].refused == nil {
			claims[i] = &got[i].claim
		}
	}
	return claims, err
}

// PublishTogether publishes in one transaction.
func (s *Store) PublishTogether(ctx context.Context, ps ...Publication) ([]Published, error) {
	return s.publishBatch(ctx, lockAll, ps)
}

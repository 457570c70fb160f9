// Package sqldb opens SQLite and Postgres behind one text of SQL and one kind of transaction. It promises
// that a write transaction on SQLite holds the write lock before its function starts, that transient faults
// (serialization, deadlock, a busy file) are retried a bounded number of times, and that the clock is the
// database's. It knows nothing of jobs. Package job is its only caller in production.
package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// DefaultMaxConns bounds the Postgres connections of one process. SQLite has one writer and four readers.
const DefaultMaxConns = 10

// Options tunes Open. The zero value is usable.
type Options struct {
	MaxConns   int                   // Postgres only; zero means DefaultMaxConns
	Existing   bool                  // SQLite only: a file that is not there is an error (fs.ErrNotExist), and is not made
	Registerer prometheus.Registerer // nil: metrics are kept but not exported
}

// DB is an open database. Safe for concurrent use.
type DB struct {
	dialect dialect
	backend backend
	metrics *metrics
}

// backend is one of the two databases.
type backend interface {
	begin(ctx context.Context, m mode) (session, error)
	sqlDB() *sql.DB // for migrations
	migrating(ctx context.Context) (release func(), err error)
	stats() poolStats
	close() error
}

// session is one transaction.
type session interface {
	exec(ctx context.Context, all []Statement) ([]int64, error)
	query(ctx context.Context, st Statement) (rows, error)
	commit(ctx context.Context, last []Statement) error // in one round trip where there are any
	rollback()                                          // after a commit this does nothing; it always gives the connection back
}

type rows interface {
	Next() bool
	Scan(dest ...any) error
	Err() error
	Close()
}

type mode int

const (
	readOnly mode = iota
	durable
	relaxed
)

// Open connects to sqlite:PATH or to a postgres:// URL. Errors never repeat the URL: it may hold a password.
func Open(ctx context.Context, url string, opt Options) (*DB, error) {
	if opt.MaxConns == 0 {
		opt.MaxConns = DefaultMaxConns
	}
	db := &DB{metrics: newMetrics()}
	var err error
	switch {
	case strings.HasPrefix(url, "sqlite:"):
		db.dialect = sqlite
		db.backend, err = openSQLite(ctx, strings.TrimPrefix(url, "sqlite:"), opt.Existing)
	case strings.HasPrefix(url, "postgres://"), strings.HasPrefix(url, "postgresql://"):
		db.dialect = postgres
		db.backend, err = openPostgres(ctx, url, opt.MaxConns)
	default:
		err = errors.New("the URL must start with sqlite: or postgres://")
	}
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	if opt.Registerer != nil {
		if err := db.export(opt.Registerer); err != nil {
			return nil, errors.Join(fmt.Errorf("register database metrics: %w", err), db.Close())
		}
	}
	return db, nil
}

func (db *DB) export(r prometheus.Registerer) error {
	err := db.metrics.register(r, db.backend.stats)
	if pg, ok := db.backend.(*pgDB); ok && err == nil {
		err = r.Register(newLocks(pg.lockWaits))
	}
	return err
}

// Close waits for running transactions and closes every connection.
func (db *DB) Close() error { return db.backend.close() }

// Postgres reports which of the two databases this is, for tests and benchmarks.
func (db *DB) Postgres() bool { return db.dialect == postgres }

const (
	maxTries   = 12
	firstPause = time.Millisecond
	maxPause   = 100 * time.Millisecond
)

// Update runs fn in a write transaction and commits it when fn returns nil: a commit that returned nil survives
// power loss. fn may run again after a transient fault, so it starts from nothing each time, and it does no I/O
// but the transaction's. name labels metrics.
func (db *DB) Update(ctx context.Context, name string, fn func(*Tx) error) error {
	return db.retry(ctx, name, durable, fn)
}

// UpdateRelaxed is Update for what may be lost with the machine or with a crash of the database server, though not with a
// process of ours: it does not wait for the disk.
func (db *DB) UpdateRelaxed(ctx context.Context, name string, fn func(*Tx) error) error {
	return db.retry(ctx, name, relaxed, fn)
}

// UpdateWithMachine is Update for what may be lost with the machine if all of our processes are. On SQLite they are, so it does
// not wait for the disk; the next transaction that does takes this one along. Postgres serves other machines.
func (db *DB) UpdateWithMachine(ctx context.Context, name string, fn func(*Tx) error) error {
	m := durable
	if db.dialect == sqlite {
		m = relaxed
	}
	return db.retry(ctx, name, m, fn)
}

// View runs fn in a transaction that reads one snapshot and writes nothing.
func (db *DB) View(ctx context.Context, name string, fn func(*Tx) error) error {
	return db.retry(ctx, name, readOnly, fn)
}

func (db *DB) retry(ctx context.Context, name string, m mode, fn func(*Tx) error) error {
	pause := firstPause
	for try := 1; ; try++ {
		err := db.once(ctx, name, m, fn)
		if err == nil || try == maxTries || !Transient(err) {
			return named(err)
		}
		db.metrics.retries.WithLabelValues(name).Inc()
		if err := sleep(ctx, jitter(pause)); err != nil {
			return err
		}
		pause = min(2*pause, maxPause)
	}
}

func (db *DB) once(ctx context.Context, name string, m mode, fn func(*Tx) error) (err error) {
	asked := time.Now()
	s, err := db.backend.begin(ctx, m)
	if err != nil {
		return fmt.Errorf("begin %s: %w", name, err)
	}
	defer s.rollback()
	begun := time.Now()
	db.metrics.beginWait.Observe(begun.Sub(asked).Seconds())
	defer func() { db.metrics.observe(name, time.Since(begun), err) }()
	tx := &Tx{dialect: db.dialect, session: s}
	if err := fn(tx); err != nil {
		return err
	}
	if err := s.commit(ctx, tx.last); Transient(err) {
		return fmt.Errorf("commit %s: %w", name, err)
	} else if err != nil {
		return fmt.Errorf("commit %s: %w: %w", name, ErrUnknown, err)
	}
	return nil
}

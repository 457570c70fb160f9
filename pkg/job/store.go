package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagefleet/stagefleet/pkg/internal/sqldb"
)

// Options tunes a Store. The zero value is for a worker process.
type Options struct {
	Migrate    bool                  // bring the schema up to date first; otherwise an older schema is an error
	MaxConns   int                   // Postgres connections of this process; zero means 10
	SoftLimit  int64                 // with so many jobs in flight, further ones wait for capacity; zero: no limit
	HardLimit  int64                 // with so many, waiting ones included, further ones are refused; zero: no limit
	Registerer prometheus.Registerer // of the metrics; nil: not exported

	// Failed is told of every fault of the database that Relay and Reconcile wait out. It must not block. Nil: they are only counted.
	Failed func(error)

	ReconcileEvery time.Duration // zero means DefaultReconcileEvery
	QueueRetention time.Duration // how long queues keep a message; zero means DefaultQueueRetention
}

func (o Options) validate() error {
	switch {
	case o.ReconcileEvery < 0 || o.QueueRetention < 0:
		return fmt.Errorf("ReconcileEvery and QueueRetention are %v and %v, must be 0 or more", o.ReconcileEvery, o.QueueRetention)
	case o.MaxConns < 0:
		return fmt.Errorf("MaxConns is %d, must be 0 or more", o.MaxConns)
	case o.SoftLimit < 0 || o.HardLimit < 0:
		return fmt.Errorf("SoftLimit and HardLimit are %d and %d, must be 0 or more", o.SoftLimit, o.HardLimit)
	case o.HardLimit > 0 && o.SoftLimit > o.HardLimit:
		return fmt.Errorf("SoftLimit is %d, must not exceed HardLimit, %d", o.SoftLimit, o.HardLimit)
	}
	return nil
}

// ErrSchema means that the database has not been migrated to what this program needs.
var ErrSchema = errors.New("the database schema is older than this program: migrate it first")

// Store is the record. Safe for concurrent use by many goroutines, and by many processes on one database.
type Store struct {
	db  *sqldb.DB
	opt Options
	me  string // names this process in leases

	handed  chan []Outgoing // to this process's own relay
	leader  leadership
	metrics *metrics
	doubts  doubts

	submissions  batcher[Submission, submitted]
	claims       batcher[ClaimRequest, claimed]
	publications batcher[Publication, Published]
	marks        batcher[[]Outgoing, struct{}]
}

// Open connects to sqlite:PATH or postgres://... and checks the schema; ErrSchema when it is too old. Only with
// Migrate it makes the file of a path; else a missing one is fs.ErrNotExist.
func Open(ctx context.Context, url string, opt Options) (*Store, error) {
	if err := opt.validate(); err != nil {
		return nil, fmt.Errorf("open job store: %w", err)
	}
	opt.ReconcileEvery = cmp.Or(opt.ReconcileEvery, DefaultReconcileEvery)
	opt.QueueRetention = cmp.Or(opt.QueueRetention, DefaultQueueRetention)
	db, err := sqldb.Open(ctx, url, sqldb.Options{MaxConns: opt.MaxConns, Existing: !opt.Migrate, Registerer: opt.Registerer})
	if err != nil {
		return nil, err
	}
	s := &Store{db: db, opt: opt, me: newToken(), handed: make(chan []Outgoing, handedRows), metrics: newMetrics()}
	s.share()
	err = s.checkSchema(ctx)
	if err == nil && opt.Registerer != nil {
		err = s.metrics.register(opt.Registerer)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

// share sets up what requests that are due together share. Of what has two leaders on Postgres one may wait for a lock.
func (s *Store) share() {
	most, leaders := maxBatchLite, 1 // SQLite has one writer
	if s.db.Postgres() {
		most, leaders = maxBatch, 2
	}
	// Submissions queue for the accounts anyway.
	s.submissions = batcher[Submission, submitted]{run: s.submitBatch, most: maxBatchLite, leaders: 1}
	s.claims = batcher[ClaimRequest, claimed]{run: s.claimSurely, most: most, leaders: leaders, orphans: s.releaseOrphans}
	s.publications = batcher[Publication, Published]{run: func(ctx context.Context, ps []Publication) ([]Published, error) {
		return s.publishBatch(ctx, lockAll, ps)
	}, most: most, leaders: leaders}
	s.marks = batcher[[]Outgoing, struct{}]{run: s.markBatch, most: most, leaders: 1}
}

func (s *Store) checkSchema(ctx context.Context) error {
	if s.opt.Migrate {
		if _, err := s.db.Migrate(ctx, migrations()); err != nil || !s.db.Postgres() {
			return err
		}
		return s.db.Update(ctx, "tune", func(tx *sqldb.Tx) error {
			_, err := tx.ExecAll(ctx, []sqldb.Statement{{Text: q("tune_steps")}, {Text: q("tune_attempts")}})
			return err
		})
	}
	pending, err := s.db.Pending(ctx, migrations())
	if err != nil {
		return err
	}
	if pending {
		return ErrSchema
	}
	return nil
}

// Close waits for running transactions and closes the database.
func (s *Store) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), lastTime)
	defer cancel()
	_ = s.clearDoubts(ctx) // what fails now ends with its lease
	return s.db.Close()
}

// Ping reports whether the database takes a write: one that only reads, as a replica does or a full disk, would refuse every claim.
// Whoever has been told by Claim that it is ill pings before claiming again: that gives back what may have been claimed without an
// answer.
func (s *Store) Ping(ctx context.Context) error {
	err := s.db.UpdateRelaxed(ctx, "ping", func(tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, q("ping"), s.me)
		return err
	})
	if err != nil {
		return err
	}
	return s.clearDoubts(ctx)
}

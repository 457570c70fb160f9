package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
)

// sessionSettings are sent with the connection; the URL may say otherwise. The limits end what would hold locks for
// ever, so that a frozen process loses its transaction without its own help. The planner settings keep plans the same
// however small a table was when a statement was first prepared: every statement here goes by an index, and one planned
// for an empty table would read the whole of a full one until the next ANALYZE.
var sessionSettings = map[string]string{
	"idle_in_transaction_session_timeout": "10s",
	"lock_timeout":                        "3s",
	"statement_timeout":                   "20s",
	"enable_seqscan":                      "off",
	"enable_hashjoin":                     "off",
	"enable_mergejoin":                    "off",
	"plan_cache_mode":                     "force_generic_plan",
	"jit":                                 "off",
}

type pgDB struct {
	pool *pgxpool.Pool
	std  *sql.DB // for migrations, which take as long as they take
}

func openPostgres(ctx context.Context, url string, maxConns int) (backend, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, errors.New("the postgres URL cannot be parsed") // the parser's text may hold the password
	}
	cfg.MaxConns = int32(maxConns)
	cfg.AfterConnect = registerColumns
	for k, v := range sessionSettings {
		if _, set := cfg.ConnConfig.RuntimeParams[k]; !set {
			cfg.ConnConfig.RuntimeParams[k] = v
		}
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("connect: %w", err)
	}
	return &pgDB{pool: pool, std: forMigrations(cfg.ConnConfig.Copy())}, nil
}

// forMigrations has connections of its own: an index over a large table is not made within the limit of a statement.
func forMigrations(cfg *pgx.ConnConfig) *sql.DB {
	cfg.RuntimeParams["statement_timeout"] = "0"
	db := stdlib.OpenDB(*cfg)
	db.SetMaxIdleConns(0)
	return db
}

func (p *pgDB) sqlDB() *sql.DB { return p.std }

// migrating has nothing to do: goose takes an advisory lock.
func (p *pgDB) migrating(context.Context) (func(), error) { return func() {}, nil }

func (p *pgDB) stats() poolStats {
	s := p.pool.Stat()
	return poolStats{max: int(s.MaxConns()), busy: int(s.AcquiredConns())}
}

// lockWaits looks over a connection of its own: those of the pool may all be waiting for locks.
func (p *pgDB) lockWaits(ctx context.Context) (waiting int64, longest float64, err error) {
	conn, err := pgx.ConnectConfig(ctx, p.pool.Config().ConnConfig)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = conn.Close(ctx) }() // nothing is lost with it
	err = conn.QueryRow(ctx, `SELECT count(*), COALESCE(extract(epoch FROM clock_timestamp() - min(l.waitstart)), 0)::float8
		FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid WHERE NOT l.granted AND a.datname = current_database()`).Scan(&waiting, &longest)
	return waiting, longest, err
}

func (p *pgDB) close() error {
	err := p.std.Close()
	p.pool.Close()
	return err
}

func (p *pgDB) begin(ctx context.Context, m mode) (session, error) {
	conn, err := p.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	return &pgSession{conn: conn, begin: begins[m]}, nil
}

// Writers must see what others have committed while they waited for a lock, whatever the database's default is.
var begins = map[mode][]string{
	readOnly: {"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"},
	durable:  {"BEGIN ISOLATION LEVEL READ COMMITTED"},
	relaxed:  {"BEGIN ISOLATION LEVEL READ COMMITTED", "SET LOCAL synchronous_commit TO off"},
}

// pgSession sends its BEGIN together with the first statement: every round trip counts.
type pgSession struct {
	conn  *pgxpool.Conn
	begin []string // empty once it has been sent
	ended bool
}

// send queues the statements, after the BEGIN if that is still due. The server skips what follows a failed one.
func (s *pgSession) send(ctx context.Context, all []Statement) (pgx.BatchResults, error) {
	batch := &pgx.Batch{}
	for _, text := range s.begin {
		batch.Queue(text)
	}
	for _, st := range all {
		batch.Queue(st.Text, st.Args...)
	}
	results := s.conn.SendBatch(ctx, batch)
	for range s.begin {
		if _, err := results.Exec(); err != nil {
			return nil, errors.Join(err, results.Close())
		}
	}
	s.begin = nil
	return results, nil
}

func (s *pgSession) exec(ctx context.Context, all []Statement) ([]int64, error) {
	results, err := s.send(ctx, all)
	if err != nil {
		return nil, err
	}
	changed := make([]int64, len(all))
	for i := range all {
		tag, err := results.Exec()
		if err != nil {
			_ = results.Close() // the same error once more
			return nil, err
		}
		changed[i] = tag.RowsAffected()
	}
	return changed, results.Close()
}

func (s *pgSession) query(ctx context.Context, st Statement) (rows, error) {
	results, err := s.send(ctx, []Statement{st})
	if err != nil {
		return nil, err
	}
	r, err := results.Query()
	if err != nil {
		_ = results.Close() // the same error once more
		return nil, err
	}
	return pgRows{r, results}, nil
}

type pgRows struct {
	pgx.Rows
	results pgx.BatchResults
}

// Close hides the error of the batch, which Err has told already.
func (r pgRows) Close() {
	r.Rows.Close()
	_ = r.results.Close()
}

func (s *pgSession) commit(ctx context.Context, last []Statement) error {
	var tag pgconn.CommandTag
	var err error
	switch {
	case len(last) > 0:
		tag, err = s.commitWith(ctx, last)
	case s.begin == nil:
		tag, err = s.conn.Exec(ctx, "COMMIT")
	default: // nothing was sent
		s.done()
		return nil
	}
	if err != nil {
		return err
	}
	s.done()
	if tag.String() != "COMMIT" { // a statement's error was not passed on
		return errors.New("the transaction had failed and was rolled back")
	}
	return nil
}

func (s *pgSession) commitWith(ctx context.Context, last []Statement) (tag pgconn.CommandTag, err error) {
	results, err := s.send(ctx, append(last, Statement{Text: "COMMIT"}))
	if err != nil {
		return tag, err
	}
	for range len(last) + 1 {
		if tag, err = results.Exec(); err != nil {
			_ = results.Close() // the same error once more
			return tag, err
		}
	}
	return tag, results.Close()
}

// rollbackTime bounds a rollback, whose caller's time may be over. A server that keeps silent rolls back when it misses the client.
const rollbackTime = 2 * time.Second

func (s *pgSession) rollback() {
	if s.ended {
		return
	}
	if s.begin == nil {
		ctx, cancel := context.WithTimeout(context.Background(), rollbackTime)
		defer cancel()
		// It fails when the connection is gone, which has rolled back as well, or goes with the wait.
		_, _ = s.conn.Exec(ctx, "ROLLBACK")
	}
	s.done()
}

func (s *pgSession) done() {
	s.ended = true
	s.conn.Release()
}

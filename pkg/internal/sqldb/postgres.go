package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
)

// sessionLimits end what would otherwise hold locks for ever. They are sent with the connection, so a frozen
// process loses its transaction without its own help.
var sessionLimits = map[string]string{
	"idle_in_transaction_session_timeout": "10s",
	"lock_timeout":                        "3s",
	"statement_timeout":                   "20s",
}

type pgDB struct {
	pool *pgxpool.Pool
	std  *sql.DB
}

func openPostgres(ctx context.Context, url string, maxConns int) (backend, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, errors.New("the postgres URL cannot be parsed") // the parser's text may hold the password
	}
	cfg.MaxConns = int32(maxConns)
	for k, v := range sessionLimits {
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
	return &pgDB{pool: pool, std: stdlib.OpenDBFromPool(pool)}, nil
}

func (p *pgDB) sqlDB() *sql.DB { return p.std }

func (p *pgDB) stats() poolStats {
	s := p.pool.Stat()
	return poolStats{max: int(s.MaxConns()), busy: int(s.AcquiredConns())}
}

func (p *pgDB) close() error {
	err := p.std.Close()
	p.pool.Close()
	return err
}

func (p *pgDB) begin(ctx context.Context, m mode) (session, error) {
	opt := pgx.TxOptions{}
	if m == readOnly {
		opt.AccessMode = pgx.ReadOnly
	}
	tx, err := p.pool.BeginTx(ctx, opt)
	if err != nil {
		return nil, err
	}
	return pgSession{tx}, nil
}

type pgSession struct{ tx pgx.Tx }

func (s pgSession) exec(ctx context.Context, text string, args []any) (int64, error) {
	tag, err := s.tx.Exec(ctx, text, args...)
	return tag.RowsAffected(), err
}

func (s pgSession) query(ctx context.Context, text string, args []any) (rows, error) {
	return s.tx.Query(ctx, text, args...)
}

func (s pgSession) commit(ctx context.Context) error { return s.tx.Commit(ctx) }

func (s pgSession) rollback() {
	// It fails after a commit, and when the connection is gone, which has rolled back as well.
	_ = s.tx.Rollback(context.Background())
}

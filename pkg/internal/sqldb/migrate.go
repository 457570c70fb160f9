package sqldb

import (
	"context"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

// Migrate applies the numbered migrations of files that the database has not seen, each in its own transaction.
// Processes that migrate at the same time wait for one another. It returns the version reached.
func (db *DB) Migrate(ctx context.Context, files fs.FS) (int64, error) {
	p, err := db.provider(files)
	if err != nil {
		return 0, err
	}
	release, err := db.backend.migrating(ctx)
	if err != nil {
		return 0, err
	}
	defer release()
	if _, err := p.Up(ctx); err != nil {
		return 0, fmt.Errorf("migrate database: %w", err)
	}
	return p.GetDBVersion(ctx)
}

// Pending reports whether files hold migrations that the database has not seen. A database that is ahead of files is fine:
// migrations keep the previous release working.
func (db *DB) Pending(ctx context.Context, files fs.FS) (bool, error) {
	p, err := db.provider(files)
	if err != nil {
		return false, err
	}
	pending, err := p.HasPending(ctx)
	if err != nil {
		return false, fmt.Errorf("compare schema: %w", err)
	}
	return pending, nil
}

func (db *DB) provider(files fs.FS) (*goose.Provider, error) {
	dialect, opts := goose.DialectSQLite3, []goose.ProviderOption{goose.WithDisableGlobalRegistry(true)}
	if db.dialect == postgres {
		dialect = goose.DialectPostgres
		locker, err := lock.NewPostgresSessionLocker()
		if err != nil {
			return nil, err
		}
		opts = append(opts, goose.WithSessionLocker(locker))
	}
	p, err := goose.NewProvider(dialect, db.backend.sqlDB(), files, opts...)
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	return p, nil
}

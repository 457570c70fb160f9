package sqldb_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/goleak"

	"github.com/stagefleet/stagefleet/pkg/internal/sqldb"
	"github.com/stagefleet/stagefleet/pkg/internal/sqldb/sqldbtest"
)

var databases sqldbtest.Databases

func TestMain(m *testing.M) {
	code := databases.Run(m)
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// url returns the address of an empty database of a kind.
func url(t *testing.T, kind string) string { return databases.URL(t, kind) }

var files = fstest.MapFS{
	"00001_a.sql": {Data: []byte("-- +goose Up\nCREATE TABLE thing (id TEXT PRIMARY KEY, n BIGINT NOT NULL);\n")},
	"00002_b.sql": {Data: []byte("-- +goose Up\nALTER TABLE thing ADD COLUMN m BIGINT NOT NULL DEFAULT 0;\n")},
}

func open(t *testing.T, address string, opt sqldb.Options) *sqldb.DB {
	t.Helper()
	db, err := sqldb.Open(t.Context(), address, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return db
}

func onBoth(t *testing.T, test func(t *testing.T, db *sqldb.DB)) {
	for _, kind := range sqldbtest.Kinds {
		t.Run(kind, func(t *testing.T) {
			db := open(t, url(t, kind), sqldb.Options{})
			if v, err := db.Migrate(t.Context(), files); err != nil || v != 2 {
				t.Fatalf("migrate: version %d, %v", v, err)
			}
			test(t, db)
		})
	}
}

func insert(t *testing.T, db *sqldb.DB, id string, n int) {
	t.Helper()
	err := db.Update(t.Context(), "insert", func(tx *sqldb.Tx) error {
		changed, err := tx.Exec(t.Context(), "INSERT INTO thing (id, n) VALUES ($1, $2)", id, n)
		if err == nil && changed != 1 {
			err = fmt.Errorf("%d rows", changed)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func count(t *testing.T, db *sqldb.DB) int64 {
	t.Helper()
	var n int64
	err := db.View(t.Context(), "count", func(tx *sqldb.Tx) error {
		return tx.One(t.Context(), "SELECT COUNT(*) FROM thing", nil, &n)
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestAFailedFunctionUndoesItsTransaction(t *testing.T) {
	onBoth(t, func(t *testing.T, db *sqldb.DB) {
		insert(t, db, "kept", 1)
		boom := errors.New("boom")
		err := db.Update(t.Context(), "fail", func(tx *sqldb.Tx) error {
			if _, err := tx.Exec(t.Context(), "DELETE FROM thing"); err != nil {
				return err
			}
			return boom
		})
		if !errors.Is(err, boom) || count(t, db) != 1 {
			t.Fatalf("error %v, %d rows", err, count(t, db))
		}
	})
}

func TestAStatementThatGoesWithTheCommitFailsWithIt(t *testing.T) {
	onBoth(t, func(t *testing.T, db *sqldb.DB) {
		const text = "INSERT INTO thing (id, n) VALUES ($1, $2)"
		last := func(first bool, ids ...string) error {
			return db.Update(t.Context(), "last", func(tx *sqldb.Tx) error {
				for _, id := range ids {
					tx.ExecLast(text, id, 1)
				}
				if !first {
					return nil
				}
				_, err := tx.Exec(t.Context(), "DELETE FROM thing")
				return err
			})
		}
		if err := last(false, "a", "b"); err != nil || count(t, db) != 2 {
			t.Fatalf("error %v, %d rows, 2 are due", err, count(t, db))
		}
		if err := last(true, "c", "d"); err != nil || count(t, db) != 2 {
			t.Fatalf("error %v, %d rows, 2 are due after the deletion of 2 others", err, count(t, db))
		}
		if err := last(true, "e", "e"); err == nil || count(t, db) != 2 {
			t.Fatalf("error %v, %d rows, nothing may have changed", err, count(t, db))
		}
		boom := errors.New("boom")
		err := db.Update(t.Context(), "fail", func(tx *sqldb.Tx) error {
			tx.ExecLast(text, "f", 1)
			return boom
		})
		if !errors.Is(err, boom) || count(t, db) != 2 {
			t.Fatalf("error %v, %d rows, what was due with the commit may not run without it", err, count(t, db))
		}
	})
}

func TestAFullDiskIsKnownByItsName(t *testing.T) {
	db := open(t, url(t, "sqlite"), sqldb.Options{})
	if _, err := db.Migrate(t.Context(), files); err != nil {
		t.Fatal(err)
	}
	err := db.Update(t.Context(), "test", func(tx *sqldb.Tx) error {
		if _, err := tx.Exec(t.Context(), "PRAGMA max_page_count = 1"); err != nil {
			return err
		}
		_, err := tx.Exec(t.Context(), "INSERT INTO thing (id, n) VALUES ($1, 1)", strings.Repeat("x", 1<<20))
		return err
	})
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("error %v", err)
	}
}

func TestAPanicUndoesItsTransactionAndFreesItsConnection(t *testing.T) {
	onBoth(t, func(t *testing.T, db *sqldb.DB) {
		func() {
			defer func() { _ = recover() }()
			_ = db.Update(t.Context(), "panic", func(tx *sqldb.Tx) error {
				_, _ = tx.Exec(t.Context(), "INSERT INTO thing (id, n) VALUES ('x', 1)")
				panic("boom")
			})
		}()
		insert(t, db, "after", 1)
		if n := count(t, db); n != 1 {
			t.Fatalf("%d rows", n)
		}
	})
}

func TestTheMacrosMeanTheSameOnBoth(t *testing.T) {
	onBoth(t, func(t *testing.T, db *sqldb.DB) {
		for i, id := range []string{"a", "b", "c"} {
			insert(t, db, id, i)
		}
		type row struct {
			ID string `json:"id"`
			N  int64  `json:"n"`
		}
		rows := sqldb.Rows([]row{{"a", 10}, {"c", 30}})
		var changed []int64
		var sum, now int64
		err := db.Update(t.Context(), "macros", func(tx *sqldb.Tx) error {
			var err error
			changed, err = tx.ExecAll(t.Context(), []sqldb.Statement{
				{Text: "UPDATE thing SET n = r.n FROM records($1: id text, n bigint) r WHERE thing.id = r.id", Args: []any{rows}},
				{Text: "UPDATE thing SET m = 1 WHERE id IN ids($1)", Args: []any{rows}},
				{Text: "INSERT INTO thing (id, n) SELECT r.id || '2', 5 FROM records($1: id text) r", Args: []any{rows}},
			})
			if err != nil {
				return err
			}
			return tx.One(t.Context(), "SELECT CAST(SUM(n) AS BIGINT), now_us() FROM thing", nil, &sum, &now)
		})
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(changed) != "[2 2 2]" || sum != 10+1+30+5+5 {
			t.Fatalf("changed %v, sum %d", changed, sum)
		}
		if d := time.Since(time.UnixMicro(now)).Abs(); d > time.Minute {
			t.Fatalf("the clock is %v off", d)
		}
	})
}

func TestRowLocksAreTakenOrNeedless(t *testing.T) {
	onBoth(t, func(t *testing.T, db *sqldb.DB) {
		insert(t, db, "a", 0)
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				err := db.Update(t.Context(), "count up", func(tx *sqldb.Tx) error {
					var n int64
					if err := tx.One(t.Context(), "SELECT n FROM thing WHERE id = 'a' FOR UPDATE", nil, &n); err != nil {
						return err
					}
					_, err := tx.Exec(t.Context(), "UPDATE thing SET n = $1 WHERE id = 'a'", n+1)
					return err
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		var n int64
		err := db.View(t.Context(), "read", func(tx *sqldb.Tx) error {
			return tx.One(t.Context(), "SELECT n FROM thing WHERE id = 'a'", nil, &n)
		})
		if err != nil || n != 20 {
			t.Fatalf("counted to %d, %v", n, err)
		}
	})
}

// unsent is how the driver says that a connection had died before a byte of the statement was sent.
type unsent struct{}

func (unsent) Error() string     { return "write failed" }
func (unsent) SafeToRetry() bool { return true }

func TestTransientFaultsAreTriedAgainAndOthersAreNot(t *testing.T) {
	onBoth(t, func(t *testing.T, db *sqldb.DB) {
		for _, test := range []struct {
			err  error
			want int
		}{
			{&pgconn.PgError{Code: "40001"}, 12}, {&pgconn.PgError{Code: "40P01"}, 12}, {&pgconn.PgError{Code: "55P03"}, 12},
			{unsent{}, 12}, {fmt.Errorf("commit: %w: %w", sqldb.ErrUnknown, unsent{}), 1},
			{&pgconn.PgError{Code: "23505"}, 1}, {errors.New("other"), 1},
		} {
			tries := 0
			err := db.Update(t.Context(), "stumble", func(*sqldb.Tx) error {
				tries++
				return test.err
			})
			if !errors.Is(err, test.err) || tries != test.want {
				t.Errorf("%v: %d tries, want %d; returned %v", test.err, tries, test.want, err)
			}
		}
	})
}

func TestAWaitingWriterGivesUpWithItsContext(t *testing.T) {
	address := url(t, "sqlite")
	a, b := open(t, address, sqldb.Options{}), open(t, address, sqldb.Options{})
	holding, let := make(chan struct{}), make(chan struct{})
	held := make(chan error, 1)
	go func() {
		held <- a.Update(context.WithoutCancel(t.Context()), "hold", func(*sqldb.Tx) error {
			close(holding)
			<-let
			return nil
		})
	}()
	<-holding
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := b.Update(ctx, "wait", func(*sqldb.Tx) error { return nil })
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want the context's", err)
	}
	close(let)
	if err := <-held; err != nil {
		t.Fatal(err)
	}
	if err := b.Update(t.Context(), "write", func(*sqldb.Tx) error { return nil }); err != nil {
		t.Fatal(err)
	}
}

func TestNothingFoundIsSaid(t *testing.T) {
	onBoth(t, func(t *testing.T, db *sqldb.DB) {
		err := db.View(t.Context(), "none", func(tx *sqldb.Tx) error {
			var n int64
			return tx.One(t.Context(), "SELECT n FROM thing WHERE id = $1", []any{"nobody"}, &n)
		})
		if !errors.Is(err, sql.ErrNoRows) {
			t.Fatalf("error %v, want sql.ErrNoRows", err)
		}
	})
}

func TestAnOlderProgramWorksWithANewerSchema(t *testing.T) {
	onBoth(t, func(t *testing.T, db *sqldb.DB) {
		older := fstest.MapFS{"00001_a.sql": files["00001_a.sql"]}
		if pending, err := db.Pending(t.Context(), older); err != nil || pending {
			t.Fatalf("pending %v, %v", pending, err)
		}
		newer := fstest.MapFS{"00003_c.sql": {Data: []byte("-- +goose Up\nCREATE TABLE more (id TEXT);\n")}}
		for name, f := range files {
			newer[name] = f
		}
		if pending, err := db.Pending(t.Context(), newer); err != nil || !pending {
			t.Fatalf("pending %v, %v", pending, err)
		}
	})
}

func TestProcessesThatMigrateAtOnceAllSucceed(t *testing.T) {
	for _, kind := range sqldbtest.Kinds {
		t.Run(kind, func(t *testing.T) {
			address := url(t, kind)
			var all sync.WaitGroup
			for range 4 {
				db := open(t, address, sqldb.Options{})
				all.Go(func() {
					if v, err := db.Migrate(t.Context(), files); err != nil || v != 2 {
						t.Errorf("version %d, %v", v, err)
					}
				})
			}
			all.Wait()
		})
	}
}

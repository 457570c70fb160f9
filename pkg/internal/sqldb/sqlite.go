package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	lite "modernc.org/sqlite"
)

const (
	liteReaders = 4
	// liteBusy is how long one statement waits for SQLite's own locks; the writers' queue comes before it.
	liteBusy = 5 * time.Second
	// liteCheckpoint is after how many pages of the log a committer moves them into the file. The default, 1,000, makes one
	// transaction of about a hundred wait for that; this one of about a thousand.
	liteCheckpoint = 8000
)

func init() {
	lite.MustRegisterScalarFunction("now_us", 0, func(*lite.FunctionContext, []driver.Value) (driver.Value, error) {
		return time.Now().UnixMicro(), nil
	})
}

// liteDB is one file: a single writing connection, because SQLite has a single write lock, and some that read.
type liteDB struct {
	db      *sql.DB
	writer  chan *liteConn
	readers chan *liteConn
	queue   *writerQueue
}

// liteConn is a connection with the statements it has prepared.
type liteConn struct {
	conn    *sql.Conn
	stmts   map[string]*sql.Stmt
	relaxed bool
}

func openSQLite(ctx context.Context, path string, existing bool) (backend, error) {
	if existing {
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("its file, which a migration makes: %w", errors.Unwrap(err))
		}
	}
	q := url.Values{"_pragma": {
		fmt.Sprintf("busy_timeout(%d)", liteBusy.Milliseconds()), "journal_mode(WAL)", "synchronous(FULL)",
		"temp_store(MEMORY)", "cache_size(-8000)",
		fmt.Sprintf("wal_autocheckpoint(%d)", liteCheckpoint),
	}}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+q.Encode())
	if err != nil {
		return nil, err
	}
	l := &liteDB{db: db, writer: make(chan *liteConn, 1), readers: make(chan *liteConn, liteReaders)}
	if err := l.connect(ctx, path); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return l, nil
}

func (l *liteDB) connect(ctx context.Context, path string) error {
	var err error
	if l.queue, err = openWriterQueue(path + "-queue"); err != nil {
		return err
	}
	for i := range liteReaders + 1 {
		conn, err := l.db.Conn(ctx)
		if err != nil {
			return err
		}
		c := &liteConn{conn: conn, stmts: map[string]*sql.Stmt{}}
		if i == 0 {
			l.writer <- c
		} else {
			l.readers <- c
		}
	}
	return nil
}

func (l *liteDB) sqlDB() *sql.DB { return l.db }

// migrating keeps the other writers waiting: goose's own connection knows nothing of the queue.
func (l *liteDB) migrating(ctx context.Context) (func(), error) {
	select {
	case c := <-l.writer:
		release, err := l.queue.acquire(ctx)
		if err != nil {
			l.writer <- c
			return nil, err
		}
		return func() { release(); l.writer <- c }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (l *liteDB) stats() poolStats {
	busy := 1 + liteReaders - len(l.writer) - len(l.readers)
	return poolStats{max: 1 + liteReaders, busy: busy}
}

func (l *liteDB) close() error {
	var errs []error
	for i := range liteReaders + 1 {
		pool := l.readers
		if i == 0 {
			pool = l.writer
		}
		c := <-pool
		for _, s := range c.stmts {
			errs = append(errs, s.Close())
		}
		errs = append(errs, c.conn.Close())
	}
	return errors.Join(append(errs, l.db.Close(), l.queue.close())...)
}

func (l *liteDB) begin(ctx context.Context, m mode) (session, error) {
	s := &liteSession{pool: l.readers, release: func() {}}
	begin := "BEGIN"
	if m != readOnly {
		s.pool, begin = l.writer, "BEGIN IMMEDIATE"
	}
	select {
	case s.c = <-s.pool:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if m != readOnly {
		release, err := l.queue.acquire(ctx)
		if err != nil {
			s.pool <- s.c
			return nil, err
		}
		s.release = release
	}
	if err := s.start(ctx, begin, m == relaxed); err != nil {
		s.done()
		return nil, err
	}
	return s, nil
}

// liteSession runs its statements without the caller's cancellation: they take microseconds, and an interrupt
// in the middle of a commit would leave its outcome unknown.
type liteSession struct {
	c       *liteConn
	pool    chan *liteConn
	release func()
	ended   bool
}

func (s *liteSession) start(ctx context.Context, begin string, relaxed bool) error {
	if s.c.relaxed != relaxed {
		level := "PRAGMA synchronous=FULL"
		if relaxed {
			level = "PRAGMA synchronous=NORMAL"
		}
		if _, err := s.run(ctx, level, nil); err != nil {
			return err
		}
		s.c.relaxed = relaxed
	}
	_, err := s.run(ctx, begin, nil)
	return err
}

func (s *liteSession) stmt(ctx context.Context, text string) (*sql.Stmt, error) {
	if st, ok := s.c.stmts[text]; ok {
		return st, nil
	}
	st, err := s.c.conn.PrepareContext(context.WithoutCancel(ctx), text)
	if err != nil {
		return nil, err
	}
	s.c.stmts[text] = st
	return st, nil
}

func (s *liteSession) exec(ctx context.Context, all []Statement) ([]int64, error) {
	changed := make([]int64, len(all))
	for i, st := range all {
		var err error
		if changed[i], err = s.run(ctx, st.Text, st.Args); err != nil {
			return nil, err
		}
	}
	return changed, nil
}

func (s *liteSession) run(ctx context.Context, text string, args []any) (int64, error) {
	st, err := s.stmt(ctx, text) //nolint:sqlclosecheck // the connection keeps its statements
	if err != nil {
		return 0, err
	}
	res, err := st.ExecContext(context.WithoutCancel(ctx), args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

func (s *liteSession) query(ctx context.Context, q Statement) (rows, error) {
	st, err := s.stmt(ctx, q.Text) //nolint:sqlclosecheck // the connection keeps its statements
	if err != nil {
		return nil, err
	}
	r, err := st.QueryContext(context.WithoutCancel(ctx), q.Args...) //nolint:rowserrcheck // Tx.Query asks
	if err != nil {
		return nil, err
	}
	return liteRows{r}, nil
}

func (s *liteSession) commit(ctx context.Context, last []Statement) error {
	if _, err := s.exec(ctx, append(last, Statement{Text: "COMMIT"})); err != nil {
		return err
	}
	s.done()
	return nil
}

func (s *liteSession) rollback() {
	if s.ended {
		return
	}
	// It fails only when SQLite has already rolled back by itself.
	_, _ = s.run(context.Background(), "ROLLBACK", nil)
	s.done()
}

func (s *liteSession) done() {
	s.ended = true
	s.release()
	s.pool <- s.c
}

type liteRows struct{ *sql.Rows }

// Close hides the error of sql.Rows.Close, which Err has told already.
func (r liteRows) Close() { _ = r.Rows.Close() }

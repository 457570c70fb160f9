package sqldb

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"
)

// Tx runs statements of the common SQL text: $1 placeholders, now_us() for the database's clock in
// microseconds since 1970, records($1: id text, n bigint) r for Rows as a table, IN ids($1) for their column id, and
// Postgres's row locks, which SQLite's single writer makes needless, and SQLite's INDEXED BY, for what Postgres's statistics
// tell it. For one goroutine.
type Tx struct {
	dialect dialect
	session session
	last    []Statement
}

// Statement is a text of the common SQL with its arguments.
type Statement struct {
	Text string
	Args []any
}

// Exec runs a statement and returns the number of rows it changed.
func (tx *Tx) Exec(ctx context.Context, text string, args ...any) (int64, error) {
	changed, err := tx.ExecAll(ctx, []Statement{{text, args}})
	if err != nil {
		return 0, err
	}
	return changed[0], nil
}

// ExecLast runs a statement when the function has returned, together with the commit: nobody hears how many rows it changed.
func (tx *Tx) ExecLast(text string, args ...any) {
	tx.last = append(tx.last, tx.runs(Statement{text, args})...)
}

// ExecAll runs statements in order, in one round trip where there are any, and returns how many rows each changed.
func (tx *Tx) ExecAll(ctx context.Context, all []Statement) ([]int64, error) {
	var runs []Statement
	var of []int // the statement that a run belongs to
	for i, st := range all {
		for _, run := range tx.runs(st) {
			runs, of = append(runs, run), append(of, i)
		}
	}
	changed := make([]int64, len(all))
	if len(runs) == 0 {
		return changed, nil
	}
	each, err := tx.session.exec(ctx, runs)
	if err != nil {
		return nil, err
	}
	for i, n := range each {
		changed[of[i]] += n
	}
	return changed, nil
}

// runs is a statement in the dialect, as often as it must run.
func (tx *Tx) runs(st Statement) []Statement {
	t := tx.dialect.translate(st.Text)
	bound := t.bind(st.Args)
	runs := make([]Statement, len(bound))
	for i, args := range bound {
		runs[i] = Statement{t.text, args}
	}
	return runs
}

// Query runs a statement and calls each for every row; scan reads the row's columns.
func (tx *Tx) Query(ctx context.Context, text string, each func(scan func(...any) error) error, args ...any) error {
	for _, run := range tx.runs(Statement{text, args}) {
		if err := tx.query(ctx, run, each); err != nil {
			return err
		}
	}
	return nil
}

func (tx *Tx) query(ctx context.Context, st Statement, each func(scan func(...any) error) error) error {
	rows, err := tx.session.query(ctx, st)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// One reads a single row into dest; sql.ErrNoRows when there is none.
func (tx *Tx) One(ctx context.Context, text string, args []any, dest ...any) error {
	found := false
	err := tx.Query(ctx, text, func(scan func(...any) error) error {
		found = true
		return scan(dest...)
	}, args...)
	if err == nil && !found {
		return sql.ErrNoRows
	}
	return err
}

// Text encodes a value as JSON that is stored as text. It panics on values that JSON cannot hold: those are bugs.
func Text(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("sqldb: encode: %v", err))
	}
	return string(raw)
}

func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d) }

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

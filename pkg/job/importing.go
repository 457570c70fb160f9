package job

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/stagefleet/stagefleet/pkg/internal/sqldb"
)

// What follows is for whoever carries imports out. Any of it may be done twice: a row is stored once and settled once.

// ErrRowSettled means that a row of an import has been refused, as by the import's cancellation, and makes no job any more.
var ErrRowSettled = errors.New("the row of the import has been settled")

// OpenImport is an import that has not ended.
type OpenImport struct {
	ID, Tenant, Object, Folder string
	Webhook                    string // of every job
	State                      ImportState
}

// OpenImports returns the oldest import of every tenant that has not ended: a tenant's imports are carried out one after the other.
func (s *Store) OpenImports(ctx context.Context) ([]OpenImport, error) {
	var all []OpenImport
	err := s.db.View(ctx, "open_imports", func(tx *sqldb.Tx) error {
		all = nil
		return tx.Query(ctx, q("open_imports"), func(scan func(...any) error) error {
			var o OpenImport
			err := scan(&o.ID, &o.Tenant, &o.State, &o.Object, &o.Folder, &o.Webhook)
			all = append(all, o)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list open imports: %w", err)
	}
	return all, nil
}

// StoreRows keeps rows of a sheet that is being read, pending or refused; rows that are known are passed over.
func (s *Store) StoreRows(ctx context.Context, id string, rows []ImportRow) error {
	states := map[string][]importRowJSON{}
	for _, r := range rows {
		input, err := json.Marshal(r.Cells)
		if err != nil {
			return fmt.Errorf("encode a row: %w", err)
		}
		row := importRowJSON{Sheet: r.Sheet, Number: r.Number, State: r.State, Input: string(input), Column: r.Column, Kind: r.Kind}
		if r.Reason != nil {
			row.Code, row.Sentence = r.Reason.Code, r.Reason.Sentence
		}
		states[r.State] = append(states[r.State], row)
	}
	return s.onImport(ctx, "store_rows", id, ImportPending, func(tx *sqldb.Tx) error {
		var fresh [2]int64
		for i, state := range []string{RowPending, RowRefused} {
			if len(states[state]) == 0 {
				continue
			}
			n, err := tx.Exec(ctx, q("insert_import_rows"), id, sqldb.Rows(states[state]))
			if err != nil {
				return err
			}
			fresh[i] = n
		}
		_, err := tx.Exec(ctx, q("add_import_rows"), id, fresh[0]+fresh[1], fresh[1])
		return err
	})
}

// onImport changes an import that is in a state. ErrEnded when it is in another one.
func (s *Store) onImport(ctx context.Context, name, id string, want ImportState, change func(*sqldb.Tx) error) error {
	err := s.db.Update(ctx, name, func(tx *sqldb.Tx) error {
		state, err := lockImport(ctx, tx, id)
		if err == nil && state != want {
			err = ErrEnded
		}
		if err != nil {
			return err
		}
		return change(tx)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// RowsRead says that all rows have been stored: they may become jobs now.
func (s *Store) RowsRead(ctx context.Context, id, format, notice string) error {
	return s.onImport(ctx, "import_read", id, ImportPending, func(tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, q("import_read"), id, format, notice)
		return err
	})
}

// FailImport ends an import whose sheet cannot be read. Its rows are forgotten.
func (s *Store) FailImport(ctx context.Context, id, code, sentence string) error {
	return s.onImport(ctx, "fail_import", id, ImportPending, func(tx *sqldb.Tx) error {
		if _, err := tx.Exec(ctx, q("drop_import_rows"), id); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, q("fail_import"), id, code, sentence)
		return err
	})
}

// PendingRows returns the next rows that are to become jobs, at most limit, those that were not tried yet first; when none is due,
// how long it is until one is, and 0 when none is left.
func (s *Store) PendingRows(ctx context.Context, id string, limit int) ([]ImportRow, time.Duration, error) {
	var rows []ImportRow
	var next int64
	err := s.db.View(ctx, "pending_rows", func(tx *sqldb.Tx) error {
		var err error
		if rows, err = readRows(ctx, tx, "pending_rows", id, limit); err != nil || len(rows) > 0 {
			return err
		}
		err = tx.One(ctx, q("next_row"), []any{id}, &next)
		if errors.Is(err, sql.ErrNoRows) {
			next = 0
			return nil
		}
		next = max(next, 1) // it has become due since
		return err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("list pending rows: %w", err)
	}
	return rows, time.Duration(next) * time.Microsecond, nil
}

// PostponeRow counts a try that failed; the row is due again after wait.
func (s *Store) PostponeRow(ctx context.Context, row RowRef, wait time.Duration) error {
	err := s.db.UpdateRelaxed(ctx, "postpone_row", func(tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, q("postpone_row"), row.Import, row.Sheet, row.Number, wait.Microseconds())
		return err
	})
	if err != nil {
		return fmt.Errorf("postpone a row: %w", err)
	}
	return nil
}

// Copied notes that an object is about to appear under a folder of its own, for a row of an import. Unless a job takes it, it is
// garbage some time after the import's end.
func (s *Store) Copied(ctx context.Context, folder, id string) error {
	err := s.db.UpdateRelaxed(ctx, "copied", func(tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, q("add_import_upload"), folder, id)
		return err
	})
	if err != nil {
		return fmt.Errorf("note a copy: %w", err)
	}
	return nil
}

// NoteSource keeps what a row's source has become, so that it need not be fetched again; nil forgets it.
func (s *Store) NoteSource(ctx context.Context, row RowRef, source json.RawMessage) error {
	err := s.db.UpdateRelaxed(ctx, "row_source", func(tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, q("row_source"), row.Import, row.Sheet, row.Number, string(source))
		return err
	})
	if err != nil {
		return fmt.Errorf("note a row's source: %w", err)
	}
	return nil
}

// RefuseRow settles a row that makes no job.
func (s *Store) RefuseRow(ctx context.Context, row RowRef, column int64, kind string, why Reason) error {
	return s.onImport(ctx, "refuse_row", row.Import, ImportRunning, func(tx *sqldb.Tx) error {
		n, err := tx.Exec(ctx, q("refuse_row"), row.Import, row.Sheet, row.Number, column, kind, why.Code, why.Sentence)
		if err == nil && n == 1 {
			_, err = tx.Exec(ctx, q("row_refused"), row.Import)
		}
		return err
	})
}

// ImportWaits says what an import that has not ended waits for, until its sheet is read or a row is accepted.
func (s *Store) ImportWaits(ctx context.Context, id string, why Reason) error {
	err := s.db.UpdateRelaxed(ctx, "import_waits", func(tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, q("import_waits"), id, why.Code, why.Sentence)
		return err
	})
	if err != nil {
		return fmt.Errorf("note what the import waits for: %w", err)
	}
	return nil
}

// EndImport ends a running import whose rows are all settled, and reports whether it has.
func (s *Store) EndImport(ctx context.Context, id string) (bool, error) {
	ended := false
	err := s.db.Update(ctx, "end_import", func(tx *sqldb.Tx) error {
		n, err := tx.Exec(ctx, q("end_import"), id, "all_refused", "Every row was refused; download them with their reasons, mend them and import them again.")
		ended = n == 1
		return err
	})
	if err != nil {
		return false, fmt.Errorf("end the import: %w", err)
	}
	return ended, nil
}

// rowJob locks the row that a submission comes from: the job that it has already made, or none.
func (u *unit) rowJob(row RowRef) (string, error) {
	if _, err := lockImport(u.ctx, u.tx, row.Import); err != nil {
		return "", err
	}
	var state, job string
	if err := u.tx.One(u.ctx, q("read_row"), []any{row.Import, row.Sheet, row.Number}, &state, &job); err != nil {
		return "", fmt.Errorf("read the row: %w", err)
	}
	if state == RowRefused {
		return "", ErrRowSettled
	}
	return job, nil
}

// acceptRow settles the row together with its job.
func (u *unit) acceptRow(row RowRef, job string) error {
	n, err := u.tx.Exec(u.ctx, q("accept_row"), row.Import, row.Sheet, row.Number, job)
	if err == nil && n == 1 {
		_, err = u.tx.Exec(u.ctx, q("row_accepted"), row.Import)
	}
	if err != nil {
		return fmt.Errorf("accept the row: %w", err)
	}
	return nil
}

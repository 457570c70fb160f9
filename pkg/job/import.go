package job

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/stagefleet/stagefleet/pkg/internal/sqldb"
)

// ImportState is how far an import is.
type ImportState string

// The states of an import. The last four are ends.
const (
	ImportPending   ImportState = "pending" // its sheet has not been read to the end; no job has been made
	ImportRunning   ImportState = "running" // rows become jobs
	ImportCompleted ImportState = "completed"
	ImportPartly    ImportState = "completed_with_refusals"
	ImportFailed    ImportState = "failed" // the sheet cannot be read, or every row was refused
	ImportCancelled ImportState = "cancelled"
)

// ImportStates returns every state.
func ImportStates() []ImportState {
	return []ImportState{ImportPending, ImportRunning, ImportCompleted, ImportPartly, ImportFailed, ImportCancelled}
}

// Ended reports whether nothing more will happen.
func (s ImportState) Ended() bool { return s != ImportPending && s != ImportRunning }

// States of a row.
const (
	RowPending  = "pending"
	RowAccepted = "accepted" // has a job
	RowRefused  = "refused"
)

// Import is a sheet of jobs. Progress is the number of rows that are settled, accepted or refused, of all.
type Import struct {
	ID        string      `json:"id"`
	Tenant    string      `json:"-"`
	Name      string      `json:"name"` // of the file
	State     ImportState `json:"state"`
	Reason    *Reason     `json:"reason,omitempty"` // why it ended so, or what it waits for
	Notice    string      `json:"notice,omitempty"` // what of the file was passed over
	Format    string      `json:"format,omitempty"` // as package sheet names it, once the sheet has been read
	Rows      int64       `json:"rows"`             // grows until the sheet has been read
	Accepted  int64       `json:"accepted"`
	Refused   int64       `json:"refused"`
	CreatedAt time.Time   `json:"created_at"`
	EndedAt   *time.Time  `json:"ended_at,omitempty"`

	Known bool `json:"-"` // only from CreateImport: the import existed already
}

// ImportSheet is a sheet that has been stored and not read yet.
type ImportSheet struct {
	Tenant string
	Name   string // of the file, for people
	Object string // key of the sheet in the object store; its folder is garbage some time after the import's end
	Folder string // absolute, what sources that are files of the server's machine are relative to; empty: no such sources

	Webhook        string // address that the ends of the jobs are reported to; empty: nobody asks
	IdempotencyKey string // optional, as in Submission; imports and jobs share their keys
	BodyHash       string // what must be equal for the key to mean the same request
}

// CreateImport records an import, to be carried out by whoever leads. The same idempotency key with the same body returns the import
// that exists, ErrIdempotencyMismatch with another; *Invalid for a key that cannot be kept.
func (s *Store) CreateImport(ctx context.Context, sheet ImportSheet) (Import, error) {
	if err := validKey(sheet.IdempotencyKey); err != nil {
		return Import{}, err
	}
	id, known := newToken(), ""
	err := s.db.Update(ctx, "create_import", func(tx *sqldb.Tx) (err error) {
		if sheet.IdempotencyKey != "" {
			if known, err = takeKey(ctx, tx, sheet.Tenant, sheet.IdempotencyKey, sheet.BodyHash, id); known != "" || err != nil {
				return err
			}
		}
		_, err = tx.ExecAll(ctx, []sqldb.Statement{
			{Text: q("insert_import"), Args: []any{id, sheet.Tenant, sheet.Object, sheet.Name, sheet.Folder, sheet.Webhook}},
			{Text: q("add_import_upload"), Args: []any{path.Dir(sheet.Object), id}},
		})
		return err
	})
	if err != nil {
		return Import{}, fmt.Errorf("record the import: %w", err)
	}
	i, err := s.Import(ctx, sheet.Tenant, cmp.Or(known, id))
	i.Known = known != ""
	return i, err
}

// Import returns one import of a tenant, or ErrNotFound.
func (s *Store) Import(ctx context.Context, tenant, id string) (Import, error) {
	var i Import
	err := s.db.View(ctx, "import", func(tx *sqldb.Tx) error {
		found, err := readImports(ctx, tx, "import", tenant, id)
		if err == nil && len(found) == 0 {
			err = ErrNotFound
		}
		if err == nil {
			i = found[0]
		}
		return err
	})
	if err != nil {
		return Import{}, fmt.Errorf("read import: %w", err)
	}
	return i, nil
}

// Imports lists a tenant's imports, newest first, and the cursor of the next page, empty after the last. limit is 1 to 500.
func (s *Store) Imports(ctx context.Context, tenant, cursor string, limit int) ([]Import, string, error) {
	if limit < 1 || limit > maxPage {
		return nil, "", fmt.Errorf("list imports: limit is %d, must be 1 to %d", limit, maxPage)
	}
	if cursor == "" {
		cursor = lastCursor
	}
	var page []Import
	err := s.db.View(ctx, "imports", func(tx *sqldb.Tx) error {
		var err error
		page, err = readImports(ctx, tx, "imports", tenant, cursor, limit+1)
		return err
	})
	if err != nil {
		return nil, "", fmt.Errorf("list imports: %w", err)
	}
	if len(page) <= limit {
		return page, "", nil
	}
	return page[:limit], page[limit-1].ID, nil
}

func readImports(ctx context.Context, tx *sqldb.Tx, name string, args ...any) ([]Import, error) {
	var all []Import
	err := tx.Query(ctx, q(name), func(scan func(...any) error) error {
		var i Import
		var code, sentence string
		var created, ended int64
		err := scan(&i.ID, &i.Tenant, &i.Name, &i.State, &code, &sentence, &i.Notice, &i.Format, &i.Rows, &i.Accepted, &i.Refused, &created, &ended)
		i.Reason, i.CreatedAt, i.EndedAt = reason(code, sentence), timeOf(created), optional(ended)
		all = append(all, i)
		return err
	}, args...)
	return all, err
}

// RowRef names a row of an import.
type RowRef struct {
	Import string
	Sheet  string
	Number int64
}

// ImportRow is a row of a sheet.
type ImportRow struct {
	Sheet  string
	Number int64
	State  string
	Cells  []string        // as they were written, in the order of package sheet's columns
	Job    string          // of an accepted row
	Column int64           // of a refused one, from 1 in the same order; 0: none
	Kind   string          // of the refused value
	Reason *Reason         // of the refusal
	Source json.RawMessage // what NoteSource kept
	Tries  int64           // that failed
}

type importRowJSON struct {
	Sheet    string `json:"sheet"`
	Number   int64  `json:"row_no"`
	State    string `json:"state"`
	Input    string `json:"input"`
	Column   int64  `json:"column_no"`
	Kind     string `json:"kind"`
	Code     string `json:"code"`
	Sentence string `json:"sentence"`
}

// ImportRows returns rows of a tenant's import after one, in the order of the sheet, only refused ones if so wanted. limit is 1 to 500.
func (s *Store) ImportRows(ctx context.Context, tenant string, after RowRef, refused bool, limit int) ([]ImportRow, error) {
	if limit < 1 || limit > maxPage {
		return nil, fmt.Errorf("list rows: limit is %d, must be 1 to %d", limit, maxPage)
	}
	name := "import_rows"
	if refused {
		name = "refused_rows"
	}
	var rows []ImportRow
	err := s.db.View(ctx, name, func(tx *sqldb.Tx) error {
		found, err := readImports(ctx, tx, "import", tenant, after.Import)
		if err == nil && len(found) == 0 {
			return ErrNotFound
		}
		if err != nil {
			return err
		}
		rows, err = readRows(ctx, tx, name, after.Import, after.Sheet, after.Number, limit)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list rows: %w", err)
	}
	return rows, nil
}

func readRows(ctx context.Context, tx *sqldb.Tx, name string, args ...any) ([]ImportRow, error) {
	rows := []ImportRow{}
	err := tx.Query(ctx, q(name), func(scan func(...any) error) error {
		var r ImportRow
		var input, code, sentence, source string
		err := scan(&r.Sheet, &r.Number, &r.State, &input, &r.Job, &r.Column, &r.Kind, &code, &sentence, &source, &r.Tries)
		if err != nil {
			return err
		}
		r.Reason = reason(code, sentence)
		if source != "" {
			r.Source = json.RawMessage(source)
		}
		rows = append(rows, r)
		return json.Unmarshal([]byte(input), &rows[len(rows)-1].Cells)
	}, args...)
	return rows, err
}

// CancelImport ends an import: rows that have no job yet are refused, those that have one keep it. ErrEnded when it had ended,
// ErrNotFound when the tenant has no such import.
func (s *Store) CancelImport(ctx context.Context, tenant, id, who string) error {
	const code, sentence = "cancelled", "The import was cancelled before this row's turn."
	err := s.db.Update(ctx, "cancel_import", func(tx *sqldb.Tx) error {
		found, err := readImports(ctx, tx, "import", tenant, id)
		if err == nil && len(found) == 0 {
			return ErrNotFound
		}
		if err != nil {
			return err
		}
		state, err := lockImport(ctx, tx, id)
		if err == nil && state.Ended() {
			err = ErrEnded
		}
		if err != nil {
			return err
		}
		n, err := tx.Exec(ctx, q("refuse_pending_rows"), id, code, sentence)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, q("cancel_import"), id, n, code, "The import was cancelled on request."); err != nil {
			return err
		}
		return audit(ctx, tx, who, "cancel import", id, "")
	})
	if err != nil {
		return fmt.Errorf("cancel import: %w", err)
	}
	return nil
}

// lockImport is taken before any row of the import.
func lockImport(ctx context.Context, tx *sqldb.Tx, id string) (ImportState, error) {
	var state ImportState
	err := tx.One(ctx, q("lock_import"), []any{id}, &state)
	if errors.Is(err, sql.ErrNoRows) {
		return "", ErrNotFound
	}
	return state, err
}

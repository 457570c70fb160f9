// Package intake carries imports out: it reads the sheets that were handed in and turns their rows into jobs, in the background of
// the server that leads.
//
// Promised: no job is made before the whole sheet has been read; every row ends accepted or refused; a row makes one job, however
// often the server is killed meanwhile; an import that meets a limit of its account waits for room and goes on; a row whose source
// cannot be had just now is tried again behind all others, and refused after about a day of tries. Every tenant's oldest import has
// its turns beside those of others. It admits nothing by itself: rows pass the same admission as any submission, in package job.
// Package fleet runs it beside the API.
package intake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"go.uber.org/zap"

	"github.com/stagefleet/stagefleet/pkg/blob"
	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/sheet"
)

const (
	lookEvery  = time.Second     // for new imports
	waitFor    = 5 * time.Second // when an account has no room, or after a fault
	sideBySide = 8               // turns of as many tenants at once
	readAtOnce = 2               // sheets, for the memory that a workbook takes
	copyAtOnce = 4               // files of this machine
	readBatch  = 500             // rows of a sheet that are stored together
	turnTime   = 5 * time.Second // after which no more rows are begun: the next import has its turn
	jobBatch   = 256             // rows of a turn at most
	rowsAtOnce = 32              // of them
)

// Record is the part of package job that an Intake needs; *job.Store has it.
type Record interface {
	Leads(ctx context.Context) bool
	OpenImports(ctx context.Context) ([]job.OpenImport, error)
	StoreRows(ctx context.Context, id string, rows []job.ImportRow) error
	RowsRead(ctx context.Context, id, format, notice string) error
	FailImport(ctx context.Context, id, code, sentence string) error
	PendingRows(ctx context.Context, id string, limit int) ([]job.ImportRow, time.Duration, error)
	PostponeRow(ctx context.Context, row job.RowRef, wait time.Duration) error
	Copied(ctx context.Context, folder, id string) error
	NoteSource(ctx context.Context, row job.RowRef, source json.RawMessage) error
	Submit(ctx context.Context, s job.Submission) (job.Job, error)
	RefuseRow(ctx context.Context, row job.RowRef, column int64, kind string, why job.Reason) error
	ImportWaits(ctx context.Context, id string, why job.Reason) error
	EndImport(ctx context.Context, id string) (bool, error)
}

// Intake carries imports out. Every field is required.
type Intake struct {
	Record   Record
	Objects  blob.Store
	First    job.Route // of a new job
	MaxInput int64     // bytes of one recording
	Log      *zap.Logger
}

// Run carries out what is open, until ctx ends, while this process leads. Faults are logged and waited out.
func (in Intake) Run(ctx context.Context) error {
	d := &desk{
		Intake: in, tenants: map[string]*place{}, ended: make(chan *place, sideBySide),
		reads: make(chan struct{}, readAtOnce), copies: make(chan struct{}, copyAtOnce),
	}
	return d.run(ctx)
}

// read stores the rows of a sheet. Of an interrupted one it stores the rest.
func (d *desk) read(ctx context.Context, o job.OpenImport) (time.Duration, error) {
	select {
	case d.reads <- struct{}{}:
		defer func() { <-d.reads }()
		return 0, d.Intake.read(ctx, o)
	default:
		return lookEvery, nil
	}
}

func (in Intake) read(ctx context.Context, o job.OpenImport) error {
	dir, err := os.MkdirTemp("", "fleet-import-")
	if err != nil {
		return fmt.Errorf("make room for the sheet: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path, err := in.Objects.Path(ctx, o.Object, dir)
	if errors.Is(err, blob.ErrNotFound) { // it would hold up all that follow, for ever
		return in.Record.FailImport(ctx, o.ID, "sheet_gone", "The sheet is not in the fleet's store any more: hand it in again.")
	}
	if err != nil {
		return fmt.Errorf("fetch the sheet: %w", err)
	}
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open the sheet: %w", err)
	}
	defer file.Close()
	facts, err := in.store(ctx, o.ID, file)
	var bad *sheet.Error
	switch {
	case errors.As(err, &bad):
		return in.Record.FailImport(ctx, o.ID, bad.Code, bad.Sentence)
	case err != nil:
		return err
	}
	return in.Record.RowsRead(ctx, o.ID, string(facts.Format), facts.Notice)
}

func (in Intake) store(ctx context.Context, id string, file io.ReadSeeker) (sheet.Facts, error) {
	var batch []job.ImportRow
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		err := in.Record.StoreRows(ctx, id, batch)
		batch = batch[:0]
		return err
	}
	facts, err := sheet.Read(file, func(r sheet.Row) error {
		row := job.ImportRow{Sheet: r.Sheet, Number: int64(r.Number), State: job.RowPending, Cells: r.Cells[:]}
		if no := r.Refusal; no != nil {
			row.State, row.Column, row.Kind = job.RowRefused, columnOf(no.Column), string(no.Kind)
			row.Reason = &job.Reason{Code: no.Code, Sentence: no.Sentence}
		}
		if batch = append(batch, row); len(batch) < readBatch {
			return nil
		}
		return flush()
	})
	if err != nil {
		return facts, err
	}
	return facts, flush()
}

func columnOf(c sheet.Column) int64 { return int64(c) + 1 }

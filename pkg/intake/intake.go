// Package intake carries imports out: it reads the sheets that were handed in and turns their rows into jobs, in the background of
// the server that leads.
//
// Promised: no job is made before the whole sheet has been read; every row ends accepted or refused; a row makes one job, however
// often the server is killed meanwhile; an import that meets a limit of its account waits for room and goes on. It admits nothing by
// itself: rows pass the same admission as any submission, in package job. Package fleet runs it beside the API.
package intake

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/stagefleet/stagefleet/pkg/blob"
	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/sheet"
)

const (
	lookEvery = time.Second     // for new imports
	waitFor   = 5 * time.Second // when an account has no room, or after a fault
	readBatch = 500             // rows of a sheet that are stored together
	turnTime  = 5 * time.Second // after which no more rows are begun: the next import has its turn
	jobBatch  = 64              // rows of a turn at most
	atOnce    = 16              // of them
)

// Record is the part of package job that an Intake needs; *job.Store has it.
type Record interface {
	Leads(ctx context.Context) bool
	OpenImports(ctx context.Context) ([]job.OpenImport, error)
	StoreRows(ctx context.Context, id string, rows []job.ImportRow) error
	RowsRead(ctx context.Context, id, format, notice string) error
	FailImport(ctx context.Context, id, code, sentence string) error
	PendingRows(ctx context.Context, id string, limit int) ([]job.ImportRow, error)
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
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	waits := map[string]time.Time{} // imports that wait, until when
	for {
		for ctx.Err() == nil && in.Record.Leads(ctx) && in.round(ctx, waits) {
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// round gives every tenant's oldest open import a turn, and reports whether one of them has got on.
func (in Intake) round(ctx context.Context, waits map[string]time.Time) bool {
	open, err := in.Record.OpenImports(ctx)
	if err != nil {
		in.Log.Warn("imports not looked at", zap.Error(err))
		return false
	}
	if len(open) == 0 {
		clear(waits)
	}
	got := false
	for _, o := range open {
		if ctx.Err() != nil || time.Now().Before(waits[o.ID]) {
			continue
		}
		on, err := in.turn(ctx, o)
		if err != nil && ctx.Err() == nil && !errors.Is(err, job.ErrEnded) {
			in.Log.Warn("import interrupted; it goes on", zap.String("import", o.ID), zap.Error(err))
			_ = in.Record.ImportWaits(ctx, o.ID, fault) // the log has said it already
		}
		if !on || err != nil {
			waits[o.ID] = time.Now().Add(waitFor)
		}
		got = got || on
	}
	return got
}

// turn reads the sheet, or turns some of its rows into jobs. False: the import waits.
func (in Intake) turn(ctx context.Context, o job.OpenImport) (bool, error) {
	if o.State == job.ImportPending {
		return true, in.read(ctx, o)
	}
	rows, err := in.Record.PendingRows(ctx, o.ID, jobBatch)
	if err != nil {
		return false, err
	}
	if len(rows) == 0 {
		return in.Record.EndImport(ctx, o.ID)
	}
	limit, err := in.admit(ctx, o, rows)
	if err != nil || limit == nil {
		return err == nil, err
	}
	return false, in.Record.ImportWaits(ctx, o.ID, job.Reason{Code: limit.Reason, Sentence: waitSentences[limit.Reason]})
}

// waitSentences say what stands in the way. Rows wait for all of them, also for money: whoever will not wait cancels the import.
var waitSentences = map[string]string{
	job.RefusedInFlight: "The account has as many jobs in flight as it may; the import goes on as they end.",
	job.RefusedDailyCap: "The account has spent its daily allowance; the import goes on tomorrow (UTC).",
	job.RefusedBalance:  "The account's balance does not cover the next row; the import goes on when there is more.",
	job.RefusedCapacity: "The fleet has more work than it accepts; the import goes on later.",
}

// fault is what the submitter reads of what the log knows.
var fault = job.Reason{Code: "fault", Sentence: "The fleet could not go on with the import and tries again; its log says why."}

// read stores the rows of a sheet. Of an interrupted one it stores the rest.
func (in Intake) read(ctx context.Context, o job.OpenImport) error {
	dir, err := os.MkdirTemp("", "fleet-import-")
	if err != nil {
		return fmt.Errorf("make room for the sheet: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path, err := in.Objects.Path(ctx, o.Object, dir)
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

// admit turns rows into jobs, several at once. It begins no more of them when its time is over, when it meets a limit, and when
// the record fails; a row whose source cannot be had now is left for another turn.
func (in Intake) admit(ctx context.Context, o job.OpenImport, rows []job.ImportRow) (*job.Refused, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	over := time.NewTimer(turnTime)
	defer over.Stop()
	var end ending
	var all sync.WaitGroup
	turns := make(chan job.ImportRow)
	for range min(atOnce, len(rows)) {
		all.Go(func() {
			for row := range turns {
				if end.note(in.admitOne(ctx, o, row)) {
					stop()
				}
			}
		})
	}
	begin := func(row job.ImportRow) bool {
		select {
		case <-ctx.Done():
			return false
		case <-over.C:
			return false
		case turns <- row:
			return true
		}
	}
	for n := 0; n < len(rows) && begin(rows[n]); n++ {
	}
	close(turns)
	all.Wait()
	return end.limit, errors.Join(end.record, end.row)
}

// ending is why rows of a turn have stayed pending: the first of each kind.
type ending struct {
	mu          sync.Mutex
	limit       *job.Refused
	record, row error
}

// note takes the error of a row and reports whether other rows would meet it too.
func (e *ending) note(err error) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if no, ok := errors.AsType[*job.Refused](err); ok {
		e.limit = no
		return true
	}
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	if _, own := errors.AsType[*rowFault](err); own {
		e.row = cmp.Or(e.row, err)
		return false
	}
	e.record = cmp.Or(e.record, err)
	return true
}

// admitOne settles a row, unless a limit or a fault stands in the way: that is its error.
func (in Intake) admitOne(ctx context.Context, o job.OpenImport, row job.ImportRow) error {
	ref := job.RowRef{Import: o.ID, Sheet: row.Sheet, Number: row.Number}
	r, err := meaning(row)
	if err != nil {
		return err
	}
	source, err := in.source(ctx, o, ref, row, r)
	if err == nil {
		_, err = in.Record.Submit(ctx, submission(o, ref, r, source, in.First))
	}
	no := refusalOf(err, r)
	switch {
	case no != nil:
		return in.Record.RefuseRow(ctx, ref, columnOf(no.Column), string(no.Kind), job.Reason{Code: no.Code, Sentence: no.Sentence})
	case errors.Is(err, job.ErrRowSettled):
		return nil
	}
	return err
}

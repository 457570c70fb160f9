package intake

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/sheet"
)

// A row whose source cannot be had waits, twice as long after every try.
const (
	firstWait = 5 * time.Second
	mostWait  = 5 * time.Minute
	mostTries = 300 // about a day
)

// admit turns rows into jobs, several at once. It begins no more of them when its time is over, when it meets a limit, and when
// the record fails; rows whose source cannot be had now are postponed.
func (d *desk) admit(ctx context.Context, o job.OpenImport, rows []job.ImportRow) (time.Duration, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	over := time.NewTimer(turnTime)
	defer over.Stop()
	var end ending
	var all sync.WaitGroup
	turns := make(chan job.ImportRow)
	for range min(rowsAtOnce, len(rows)) {
		all.Go(func() {
			for row := range turns {
				if end.note(d.admitOne(ctx, o, row)) {
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
	return d.conclude(ctx, o, &end)
}

// conclude tells what stood in the way of rows, and returns how long the import waits for it.
func (d *desk) conclude(ctx context.Context, o job.OpenImport, end *ending) (time.Duration, error) {
	if end.row != nil {
		d.Log.Warn("sources of an import not read; they are tried again", zap.String("import", o.ID), zap.Int("rows", end.rows), zap.Error(end.row))
	}
	if end.record != nil {
		return waitFor, end.record
	}
	if end.limit == nil {
		return 0, nil
	}
	ctx = context.WithoutCancel(ctx) // the limit has ended it
	return waitFor, d.Record.ImportWaits(ctx, o.ID, job.Reason{Code: end.limit.Reason, Sentence: waitSentences[end.limit.Reason]})
}

// ending is why rows of a turn have stayed pending: the first of each kind.
type ending struct {
	mu          sync.Mutex
	limit       *job.Refused
	record, row error
	rows        int // with a fault of their own
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
	if own, ok := errors.AsType[*rowFault](err); ok {
		e.row = cmp.Or(e.row, own.error)
		e.rows++
		return false
	}
	e.record = cmp.Or(e.record, err)
	return true
}

// admitOne settles a row, unless a limit or a fault stands in the way: that is its error. A row that stays keeps what was fetched
// for it.
func (d *desk) admitOne(ctx context.Context, o job.OpenImport, row job.ImportRow) error {
	ref := job.RowRef{Import: o.ID, Sheet: row.Sheet, Number: row.Number}
	r, err := meaning(row)
	if err != nil {
		return err
	}
	source, err := d.source(ctx, o, row, r)
	if err == nil {
		_, err = d.Record.Submit(ctx, submission(o, ref, r, source, d.First))
	}
	no := refusalOf(err, r)
	own, isOwn := errors.AsType[*rowFault](err)
	switch {
	case no != nil:
		return d.refuse(ctx, ref, no)
	case err == nil, errors.Is(err, job.ErrRowSettled):
		return nil
	case isOwn && ctx.Err() != nil:
		return ctx.Err()
	case isOwn:
		return d.postpone(ctx, ref, row, r, own)
	case errors.Is(err, job.ErrUploadGone):
		return errors.Join(d.Record.NoteSource(ctx, ref, nil), d.postpone(ctx, ref, row, r, &rowFault{err}))
	case source.Object.Key != "" && row.Source == nil:
		return errors.Join(err, d.keep(ctx, ref, source))
	}
	return err
}

func (d *desk) refuse(ctx context.Context, ref job.RowRef, no *sheet.Refusal) error {
	return d.Record.RefuseRow(ctx, ref, columnOf(no.Column), string(no.Kind), job.Reason{Code: no.Code, Sentence: no.Sentence})
}

// postpone lets other rows go first, and refuses a row that was tried for long enough. The fault is returned once it is noted.
func (d *desk) postpone(ctx context.Context, ref job.RowRef, row job.ImportRow, r sheet.Row, why *rowFault) error {
	if row.Tries+1 >= mostTries {
		return d.refuse(ctx, ref, unreachable(r))
	}
	wait := min(mostWait, firstWait<<min(row.Tries, 10))
	if err := d.Record.PostponeRow(ctx, ref, wait); err != nil {
		return err
	}
	return why
}

package job_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/job"
)

// imported makes an import of n rows, the last of which is refused, and reads it to the end.
func (f *fixture) imported(n int) string {
	f.t.Helper()
	i, err := f.s.CreateImport(f.ctx, job.ImportSheet{Tenant: "acme", Name: "talks.csv", Object: "imports/x/sheet"})
	if err != nil {
		f.t.Fatal(err)
	}
	for range 2 { // as after a kill in the middle of reading
		if err := f.s.StoreRows(f.ctx, i.ID, rowsOf(n)); err != nil {
			f.t.Fatal(err)
		}
	}
	if err := f.s.RowsRead(f.ctx, i.ID, "csv", ""); err != nil {
		f.t.Fatal(err)
	}
	return i.ID
}

func rowsOf(n int) []job.ImportRow {
	rows := make([]job.ImportRow, n)
	for i := range rows {
		rows[i] = job.ImportRow{Number: int64(i + 2), State: job.RowPending, Cells: []string{fmt.Sprint("t", i), "a.mp4", "", ""}}
	}
	rows[n-1].State, rows[n-1].Column, rows[n-1].Kind = job.RowRefused, 2, "empty"
	rows[n-1].Reason = &job.Reason{Code: "empty", Sentence: "The source is empty."}
	return rows
}

func (f *fixture) submissionOf(id string, row int64) job.Submission {
	sub := f.submission(fmt.Sprint("t", row-2))
	sub.Row = &job.RowRef{Import: id, Number: row}
	return sub
}

func (f *fixture) theImport(id string, state job.ImportState, accepted, refused int64) job.Import {
	f.t.Helper()
	i, err := f.s.Import(f.ctx, "acme", id)
	if err != nil || i.State != state || i.Accepted != accepted || i.Refused != refused {
		f.t.Fatalf("import %+v, %v; want %s with %d accepted, %d refused", i, err, state, accepted, refused)
	}
	return i
}

func TestARowOfAnImportMakesOneJobHoweverOftenItIsSubmitted(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		id := f.imported(3)
		ids := make([]string, 20)
		var all sync.WaitGroup
		for i := range ids {
			all.Go(func() {
				j, err := f.s.Submit(f.ctx, f.submissionOf(id, 2))
				if err != nil {
					t.Error(err)
				}
				ids[i] = j.ID
			})
		}
		all.Wait()
		for _, other := range ids {
			if other != ids[0] {
				t.Fatalf("jobs %s and %s of one row", ids[0], other)
			}
		}
		f.theImport(id, job.ImportRunning, 1, 1)
		if ended, err := f.s.EndImport(f.ctx, id); err != nil || ended {
			t.Fatalf("ended with a pending row: %v, %v", ended, err)
		}
		f.submit(f.submissionOf(id, 3))
		if ended, err := f.s.EndImport(f.ctx, id); err != nil || !ended {
			t.Fatalf("not ended: %v, %v", ended, err)
		}
		f.theImport(id, job.ImportPartly, 2, 1)
		f.pump(nil)
		f.sound()
	})
}

func TestARowThatMeetsALimitStaysPending(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		id := f.imported(4)
		f.limit(job.Account{Tenant: "acme", Unlimited: true, MaxInFlight: 1})
		f.submit(f.submissionOf(id, 2))
		_ = f.declined(f.submissionOf(id, 3), job.RefusedInFlight)
		if rows, _, err := f.s.PendingRows(f.ctx, id, 10); err != nil || len(rows) != 2 || rows[0].Number != 3 {
			t.Fatalf("pending %+v, %v", rows, err)
		}
		f.sound()
	})
}

func TestACancelledImportRefusesWhatHasNoJob(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		id := f.imported(4)
		f.submit(f.submissionOf(id, 2))
		if err := f.s.CancelImport(f.ctx, "other", id, "test"); !errors.Is(err, job.ErrNotFound) {
			t.Fatalf("another tenant cancels: %v", err)
		}
		if err := f.s.CancelImport(f.ctx, "acme", id, "test"); err != nil {
			t.Fatal(err)
		}
		if _, err := f.s.Submit(f.ctx, f.submissionOf(id, 3)); !errors.Is(err, job.ErrRowSettled) {
			t.Fatalf("a row of a cancelled import: %v", err)
		}
		if err := f.s.CancelImport(f.ctx, "acme", id, "test"); !errors.Is(err, job.ErrEnded) {
			t.Fatalf("cancelled twice: %v", err)
		}
		f.theImport(id, job.ImportCancelled, 1, 3)
		rows, err := f.s.ImportRows(f.ctx, "acme", job.RowRef{Import: id}, true, 2)
		if err != nil || len(rows) != 2 || rows[0].Number != 3 || rows[0].Reason.Code != "cancelled" {
			t.Fatalf("%+v, %v", rows, err)
		}
		rows, err = f.s.ImportRows(f.ctx, "acme", job.RowRef{Import: id, Number: 4}, true, 2)
		if err != nil || len(rows) != 1 || rows[0].Column != 2 || rows[0].Kind != "empty" || rows[0].Cells[0] != "t3" {
			t.Fatalf("%+v, %v", rows, err)
		}
		f.pump(nil)
		f.sound()
	})
}

func TestASheetThatCannotBeReadLeavesNoRows(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		i, err := f.s.CreateImport(f.ctx, job.ImportSheet{Tenant: "acme", Name: "bad.csv", Object: "o"})
		if err != nil {
			t.Fatal(err)
		}
		if err := f.s.StoreRows(f.ctx, i.ID, rowsOf(5)); err != nil {
			t.Fatal(err)
		}
		if err := f.s.FailImport(f.ctx, i.ID, "encoding", "It is Latin-1."); err != nil {
			t.Fatal(err)
		}
		if got := f.theImport(i.ID, job.ImportFailed, 0, 0); got.Rows != 0 || got.Reason.Code != "encoding" {
			t.Fatalf("%+v", got)
		}
		if err := f.s.StoreRows(f.ctx, i.ID, rowsOf(5)); !errors.Is(err, job.ErrEnded) {
			t.Fatalf("rows of an ended import: %v", err)
		}
		f.sound()
	})
}

func TestARowThatFailedIsDueAgainAfterItsWaitAndBehindAllOthers(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		id := f.imported(4)
		pending := func() (numbers []int64, wait time.Duration) {
			rows, wait, err := f.s.PendingRows(f.ctx, id, 10)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range rows {
				numbers = append(numbers, r.Number)
			}
			return numbers, wait
		}
		if err := f.s.PostponeRow(f.ctx, job.RowRef{Import: id, Number: 2}, time.Minute); err != nil {
			t.Fatal(err)
		}
		if got, _ := pending(); !slices.Equal(got, []int64{3, 4}) {
			t.Fatalf("pending %v", got)
		}
		f.submit(f.submissionOf(id, 3))
		if err := f.s.PostponeRow(f.ctx, job.RowRef{Import: id, Number: 4}, 2*time.Minute); err != nil {
			t.Fatal(err)
		}
		if got, wait := pending(); got != nil || wait < 50*time.Second || wait > time.Minute {
			t.Fatalf("pending %v, the next in %v", got, wait)
		}
		if err := f.s.Change(f.ctx, "UPDATE import_row SET ready_at = ready_at - 300000000"); err != nil {
			t.Fatal(err)
		}
		rows, _, err := f.s.PendingRows(f.ctx, id, 10)
		if err != nil || len(rows) != 2 || rows[0].Number != 2 || rows[0].Tries != 1 {
			t.Fatalf("pending %+v, %v", rows, err)
		}
		for _, row := range []int64{2, 4} {
			f.submit(f.submissionOf(id, row))
		}
		if got, wait := pending(); got != nil || wait != 0 {
			t.Fatalf("pending %v, the next in %v, after all are settled", got, wait)
		}
		f.sound()
	})
}

func TestWhatAnImportHasStoredIsGarbageSomeTimeAfterItsEndAndNotBefore(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		id := f.imported(3)
		for _, folder := range []string{"uploads/acme/taken", "uploads/acme/left"} {
			if err := f.s.Copied(f.ctx, folder, id); err != nil {
				t.Fatal(err)
			}
		}
		old := func() {
			t.Helper()
			for _, text := range []string{"UPDATE upload SET at = at - 7200000000", "UPDATE import SET ended_at = ended_at - 7200000000 WHERE ended_at > 0"} {
				if err := f.s.Change(f.ctx, text); err != nil {
					t.Fatal(err)
				}
			}
		}
		idle := func(age time.Duration) string {
			t.Helper()
			all, err := f.s.IdleUploads(f.ctx, age, 0, 10)
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(all)
			return strings.Join(all, " ")
		}
		old()
		if got := idle(time.Hour); got != "" {
			t.Fatalf("an open import's are garbage: %s", got)
		}
		sub := f.submissionOf(id, 2)
		sub.Upload = "uploads/acme/taken"
		f.submit(sub)
		if err := f.s.CancelImport(f.ctx, "acme", id, "test"); err != nil {
			t.Fatal(err)
		}
		if got := idle(time.Hour); got != "" {
			t.Fatalf("garbage as soon as it has ended: %s", got)
		}
		old()
		if got := idle(time.Hour); got != "imports/x uploads/acme/left" {
			t.Fatalf("garbage %q", got)
		}
	})
}

func TestAnUploadThatIsGoneIsToldFromOtherFaults(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		id := f.imported(3)
		sub := f.submissionOf(id, 2)
		sub.Upload = "uploads/acme/gone"
		if _, err := f.s.Submit(f.ctx, sub); !errors.Is(err, job.ErrUploadGone) {
			t.Fatalf("got %v", err)
		}
		f.theImport(id, job.ImportRunning, 0, 1)
		f.sound()
	})
}

func TestAnImportThatCannotBeLockedIsNotSaidToHaveEnded(t *testing.T) {
	t.Parallel()
	url := freshURL(t, "postgres") // on SQLite a transaction waits for its turn before it begins
	f := newFixture(t, open(t, url, job.Options{}))
	i, err := f.s.CreateImport(f.ctx, job.ImportSheet{Tenant: "acme", Name: "a.csv", Object: "imports/a/sheet"})
	f.must(err)
	locked, let, held := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() { held <- f.s.HoldImport(f.ctx, i.ID, locked, let) }()
	<-locked
	hurried := open(t, url+"&lock_timeout=20ms", job.Options{})
	if err := hurried.CancelImport(f.ctx, "acme", i.ID, "ann"); err == nil || errors.Is(err, job.ErrEnded) {
		t.Errorf("cancel: %v, want a fault", err)
	}
	close(let)
	f.must(<-held)
	f.must(f.s.CancelImport(f.ctx, "acme", i.ID, "ann"))
	if err := f.s.CancelImport(f.ctx, "acme", i.ID, "ann"); !errors.Is(err, job.ErrEnded) {
		t.Errorf("cancelled twice: %v, want ErrEnded", err)
	}
}

package intake_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/stagefleet/stagefleet/pkg/blob"
	"github.com/stagefleet/stagefleet/pkg/intake"
	"github.com/stagefleet/stagefleet/pkg/job"
)

// rig is a record and a store of objects in a folder, in which sheets and recordings lie too.
type rig struct {
	t       testing.TB
	dir     string
	s       *job.Store
	objects blob.Store
}

func newRig(t testing.TB, dir string) *rig {
	s, err := job.Open(context.Background(), "sqlite:"+filepath.Join(dir, "record.db"), job.Options{Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	objects, err := blob.NewFolder(filepath.Join(dir, "objects"))
	if err != nil {
		t.Fatal(err)
	}
	return &rig{t: t, dir: dir, s: s, objects: objects}
}

func (r *rig) close() {
	if err := r.s.Close(); err != nil {
		r.t.Error(err)
	}
}

func (r *rig) intake() intake.Intake {
	return intake.Intake{
		Record: r.s, Objects: r.objects, First: job.Route{Stage: "ingest", Queue: "q", DLQ: "d", FIFO: true}, MaxInput: 1 << 20, Log: zap.NewNop(),
	}
}

func (r *rig) put(key, text string) {
	r.t.Helper()
	w, err := r.objects.Create(context.Background(), key)
	if err == nil {
		_, _ = w.Write([]byte(text))
		_, err = w.Commit()
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// hand hands a sheet in and returns its import's identifier.
func (r *rig) hand(text, folder string) string {
	r.t.Helper()
	r.put("imports/x/sheet", text)
	i, err := r.s.CreateImport(context.Background(), job.ImportSheet{Tenant: "acme", Name: "talks.csv", Object: "imports/x/sheet", Folder: folder})
	if err != nil {
		r.t.Fatal(err)
	}
	return i.ID
}

func (r *rig) get(id string) job.Import {
	r.t.Helper()
	i, err := r.s.Import(context.Background(), "acme", id)
	if err != nil {
		r.t.Fatal(err)
	}
	return i
}

// finish carries an import out to its end.
func (r *rig) finish(id string) job.Import {
	r.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.intake().Run(ctx) }()
	i := r.get(id)
	for ; !i.State.Ended(); i = r.get(id) {
		<-time.After(50 * time.Millisecond)
	}
	stop()
	if err := <-done; err != nil {
		r.t.Error(err)
	}
	return i
}

// rows returns what became of the rows, as text.
func (r *rig) rows(id string) []string {
	r.t.Helper()
	rows, err := r.s.ImportRows(context.Background(), "acme", job.RowRef{Import: id}, false, 500)
	if err != nil {
		r.t.Fatal(err)
	}
	var out []string
	for _, row := range rows {
		text := fmt.Sprint(row.Number, " ", row.State)
		if row.Reason != nil {
			text += fmt.Sprint(" ", row.Reason.Code, " ", row.Column, " ", row.Kind)
		}
		out = append(out, text)
	}
	return out
}

func TestEveryRowEndsAcceptedOrRefusedWithItsReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, t.TempDir())
		defer r.close()
		folder := filepath.Join(r.dir, "talks")
		_ = os.MkdirAll(filepath.Join(folder, "sub"), 0o755)
		_ = os.WriteFile(filepath.Join(folder, "a.mp4"), []byte("a"), 0o644)
		_ = os.WriteFile(filepath.Join(folder, "b.mp4"), []byte("b"), 0o644)
		_ = os.WriteFile(filepath.Join(folder, "long.mp4"), make([]byte, 1<<20+1), 0o644)
		_ = os.Symlink("a.mp4", filepath.Join(folder, "link.mp4"))
		r.put("inbox/acme/c.mp4", "c")
		r.put("inbox/other/d.mp4", "d")
		id := r.hand(strings.Join([]string{
			"target,source,version", "Talk,a.mp4,1", ",b.mp4,", "Absolute," + filepath.Join(folder, "a.mp4") + ",", "Kept,object:c.mp4,",
			"Talk,b.mp4,1", "Gone,gone.mp4,", "Folder,sub,", "Link,link.mp4,", "Long,long.mp4,", "Theirs,object:d.mp4,", "Up,object:../other/d.mp4,",
			"Half,,", "Dated,a.mp4,2024-01-05",
		}, "\n"), folder)
		if i := r.finish(id); i.State != job.ImportPartly || i.Accepted != 4 || i.Refused != 9 || i.Rows != 13 {
			t.Errorf("%+v", i)
		}
		want := []string{
			"2 accepted", "3 accepted", "4 accepted", "5 accepted", "6 refused duplicate 1 text", "7 refused not_found 2 text",
			"8 refused not_regular 2 text", "9 refused not_readable 2 text", "10 refused too_large 2 text", "11 refused not_found 2 text",
			"12 refused object_key 2 text", "13 refused empty 2 empty", "14 refused version 4 date",
		}
		if got := r.rows(id); !reflect.DeepEqual(got, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		jobs, _, err := r.s.Jobs(context.Background(), job.Filter{Tenant: "acme"})
		if err != nil || len(jobs) != 4 {
			t.Errorf("%d jobs, %v", len(jobs), err)
		}
	})
}

func TestAFolderThatWasNotGivenOpensNoFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, t.TempDir())
		defer r.close()
		id := r.hand("source\n/etc/hostname\n", "")
		i := r.finish(id)
		if got := r.rows(id); i.State != job.ImportFailed || i.Reason.Code != "all_refused" || got[0] != "2 refused no_local_files 2 text" {
			t.Errorf("%+v: %v", i, got)
		}
	})
}

func TestASheetThatIsNoneEndsItsImportWithASentence(t *testing.T) {
	for code, text := range map[string]string{
		"empty_sheet": " ", "no_rows": "source\n", "missing_header": "a.mp4\n", "encoding": "source\nGespr\xe4ch.mp4\n", "unknown_column": "source,versjon\na,1\n",
	} {
		t.Run(code, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, t.TempDir())
				defer r.close()
				if i := r.finish(r.hand(text, "")); i.State != job.ImportFailed || i.Reason == nil || i.Reason.Code != code || i.Rows != 0 {
					t.Errorf("%+v", i)
				}
			})
		})
	}
}

func TestAnImportTricklesInUnderTheLimitsOfItsAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, t.TempDir())
		defer r.close()
		ctx := t.Context()
		if err := r.s.SetLimits(ctx, job.Account{Tenant: "acme", Unlimited: true, MaxInFlight: 3}, "test"); err != nil {
			t.Fatal(err)
		}
		r.put("inbox/acme/a.mp4", "a")
		text := "target,source\n"
		for n := range 10 {
			text += fmt.Sprintf("t%d,object:a.mp4\n", n)
		}
		id := r.hand(text, "")
		running, stop := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- r.intake().Run(running) }()
		for settled := 0; settled < 10; settled++ {
			sleep(20 * time.Second)
			i := r.get(id)
			a, err := r.s.Account(ctx, "acme")
			if err != nil || a.InFlight > 3 || i.Accepted != min(10, int64(settled)+3) {
				t.Fatalf("after %d ends: %+v, %d in flight, %v", settled, i, a.InFlight, err)
			}
			if i.Accepted < 10 && (i.State != job.ImportRunning || i.Reason == nil || i.Reason.Code != job.RefusedInFlight) {
				t.Fatalf("it does not say what it waits for: %+v, %+v", i, i.Reason)
			}
			active, _, err := r.s.Jobs(ctx, job.Filter{Tenant: "acme", State: job.Running})
			if err != nil || len(active) == 0 {
				t.Fatal(len(active), err)
			}
			if err := r.s.Cancel(ctx, "acme", active[0].ID, "test", ""); err != nil {
				t.Fatal(err)
			}
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if i := r.get(id); i.State != job.ImportCompleted || i.Reason != nil {
			t.Fatalf("%+v", i)
		}
	})
}

func TestATenantsImportsFollowEachOtherAndHoldUpNobodyElses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, t.TempDir())
		defer r.close()
		ctx := t.Context()
		if err := r.s.SetLimits(ctx, job.Account{Tenant: "acme", Unlimited: true, MaxInFlight: 1}, "test"); err != nil {
			t.Fatal(err)
		}
		r.put("inbox/acme/a.mp4", "a")
		r.put("inbox/other/a.mp4", "a")
		first := r.hand("target,source\none,object:a.mp4\ntwo,object:a.mp4\n", "")
		sleep(time.Second) // identifiers are in the order of milliseconds
		r.put("imports/y/sheet", "target,source\nthree,object:a.mp4\n")
		second, err := r.s.CreateImport(ctx, job.ImportSheet{Tenant: "acme", Name: "b.csv", Object: "imports/y/sheet"})
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := r.s.CreateImport(ctx, job.ImportSheet{Tenant: "other", Name: "c.csv", Object: "imports/y/sheet"})
		if err != nil {
			t.Fatal(err)
		}
		running, stop := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- r.intake().Run(running) }()
		sleep(time.Minute)
		if i := r.get(first); i.State != job.ImportRunning || i.Accepted != 1 {
			t.Errorf("the first: %+v", i)
		}
		if i := r.get(second.ID); i.State != job.ImportPending {
			t.Errorf("the second has overtaken the first: %+v", i)
		}
		if i, err := r.s.Import(ctx, "other", theirs.ID); err != nil || i.State != job.ImportCompleted {
			t.Errorf("the other tenant's: %+v, %v", i, err)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestAHundredThousandRowsAreReadInConstantMemoryAndCancelledAtOnce(t *testing.T) {
	const rows = 100_000 / raceShare
	r := newRig(t, t.TempDir())
	defer r.close()
	ctx := t.Context()
	if err := r.s.SetLimits(ctx, job.Account{Tenant: "acme", Unlimited: true, MaxInFlight: 1}, "test"); err != nil {
		t.Fatal(err)
	}
	r.put("inbox/acme/a.mp4", "a")
	var text strings.Builder
	text.WriteString("target,source\n")
	for n := range rows {
		fmt.Fprintf(&text, "t%d,object:a.mp4\n", n)
	}
	id := r.hand(text.String(), "")
	text.Reset()
	running, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- r.intake().Run(running) }()
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	peak := before.HeapAlloc
	for i := r.get(id); i.State != job.ImportRunning || i.Reason == nil; i = r.get(id) {
		runtime.GC()
		runtime.ReadMemStats(&now)
		peak = max(peak, now.HeapAlloc)
		<-time.After(100 * time.Millisecond)
	}
	if grown := int64(peak) - int64(before.HeapAlloc); grown > 24<<20 {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	} else {
		t.Logf("the heap grew by %d MiB", grown>>20)
	}
	if err := r.s.CancelImport(ctx, "acme", id, "test"); err != nil {
		t.Fatal(err)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if i := r.get(id); i.State != job.ImportCancelled || i.Rows != rows || i.Accepted != 1 || i.Refused != rows-1 {
		t.Errorf("%+v", i)
	}
}

func sleep(d time.Duration) { time.Sleep(d) }

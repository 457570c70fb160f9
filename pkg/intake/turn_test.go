package intake_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagefleet/stagefleet/pkg/blob"
	"github.com/stagefleet/stagefleet/pkg/intake"
	"github.com/stagefleet/stagefleet/pkg/job"
)

// moody is a store in which opening takes its time and fails for some keys.
type moody struct {
	blob.Store
	takes time.Duration
	fails map[string]error // by the end of a key
}

func (m *moody) Open(ctx context.Context, key string) (io.ReadCloser, error) {
	for end, err := range m.fails {
		if strings.HasSuffix(key, end) {
			return nil, err
		}
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(m.takes):
		return m.Store.Open(ctx, key)
	}
}

// run carries imports out for a time.
func (r *rig) run(in intake.Intake, d time.Duration) {
	r.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), d)
	defer stop()
	if err := in.Run(ctx); err != nil {
		r.t.Error(err)
	}
}

func TestASourceThatCanNeverBeReadRefusesItsRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, t.TempDir())
		defer r.close()
		r.put("inbox/acme/a.mp4", "a")
		id := r.hand(strings.Join([]string{
			"target,source", "long,object:" + strings.Repeat("x", 256), "below,object:a.mp4/x", "archived,object:archived", "prefix,object:prefix", "good,object:a.mp4",
		}, "\n"), "")
		in := r.intake()
		in.Objects = &moody{Store: r.objects, fails: map[string]error{"archived": blob.ErrUnreadable, "prefix": blob.ErrKey}}
		r.run(in, 30*time.Second)
		want := []string{
			"2 refused not_found 2 text", "3 refused not_found 2 text", "4 refused not_readable 2 text", "5 refused object_key 2 text", "6 accepted",
		}
		if i, got := r.get(id), r.rows(id); i.State != job.ImportPartly || !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n%s\nwant\n%s", i.State, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

func TestASheetThatIsGoneHoldsUpNoImportThatFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, t.TempDir())
		defer r.close()
		r.put("inbox/acme/a.mp4", "a")
		gone, err := r.s.CreateImport(t.Context(), job.ImportSheet{Tenant: "acme", Name: "gone.csv", Object: "imports/gone/sheet"})
		if err != nil {
			t.Fatal(err)
		}
		id := r.hand("target,source\ngood,object:a.mp4\n", "")
		r.run(r.intake(), 30*time.Second)
		if i := r.get(gone.ID); i.State != job.ImportFailed || i.Reason == nil || i.Reason.Code != "sheet_gone" {
			t.Errorf("%+v, %+v", i, i.Reason)
		}
		if i := r.get(id); i.State != job.ImportCompleted {
			t.Errorf("the next one: %+v, %+v", i, i.Reason)
		}
	})
}

// away is a store that cannot be asked for a while.
type away struct {
	blob.Store
	until time.Time
}

func (a *away) Path(ctx context.Context, key, dir string) (string, error) {
	if time.Now().Before(a.until) {
		return "", errors.New("connection refused")
	}
	return a.Store.Path(ctx, key, dir)
}

func TestAnImportWhoseSheetCannotBeFetchedSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, t.TempDir())
		defer r.close()
		r.put("inbox/acme/a.mp4", "a")
		id := r.hand("target,source\ngood,object:a.mp4\n", "")
		in := r.intake()
		in.Objects = &away{r.objects, time.Now().Add(20 * time.Second)}
		r.run(in, 10*time.Second)
		if i := r.get(id); i.State != job.ImportPending || i.Reason == nil || i.Reason.Code != "fault" {
			t.Errorf("meanwhile: %+v, %+v", i, i.Reason)
		}
		r.run(in, 30*time.Second)
		if i := r.get(id); i.State != job.ImportCompleted || i.Reason != nil {
			t.Errorf("then: %+v, %+v", i, i.Reason)
		}
	})
}

// growing is a store during whose writing a file grows.
type growing struct {
	blob.Store
	file string
}

func (g growing) Create(ctx context.Context, key string) (blob.Writer, error) {
	w, err := g.Store.Create(ctx, key)
	return growingWriter{w, g.file}, err
}

type growingWriter struct {
	blob.Writer
	file string
}

func (g growingWriter) Write(p []byte) (int, error) {
	n, err := g.Writer.Write(p)
	return n, errors.Join(err, os.WriteFile(g.file, make([]byte, 2<<20), 0o600))
}

func TestAFileThatGrowsBeyondTheLimitIsNotCutOffInSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, t.TempDir())
		defer r.close()
		file := filepath.Join(r.dir, "a.mp4")
		if err := os.WriteFile(file, make([]byte, 1<<19), 0o600); err != nil {
			t.Fatal(err)
		}
		id := r.hand("source\na.mp4\n", r.dir)
		in := r.intake()
		in.Objects = growing{r.objects, file}
		r.run(in, 30*time.Second)
		if got := r.rows(id); !reflect.DeepEqual(got, []string{"2 refused too_large 2 text"}) {
			t.Errorf("%v", got)
		}
	})
}

// strict takes no target that is called bad.
type strict struct{ *job.Store }

func (s strict) Submit(ctx context.Context, sub job.Submission) (job.Job, error) {
	if sub.Target == "bad" {
		return job.Job{}, fmt.Errorf("submit: %w", &job.Invalid{Sentence: "Not this one."})
	}
	return s.Store.Submit(ctx, sub)
}

func TestASubmissionThatCanNeverBeTakenRefusesItsRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, t.TempDir())
		defer r.close()
		r.put("inbox/acme/a.mp4", "a")
		id := r.hand("target,source\nbad,object:a.mp4\ngood,object:a.mp4\n", "")
		in := r.intake()
		in.Record = strict{r.s}
		r.run(in, 30*time.Second)
		if got := r.rows(id); !reflect.DeepEqual(got, []string{"2 refused invalid 1 text", "3 accepted"}) {
			t.Errorf("%v", got)
		}
	})
}

// flaky hands in a sheet whose first rows have a source that fails, and returns its import and the store that fails them.
func (r *rig) flaky(failing, good int) (string, *moody) {
	r.put("inbox/acme/a.mp4", "a")
	r.put("inbox/acme/flaky.mp4", "f")
	text := "target,source\n"
	for n := range failing {
		text += fmt.Sprintf("f%d,object:flaky.mp4\n", n)
	}
	for n := range good {
		text += fmt.Sprintf("t%d,object:a.mp4\n", n)
	}
	return r.hand(text, ""), &moody{Store: r.objects, takes: 100 * time.Millisecond, fails: map[string]error{"flaky.mp4": errors.New("connection reset")}}
}

func TestRowsThatFailHoldUpNoneThatFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const failing, good = 1000, 1000
		r := newRig(t, t.TempDir())
		defer r.close()
		id, objects := r.flaky(failing, good)
		in := r.intake()
		in.Objects = objects
		// As long as the good ones take on their own, and two seconds for those in front of them.
		r.run(in, good/32*objects.takes+2*time.Second)
		if i := r.get(id); i.State != job.ImportRunning || i.Accepted != good || i.Refused != 0 {
			t.Fatalf("beside rows that fail: %+v", i)
		}
		r.run(in, 10*time.Minute)
		if i := r.get(id); i.Reason == nil || i.Reason.Code != "source_fault" {
			t.Fatalf("with nothing else left: %+v", i)
		}
		objects.fails = nil
		r.run(in, 10*time.Minute)
		if i := r.get(id); i.State != job.ImportCompleted || i.Accepted != failing+good || i.Reason != nil {
			t.Fatalf("after they have come: %+v", i)
		}
	})
}

// tired is a record whose rows have all been tried so often.
type tired struct {
	*job.Store
	tries int64
	waits []time.Duration
}

func (s *tired) PendingRows(ctx context.Context, id string, limit int) ([]job.ImportRow, time.Duration, error) {
	rows, wait, err := s.Store.PendingRows(ctx, id, limit)
	for i := range rows {
		rows[i].Tries += s.tries
	}
	return rows, wait, err
}

func (s *tired) PostponeRow(ctx context.Context, row job.RowRef, wait time.Duration) error {
	s.waits = append(s.waits, wait)
	return s.Store.PostponeRow(ctx, row, wait)
}

func TestARowIsTriedLessAndLessOftenAndRefusedAfterADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, t.TempDir())
		defer r.close()
		id, objects := r.flaky(1, 0)
		in := r.intake()
		record := &tired{Store: r.s}
		in.Record, in.Objects = record, objects
		r.run(in, 20*time.Minute)
		if got := fmt.Sprint(record.waits); got != "[5s 10s 20s 40s 1m20s 2m40s 5m0s 5m0s 5m0s]" {
			t.Errorf("waits %s", got)
		}
		record.tries = 290
		r.run(in, 10*time.Minute)
		want := []string{"2 refused not_read 2 text"}
		if i, got := r.get(id), r.rows(id); i.State != job.ImportFailed || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v: %v", i, got)
		}
	})
}

// twenty hands in small sheets of as many tenants.
func (r *rig) twenty() []job.Import {
	r.t.Helper()
	var all []job.Import
	for n := range 20 {
		tenant := fmt.Sprintf("small%02d", n)
		r.put("inbox/"+tenant+"/b.mp4", "b")
		r.put("imports/"+tenant+"/sheet", "target,source\none,object:b.mp4\ntwo,object:b.mp4\n")
		i, err := r.s.CreateImport(context.Background(), job.ImportSheet{Tenant: tenant, Name: "b.csv", Object: "imports/" + tenant + "/sheet"})
		if err != nil {
			r.t.Fatal(err)
		}
		i.Tenant = tenant
		all = append(all, i)
	}
	return all
}

func TestTwentySmallImportsAreDoneBesideALargeAndSlowOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, t.TempDir())
		defer r.close()
		r.put("inbox/acme/a.mp4", "a")
		text := "target,source\n"
		for n := range 2000 {
			text += fmt.Sprintf("t%d,object:a.mp4\n", n)
		}
		large := r.hand(text, "")
		small := r.twenty()
		in := r.intake()
		in.Objects = &moody{Store: r.objects, takes: 4 * time.Second} // 250 seconds for all of the large one's
		r.run(in, 30*time.Second)
		for _, s := range small {
			if i, err := r.s.Import(t.Context(), s.Tenant, s.ID); err != nil || i.State != job.ImportCompleted {
				t.Errorf("%s's: %+v, %v", s.Tenant, i, err)
			}
		}
		if i := r.get(large); i.State != job.ImportRunning || i.Accepted < 128 {
			t.Errorf("the large one: %+v", i)
		}
		r.run(in, 5*time.Minute)
		if i := r.get(large); i.State != job.ImportCompleted {
			t.Errorf("the large one at its end: %+v", i)
		}
	})
}

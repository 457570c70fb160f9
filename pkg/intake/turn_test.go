package intake_test

import (
	"context"
	"errors"
	"fmt"
	"io"
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

func TestARowThatIsTriedAgainHoldsUpNoOtherRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, t.TempDir())
		defer r.close()
		r.put("inbox/acme/a.mp4", "a")
		r.put("inbox/acme/flaky.mp4", "f")
		text := "target,source\nflaky,object:flaky.mp4\n"
		for n := range 100 {
			text += fmt.Sprintf("t%d,object:a.mp4\n", n)
		}
		id := r.hand(text, "")
		objects := &moody{Store: r.objects, takes: time.Second, fails: map[string]error{"flaky.mp4": errors.New("connection reset")}}
		in := r.intake()
		in.Objects = objects
		r.run(in, 30*time.Second)
		if i := r.get(id); i.State != job.ImportRunning || i.Accepted != 100 || i.Reason == nil || i.Reason.Code != "fault" {
			t.Fatalf("beside a row that fails: %+v", i)
		}
		objects.fails = nil
		r.run(in, 30*time.Second)
		if i := r.get(id); i.State != job.ImportCompleted || i.Accepted != 101 {
			t.Fatalf("after it has come: %+v", i)
		}
	})
}

func TestASlowImportEndsItsTurnForTheNextTenants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, t.TempDir())
		defer r.close()
		r.put("inbox/acme/a.mp4", "a")
		r.put("inbox/other/b.mp4", "b")
		text := "target,source\n"
		for n := range 64 {
			text += fmt.Sprintf("t%d,object:a.mp4\n", n)
		}
		id := r.hand(text, "")
		r.put("imports/y/sheet", "source\nobject:b.mp4\n")
		theirs, err := r.s.CreateImport(t.Context(), job.ImportSheet{Tenant: "other", Name: "b.csv", Object: "imports/y/sheet"})
		if err != nil {
			t.Fatal(err)
		}
		in := r.intake()
		in.Objects = &moody{Store: r.objects, takes: 4 * time.Second} // 16 seconds for all of them
		r.run(in, 15*time.Second)
		if i, err := r.s.Import(t.Context(), "other", theirs.ID); err != nil || i.Accepted != 1 {
			t.Errorf("the other tenant's: %+v, %v", i, err)
		}
		if i := r.get(id); i.State != job.ImportRunning || i.Accepted < 16 {
			t.Errorf("the slow one: %+v", i)
		}
		r.run(in, time.Minute)
		if i := r.get(id); i.State != job.ImportCompleted || i.Accepted != 64 {
			t.Errorf("the slow one at its end: %+v", i)
		}
	})
}

package job_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/outcome"
)

func TestATenantSeesOnlyItsOwn(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		j := f.submit(f.submission("talk"))
		if _, err := f.s.Job(f.ctx, "other", j.ID); !errors.Is(err, job.ErrNotFound) {
			t.Fatalf("somebody else's job: %v", err)
		}
		if _, err := f.s.Seq(f.ctx, "other", j.ID); !errors.Is(err, job.ErrNotFound) {
			t.Fatalf("somebody else's change number: %v", err)
		}
		if page, _, err := f.s.Jobs(f.ctx, job.Filter{Tenant: "other"}); err != nil || len(page) != 0 {
			t.Fatalf("somebody else's list: %+v, %v", page, err)
		}
	})
}

func TestListsArePagedAndFiltered(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		var ids []string
		for i := range 5 {
			ids = append(ids, f.submit(f.submission(fmt.Sprint("talk", i))).ID)
		}
		if err := f.s.Cancel(f.ctx, "acme", ids[2], "test", ""); err != nil {
			t.Fatal(err)
		}
		var seen []string
		filter := job.Filter{Tenant: "acme", Limit: 2}
		for pages := 0; ; pages++ {
			page, next, err := f.s.Jobs(f.ctx, filter)
			if err != nil || pages > 3 {
				t.Fatalf("page %d: %v", pages, err)
			}
			for _, j := range page {
				seen = append(seen, j.ID)
			}
			if filter.Cursor = next; next == "" {
				break
			}
		}
		if len(seen) != 5 {
			t.Fatalf("seen %v of %v", seen, ids)
		}
		count := func(fl job.Filter) int {
			fl.Tenant = "acme"
			page, _, err := f.s.Jobs(f.ctx, fl)
			if err != nil {
				t.Fatal(err)
			}
			return len(page)
		}
		if a, b, c := count(job.Filter{State: job.Cancelled}), count(job.Filter{State: job.Queued}), count(job.Filter{Target: "talk4"}); a != 1 || b != 4 || c != 1 {
			t.Fatalf("cancelled %d, open %d, of target %d", a, b, c)
		}
		if a, b := count(job.Filter{Target: "talk2", State: job.Cancelled}), count(job.Filter{Target: "talk2", State: job.Queued}); a != 1 || b != 0 {
			t.Fatalf("of a cancelled target: %d cancelled, %d open", a, b)
		}
		if _, _, err := f.s.Jobs(f.ctx, job.Filter{Tenant: "acme", Limit: 501}); err == nil {
			t.Fatal("a page of 501")
		}
	})
}

func TestAPausedStageIsSaidOfItsQueuedSteps(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		j := f.submit(f.submission("talk"))
		if err := f.s.Pause(f.ctx, job.PauseEntry{Stage: "ingest", Reason: "provider down", Who: "ann", Until: time.Now().Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
		f.state(j.ID, job.Paused)
		all, err := f.s.Pauses(f.ctx)
		if err != nil || len(all) != 1 || all[0].Who != "ann" || all[0].Until.IsZero() {
			t.Fatalf("pauses %+v, %v", all, err)
		}
		if err := f.s.Resume(f.ctx, "ingest", "bob"); err != nil {
			t.Fatal(err)
		}
		f.state(j.ID, job.Queued)
		lines, err := f.s.Strings(f.ctx, "SELECT who || ' ' || action FROM audit ORDER BY id")
		if err != nil || strings.Join(lines, ",") != "ann pause,bob resume" {
			t.Fatalf("audit %v, %v", lines, err)
		}
	})
}

func TestWorkersAreThoseSeenLately(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		w := job.WorkerStatus{ID: "w1", Stage: "ingest", Slots: 2, Breaker: "closed"}
		for range 2 {
			if err := f.s.ReportWorker(f.ctx, w); err != nil {
				t.Fatal(err)
			}
			w.Busy = 1
		}
		all, err := f.s.Workers(f.ctx, time.Minute)
		if err != nil || len(all) != 1 || all[0].Busy != 1 || all[0].SeenAt.IsZero() {
			t.Fatalf("workers %+v, %v", all, err)
		}
		if err := f.s.Change(f.ctx, "UPDATE worker SET seen_at = 1"); err != nil {
			t.Fatal(err)
		}
		if all, err := f.s.Workers(f.ctx, time.Minute); err != nil || len(all) != 0 {
			t.Fatalf("workers %+v, %v", all, err)
		}
	})
}

func TestTheJSONNamesAreThoseThatOutsideChecksUse(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		j := f.submit(f.submission("talk"))
		f.end(f.claim("ingest"), outcome.Reject("not_media", "No."))
		raw, err := json.Marshal(f.job(j.ID))
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			ID, State string
			Reason    struct{ Code, Sentence string }
			Steps     []struct {
				Stage, State string
				Attempts     *int
			}
			Result any
		}
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Fatal(err)
		}
		if got.ID != j.ID || got.State != "refused" || got.Reason.Code != "not_media" || got.Steps[0].Stage != "ingest" || got.Steps[0].State != "refused" || got.Steps[0].Attempts == nil {
			t.Fatalf("%s", raw)
		}
	})
}

func TestAnUnmigratedDatabaseIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "empty.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := job.Open(t.Context(), "sqlite:"+path, job.Options{}); !errors.Is(err, job.ErrSchema) {
		t.Fatalf("error %v, want ErrSchema", err)
	}
}

func TestARecordThatIsNotThereIsNotMadeByLookingForIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gone.db")
	if _, err := job.Open(t.Context(), "sqlite:"+path, job.Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestAStoreThatCannotBeOpenedSaysWhyWithoutItsPassword(t *testing.T) {
	for _, url := range []string{"mysql://x", "postgres://u:secret@127.0.0.1:1/db?connect_timeout=1", "postgres://u:secret@:bad/db"} {
		_, err := job.Open(t.Context(), url, job.Options{})
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("error %v", err)
		}
	}
	for _, opt := range []job.Options{{MaxConns: -1}, {SoftLimit: -1}, {SoftLimit: 3, HardLimit: 2}, {ReconcileEvery: -1}} {
		if _, err := job.Open(t.Context(), "sqlite:x", opt); err == nil {
			t.Errorf("accepted %+v", opt)
		}
	}
}

package intake_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagefleet/stagefleet/pkg/admin"
	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/recording"
	"github.com/stagefleet/stagefleet/workers"
)

// collect removes garbage as the server does, and returns the keys that are left.
func (r *rig) collect() []string {
	r.t.Helper()
	stages, err := workers.Stages.Ordered()
	if err != nil {
		r.t.Fatal(err)
	}
	o := &admin.Operator{Stages: stages, Record: r.s, Objects: r.objects}
	for more := true; more; {
		c, err := o.Collect(context.Background(), 0, false, "test")
		if err != nil {
			r.t.Fatal(err)
		}
		more = c.More
	}
	return r.keys()
}

// keys are those of whole objects; what a killed writer has left unfinished the store sweeps by itself.
func (r *rig) keys() []string {
	r.t.Helper()
	root := filepath.Join(r.dir, "objects")
	var keys []string
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if entry.Name() == ".tmp" {
			return fs.SkipDir
		}
		if err == nil && entry.Type().IsRegular() {
			keys = append(keys, strings.TrimPrefix(name, root+"/"))
		}
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return keys
}

// database opens the record behind its back.
func (r *rig) database() *sql.DB {
	r.t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(r.dir, "record.db"))
	if err != nil {
		r.t.Fatal(err)
	}
	return db
}

// referred are the objects that jobs have as their inputs.
func (r *rig) referred() []string {
	r.t.Helper()
	db := r.database()
	defer func() { _ = db.Close() }()
	rows, err := db.QueryContext(context.Background(), "SELECT input FROM step WHERE is_first = 1")
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var keys []string
	for rows.Next() {
		var input string
		var s recording.Source
		if err := errors.Join(rows.Scan(&input), json.Unmarshal([]byte(input), &s)); err != nil {
			r.t.Fatal(err)
		}
		keys = append(keys, s.Object.Key)
	}
	if err := rows.Err(); err != nil {
		r.t.Fatal(err)
	}
	slices.Sort(keys)
	return keys
}

// talks puts recordings into a folder and returns it, and the rows of a sheet that names them.
func (r *rig) talks(n int) (folder, rows string) {
	folder = filepath.Join(r.dir, "talks")
	_ = os.MkdirAll(folder, 0o755)
	for i := range n {
		name := fmt.Sprintf("%d.mp4", i)
		if err := os.WriteFile(filepath.Join(folder, name), []byte(name), 0o644); err != nil {
			r.t.Fatal(err)
		}
		rows += fmt.Sprintf("t%d,%s,\n", i, name)
	}
	return folder, rows
}

// dying is a record whose process ends right after it has copied so many sources: nothing is noted any more.
type dying struct {
	*job.Store
	left atomic.Int64
	dead context.CancelFunc
}

func (d *dying) Submit(ctx context.Context, s job.Submission) (job.Job, error) {
	if d.left.Add(-1) < 0 {
		d.dead()
		return job.Job{}, context.Canceled
	}
	return d.Store.Submit(ctx, s)
}

func (d *dying) NoteSource(ctx context.Context, row job.RowRef, source json.RawMessage) error {
	return context.Canceled
}

func TestOfWhatAnImportHasStoredOnlyWhatItsJobsReferToStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, t.TempDir())
		defer r.close()
		folder, rows := r.talks(40)
		r.put("inbox/acme/kept.mp4", "k")
		id := r.hand("target,source,version\n"+rows+"t0,1.mp4,7\nkept,object:kept.mp4,\ngone,gone.mp4,\n", folder)

		ctx, stop := context.WithCancel(t.Context())
		record := &dying{Store: r.s, dead: stop}
		record.left.Store(10)
		in := r.intake()
		in.Record = record
		if err := in.Run(ctx); err != nil {
			t.Fatal(err)
		}
		accepted, copied := r.get(id).Accepted, len(r.keys())-2 // without the sheet and what is in the inbox
		if accepted == 0 || copied <= int(accepted) {
			t.Fatalf("%d copies and %d jobs: the crash has left nothing", copied, accepted)
		}

		sleep(30 * 24 * time.Hour)
		if left := r.collect(); len(left) != copied+2 {
			t.Fatalf("%d objects of an open import are left of %d", len(left), copied+2)
		}
		if i := r.finish(id); i.State != job.ImportPartly || i.Accepted != 42 || i.Refused != 1 {
			t.Fatalf("%+v", i)
		}
		ended := r.keys()
		if left := r.collect(); !slices.Equal(left, ended) {
			t.Errorf("collected as soon as the import has ended: %d of %d are left", len(left), len(ended))
		}
		sleep(7 * 24 * time.Hour)
		left, want := r.collect(), r.referred()
		if !slices.Equal(left, want) || len(want) != 42 {
			t.Errorf("%d objects are left, %d referred to:\n%s\n%s", len(left), len(want), strings.Join(left, "\n"), strings.Join(want, "\n"))
		}
	})
}

func TestACopyThatIsGoneIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, t.TempDir())
		defer r.close()
		if err := r.s.SetLimits(t.Context(), job.Account{Tenant: "acme", Unlimited: true, MaxInFlight: 1}, "test"); err != nil {
			t.Fatal(err)
		}
		folder, rows := r.talks(3)
		id := r.hand("target,source,version\n"+rows, folder)
		r.run(r.intake(), time.Minute) // the others are copied and wait for room
		jobs, _, err := r.s.Jobs(t.Context(), job.Filter{Tenant: "acme"})
		if err != nil || len(jobs) != 1 {
			t.Fatal(len(jobs), err)
		}
		for _, key := range r.keys() {
			if slices.Contains(r.referred(), key) || !strings.HasPrefix(key, "uploads/") {
				continue
			}
			folder := filepath.Dir(key)
			if mine, err := r.s.Condemn(t.Context(), folder); !mine || err != nil {
				t.Fatal(mine, err)
			}
			if _, err := r.objects.RemoveAll(t.Context(), folder); err != nil {
				t.Fatal(err)
			}
			if err := r.s.Dropped(t.Context(), folder); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.s.SetLimits(t.Context(), job.Account{Tenant: "acme", Unlimited: true}, "test"); err != nil {
			t.Fatal(err)
		}
		if i := r.finish(id); i.State != job.ImportCompleted || i.Accepted != 3 {
			t.Fatalf("%+v", i)
		}
		for _, key := range r.referred() {
			if _, err := r.objects.Open(t.Context(), key); err != nil {
				t.Error(err)
			}
		}
	})
}

package admin_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagefleet/stagefleet/pkg/admin"
	"github.com/stagefleet/stagefleet/pkg/blob"
	"github.com/stagefleet/stagefleet/pkg/job"
)

// collector is a server's collection of garbage on a record and a folder that it may share with others.
func collector(t *testing.T, dir string) *admin.Operator {
	t.Helper()
	record, err := job.Open(t.Context(), "sqlite:"+filepath.Join(dir, "fleet.db"), job.Options{Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	objects, err := blob.NewFolder(filepath.Join(dir, "objects"))
	if err != nil {
		t.Fatal(err)
	}
	stages, err := pipeline.Ordered()
	if err != nil {
		t.Fatal(err)
	}
	return &admin.Operator{Stages: stages, Record: record, Objects: objects}
}

// leave puts an upload there that no job takes.
func leave(t *testing.T, o *admin.Operator, folder string) {
	t.Helper()
	if err := o.Record.Uploaded(t.Context(), folder); err != nil {
		t.Fatal(err)
	}
	w, err := o.Objects.Create(t.Context(), folder+"/source")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(strings.Repeat("x", 7))); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Commit(); err != nil {
		t.Fatal(err)
	}
}

func TestEveryHourTheServerThatLeadsCollectsWhatNobodyCanBeWriting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		o, other := collector(t, dir), collector(t, dir)
		leave(t, o, "uploads/a")
		ctx, cancel := context.WithCancel(t.Context())
		all := make(chan admin.Collected, 10)
		ended := make(chan error, 1)
		start := time.Now()
		go func() {
			ended <- o.Collecting(ctx, func(c admin.Collected) { all <- c }, func(err error) { t.Error(err) })
		}()
		defer func() {
			cancel()
			if err := errors.Join(<-ended, o.Record.Close(), other.Record.Close()); err != nil {
				t.Error(err)
			}
		}()
		due := start.Add(o.Horizon().Truncate(time.Hour) + time.Hour)
		settle(time.Until(due) - time.Second)
		if len(all) != 0 {
			t.Fatalf("collected what may still be written: %+v", <-all)
		}
		if !other.Record.Leads(t.Context()) {
			t.Fatal("the other server does not lead")
		}
		settle(time.Second)
		if len(all) != 0 {
			t.Fatalf("collected while another server leads: %+v", <-all)
		}
		settle(time.Hour - 1)
		if len(all) != 0 {
			t.Fatalf("collected before the hour is over: %+v", <-all)
		}
		settle(1)
		if len(all) != 1 {
			t.Fatalf("collected %d times in the hour, want once", len(all))
		}
		if c := <-all; c.Uploads != 1 || c.Objects != 1 || c.Bytes != 7 {
			t.Fatalf("collected %+v", c)
		}
		settle(24 * time.Hour)
		if len(all) != 0 {
			t.Errorf("told of collections of nothing: %+v", <-all)
		}
	})
}

// stubborn is an object store that cannot remove some folders.
type stubborn struct {
	blob.Store
	cannot func(folder string) bool
}

func (s stubborn) RemoveAll(ctx context.Context, folder string) (blob.Usage, error) {
	if s.cannot(folder) {
		return blob.Usage{}, errors.New("permission denied")
	}
	return s.Store.RemoveAll(ctx, folder)
}

func TestWhatCannotBeRemovedIsToldAndHoldsNothingElseUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := collector(t, t.TempDir())
		defer func() {
			if err := o.Record.Close(); err != nil {
				t.Error(err)
			}
		}()
		cannot := func(folder string) bool { return folder < "uploads/stuck~" } // the first 501: more than one look
		o.Objects = stubborn{o.Objects, cannot}
		told := 0
		o.Unremoved = func(folder string, err error) {
			if !cannot(folder) || err == nil {
				t.Errorf("told of %s: %v", folder, err)
			}
			told++
		}
		for i := range 501 {
			if err := o.Record.Uploaded(t.Context(), fmt.Sprintf("uploads/stuck%03d", i)); err != nil {
				t.Fatal(err)
			}
		}
		leave(t, o, "uploads/x")
		leave(t, o, "uploads/y")
		settle(o.Horizon() + time.Second)
		c, err := o.Collect(t.Context(), 0, false, "test")
		if err != nil || c.Uploads != 2 || c.Objects != 2 || c.Failed != 501 || told != 501 || c.More {
			t.Fatalf("collected %+v, %v; told of %d", c, err, told)
		}
		o.Objects = o.Objects.(stubborn).Store
		total := 0
		for more := true; more; {
			c, err := o.Collect(t.Context(), 0, false, "test")
			if err != nil || c.Failed != 0 {
				t.Fatalf("collected %+v, %v", c, err)
			}
			total, more = total+c.Uploads, c.More
		}
		if total != 501 {
			t.Errorf("%d removed once they could be, want 501", total)
		}
	})
}

func TestACollectionThatCanRemoveNothingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := collector(t, t.TempDir())
		o.Objects = stubborn{o.Objects, func(string) bool { return true }}
		for i := range 2500 {
			if err := o.Record.Uploaded(t.Context(), fmt.Sprint("uploads/", i)); err != nil {
				t.Fatal(err)
			}
		}
		settle(o.Horizon() + time.Second)
		c, err := o.Collect(t.Context(), 0, false, "test")
		if err != nil || c.Failed != 2000 || c.More {
			t.Errorf("collected %+v, %v", c, err)
		}
		if err := o.Record.Close(); err != nil {
			t.Error(err)
		}
	})
}

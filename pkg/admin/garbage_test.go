package admin_test

import (
	"context"
	"errors"
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

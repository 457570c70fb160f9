package api_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/stagefleet/stagefleet/pkg/internal/sqldb/sqldbtest"
	"github.com/stagefleet/stagefleet/pkg/job"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if c := cluster.running; c != nil {
		if err := c.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop postgres:", err)
			code = 1
		}
	}
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if code == 0 && !undemonstrated() {
		code = 1
	}
	os.Exit(code)
}

// cluster is the Postgres of this test run, started by the first test that needs it.
var cluster struct {
	once    sync.Once
	running *sqldbtest.Cluster
	err     error
	next    atomic.Int64
}

// open returns an empty record of the kind, sqlite or postgres.
func open(t testing.TB, kind string, opt job.Options) *job.Store {
	t.Helper()
	url := "sqlite:" + filepath.Join(t.TempDir(), "record.db")
	if kind == "postgres" {
		url = postgres(t)
	}
	opt.Migrate = true
	store, err := job.Open(t.Context(), url, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func postgres(t testing.TB) string {
	t.Helper()
	cluster.once.Do(func() { cluster.running, cluster.err = sqldbtest.New(context.Background(), sqldbtest.Fast...) })
	if errors.Is(cluster.err, sqldbtest.ErrMissing) && os.Getenv("CI") == "" {
		t.Skip(cluster.err)
	}
	if cluster.err != nil {
		t.Fatal(cluster.err)
	}
	url, err := cluster.running.Create(t.Context(), fmt.Sprintf("t%d", cluster.next.Add(1)), "")
	if err != nil {
		t.Fatal(err)
	}
	return url
}

// onBoth runs a test on each of the two stores.
func onBoth(t *testing.T, test func(t *testing.T, kind string)) {
	for _, kind := range []string{"sqlite", "postgres"} {
		t.Run(kind, func(t *testing.T) { test(t, kind) })
	}
}

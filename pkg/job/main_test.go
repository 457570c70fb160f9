package job_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/stagefleet/stagefleet/pkg/internal/sqldb/sqldbtest"
	"github.com/stagefleet/stagefleet/pkg/job"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(childRole); role != "" {
		os.Exit(runChild(role))
	}
	flag.Parse()
	if err := lighten(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
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
	os.Exit(code)
}

// lighten sets the sizes that the command line has not.
func lighten() error {
	sizes := map[string]int{"rapid.checks": 100 / raceShare, "plans.jobs": 30000 / raceShare}
	flag.Visit(func(f *flag.Flag) { delete(sizes, f.Name) })
	for name, n := range sizes {
		if err := flag.Set(name, strconv.Itoa(n)); err != nil {
			return err
		}
	}
	return nil
}

// cluster is the Postgres of this test run, started by the first test that needs it.
var cluster struct {
	once    sync.Once
	running *sqldbtest.Cluster
	err     error
	next    atomic.Int64
}

func postgres(t testing.TB) *sqldbtest.Cluster {
	t.Helper()
	cluster.once.Do(func() {
		ctx := context.Background()
		if cluster.running, cluster.err = sqldbtest.New(ctx, sqldbtest.Fast...); cluster.err != nil {
			return
		}
		var url string
		if url, cluster.err = cluster.running.Create(ctx, "migrated", ""); cluster.err != nil {
			return
		}
		var s *job.Store
		if s, cluster.err = job.Open(ctx, url, job.Options{Migrate: true}); cluster.err == nil {
			cluster.err = s.Close()
		}
	})
	if errors.Is(cluster.err, sqldbtest.ErrMissing) && os.Getenv("CI") == "" {
		t.Skip(cluster.err)
	}
	if cluster.err != nil {
		t.Fatal(cluster.err)
	}
	return cluster.running
}

// freshURL returns the address of an empty, migrated database of the kind.
func freshURL(t testing.TB, kind string) string {
	t.Helper()
	if kind == "postgres" {
		c := postgres(t)
		url, err := c.Create(t.Context(), fmt.Sprintf("t%d", cluster.next.Add(1)), "migrated")
		if err != nil {
			t.Fatal(err)
		}
		return url
	}
	return "sqlite:" + filepath.Join(t.TempDir(), "record.db")
}

func open(t testing.TB, url string, opt job.Options) *job.Store {
	t.Helper()
	opt.Migrate = true
	s, err := job.Open(t.Context(), url, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

var kinds = []string{"sqlite", "postgres"}

// onBoth runs a test on an empty store of each kind.
func onBoth(t *testing.T, test func(t *testing.T, f *fixture)) {
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			test(t, newFixture(t, open(t, freshURL(t, kind), job.Options{})))
		})
	}
}

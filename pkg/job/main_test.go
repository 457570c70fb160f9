package job_test

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
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
	code := databases.Run(m)
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

// databases are those of this test run.
var databases = sqldbtest.Databases{Prepare: func(ctx context.Context, url string) error {
	s, err := job.Open(ctx, url, job.Options{Migrate: true})
	if err != nil {
		return err
	}
	return s.Close()
}}

// freshURL returns the address of a database of the kind that is the test's own; on Postgres it is migrated.
func freshURL(t testing.TB, kind string) string { return databases.URL(t, kind) }

// unmigratedURL returns the address of an empty database of the kind that is the test's own.
func unmigratedURL(t testing.TB, kind string) string {
	t.Helper()
	if kind == "sqlite" {
		return freshURL(t, kind)
	}
	url, err := databases.Cluster(t).Create(t.Context(), "empty_"+strings.ToLower(rand.Text()), "")
	if err != nil {
		t.Fatal(err)
	}
	return url
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

var kinds = sqldbtest.Kinds

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

package api_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/stagefleet/stagefleet/pkg/internal/sqldb/sqldbtest"
	"github.com/stagefleet/stagefleet/pkg/job"
)

func TestMain(m *testing.M) {
	code := databases.Run(m)
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if code == 0 && !undemonstrated() {
		code = 1
	}
	os.Exit(code)
}

// databases are those of this test run.
var databases = sqldbtest.Databases{Prepare: func(ctx context.Context, url string) error {
	store, err := job.Open(ctx, url, job.Options{Migrate: true})
	if err != nil {
		return err
	}
	return store.Close()
}}

// open returns an empty record of the kind, sqlite or postgres.
func open(t testing.TB, kind string, opt job.Options) *job.Store {
	t.Helper()
	opt.Migrate = true
	store, err := job.Open(t.Context(), databases.URL(t, kind), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// onBoth runs a test on each of the two stores.
func onBoth(t *testing.T, test func(t *testing.T, kind string)) {
	for _, kind := range sqldbtest.Kinds {
		t.Run(kind, func(t *testing.T) { test(t, kind) })
	}
}

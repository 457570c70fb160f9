package sqldbtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// Kinds are the databases that every promise about the record is tested on.
var Kinds = []string{"sqlite", "postgres"}

// Databases are those of one test binary: files of SQLite, and databases of one Postgres, which the first test in need
// starts and Run stops. The zero value makes empty ones. Safe for concurrent use.
type Databases struct {
	Prepare func(ctx context.Context, url string) error // fills what every Postgres database is a copy of; nil: nothing

	start   sync.Once
	running *Cluster
	err     error
	made    atomic.Int64
}

const prepared = "prepared"

// Run runs the tests of a package and stops the Postgres that they have used. It returns the exit status.
func (d *Databases) Run(m *testing.M) int {
	code := m.Run()
	if d.running != nil {
		if err := d.running.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop postgres:", err)
			code = 1
		}
	}
	return code
}

// URL returns the address of a database of the kind that is this test's own.
func (d *Databases) URL(t testing.TB, kind string) string {
	t.Helper()
	if kind == "sqlite" {
		return "sqlite:" + filepath.Join(t.TempDir(), "a b?.db") // what a URL must not trip over
	}
	template := ""
	c := d.Cluster(t)
	if d.Prepare != nil {
		template = prepared
	}
	url, err := c.Create(t.Context(), fmt.Sprintf("t%d", d.made.Add(1)), template)
	if err != nil {
		t.Fatal(err)
	}
	return url
}

// Cluster returns the Postgres of the test binary. Where none is installed the test is skipped, and fails in CI.
func (d *Databases) Cluster(t testing.TB) *Cluster {
	t.Helper()
	d.start.Do(func() { d.err = d.run(context.Background()) })
	if errors.Is(d.err, ErrMissing) && os.Getenv("CI") == "" {
		t.Skip(d.err)
	}
	if d.err != nil {
		t.Fatal(d.err)
	}
	return d.running
}

func (d *Databases) run(ctx context.Context) error {
	var err error
	if d.running, err = New(ctx, Fast...); err != nil {
		return err
	}
	d.running.Locale = "en-US" // as production's are, unlike SQLite's: what relies on the order of bytes fails here
	if d.Prepare == nil {
		return nil
	}
	url, err := d.running.Create(ctx, prepared, "")
	if err != nil {
		return err
	}
	return d.Prepare(ctx, url)
}

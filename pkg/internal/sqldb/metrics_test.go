package sqldb_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagefleet/stagefleet/pkg/internal/sqldb"
	"github.com/stagefleet/stagefleet/pkg/internal/sqldb/sqldbtest"
)

func TestTheMetricsTellOfTheDatabase(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	db := open(t, url(t, "sqlite"), sqldb.Options{Registerer: registry})
	if err := db.Update(t.Context(), "nothing", func(*sqldb.Tx) error { return nil }); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range families {
		names = append(names, f.GetName())
	}
	want := "fleet_db_begin_wait_seconds fleet_db_connections_busy fleet_db_connections_max fleet_db_transaction_seconds"
	if got := strings.Join(names, " "); got != want {
		t.Fatalf("metrics %s, want %s", got, want)
	}
}

// gauges returns the values of the gauges that a registry has.
func gauges(t *testing.T, r prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if m.GetGauge() != nil {
				values[f.GetName()] = m.GetGauge().GetValue()
			}
		}
	}
	return values
}

func TestAWaitForALockOfPostgresShowsWhileItLastsEvenWhenThePoolIsUsedUp(t *testing.T) {
	const waiting, longest = "fleet_db_lock_waiting", "fleet_db_lock_wait_longest_seconds"
	registry := prometheus.NewPedanticRegistry()
	db := open(t, url(t, "postgres"), sqldb.Options{Registerer: registry, MaxConns: 2})
	if _, err := db.Migrate(t.Context(), files); err != nil {
		t.Fatal(err)
	}
	insert(t, db, "a", 0)
	if g := gauges(t, registry); g[waiting] != 0 || g[longest] != 0 {
		t.Fatalf("nobody waits, and the gauges are %v", g)
	}
	lock := func(then func()) error {
		return db.Update(context.WithoutCancel(t.Context()), "lock", func(tx *sqldb.Tx) error {
			_, err := tx.Exec(t.Context(), "UPDATE thing SET n = n + 1 WHERE id = 'a'")
			then()
			return err
		})
	}
	held, let, ended := make(chan struct{}), make(chan struct{}), make(chan error, 2)
	go func() { ended <- lock(func() { close(held); <-let }) }()
	<-held
	go func() { ended <- lock(func() {}) }()
	g := gauges(t, registry)
	for deadline := time.Now().Add(2 * time.Second); g[longest] < 0.1 && time.Now().Before(deadline); g = gauges(t, registry) {
		<-time.After(10 * time.Millisecond)
	}
	if g[waiting] != 1 || g[longest] < 0.1 || g["fleet_db_connections_busy"] != 2 {
		t.Errorf("one waits, and the gauges are %v", g)
	}
	close(let)
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if g := gauges(t, registry); g[waiting] != 0 || g[longest] != 0 {
		t.Errorf("nobody waits any more, and the gauges are %v", g)
	}
}

func TestNoGaugeOfLocksIsBetterThanAWrongOne(t *testing.T) {
	c, err := sqldbtest.New(t.Context(), sqldbtest.Fast...)
	if errors.Is(err, sqldbtest.ErrMissing) && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Stop() })
	registry := prometheus.NewPedanticRegistry()
	open(t, c.URL("postgres"), sqldb.Options{Registerer: registry})
	if _, ok := gauges(t, registry)["fleet_db_lock_waiting"]; !ok {
		t.Error("no gauge of a database that is well")
	}
	if err := c.Kill(); err != nil {
		t.Fatal(err)
	}
	if g, ok := gauges(t, registry)["fleet_db_lock_waiting"]; ok {
		t.Errorf("%v sessions wait in a database that is gone", g)
	}
}

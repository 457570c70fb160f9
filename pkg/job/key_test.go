package job_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stagefleet/stagefleet/pkg/internal/sqldb"
	"github.com/stagefleet/stagefleet/pkg/job"
)

func (f *fixture) key(lifetime time.Duration) job.NewKey {
	f.t.Helper()
	_, err := f.s.CreateAccount(f.ctx, "acme", job.Limits{}, "me")
	f.must(err)
	key, err := f.s.CreateKey(f.ctx, job.KeyRequest{Tenant: "acme", Name: "ci", Scopes: job.AllScopes(), PerMinute: 7, Lifetime: lifetime}, "me")
	f.must(err)
	return key
}

func (f *fixture) rotate(id string, overlap time.Duration) job.NewKey {
	f.t.Helper()
	key, err := f.s.RotateKey(f.ctx, id, overlap, "me")
	f.must(err)
	return key
}

// life is how long a key lives from its making; zero: until it is revoked.
func life(k job.Key) time.Duration {
	if k.ExpiresAt == nil {
		return 0
	}
	return k.ExpiresAt.Sub(k.CreatedAt).Round(time.Second)
}

func TestAKeyKeepsItsLifetimeThroughRotations(t *testing.T) {
	const month = 30 * 24 * time.Hour
	onBoth(t, func(t *testing.T, f *fixture) {
		for _, lifetime := range []time.Duration{0, month} {
			first := f.key(lifetime)
			second := f.rotate(first.ID, time.Hour)
			third := f.rotate(second.ID, 0)
			fourth := f.rotate(third.ID, 2*month)
			for _, key := range []job.NewKey{first, second, third, fourth} {
				if life(key.Key) != lifetime {
					t.Errorf("a key of %v lives for %v", lifetime, life(key.Key))
				}
			}
			if fourth.Name != "ci" || fourth.PerMinute != 7 || fourth.Tenant != "acme" || fourth.Scopes.String() != first.Scopes.String() {
				t.Errorf("the successor is %+v", fourth.Key)
			}
			want := map[string]time.Duration{first.ID: time.Hour, second.ID: 0, third.ID: 2 * month, fourth.ID: lifetime}
			if lifetime > 0 {
				want[third.ID] = lifetime // the overlap lengthens no life
			}
			all, err := f.s.Keys(f.ctx, "acme")
			f.must(err)
			for _, k := range all {
				if left, mine := want[k.ID]; mine && life(k) != left {
					t.Errorf("after the rotations a key of %v lives for %v, want %v", lifetime, life(k), left)
				}
			}
		}
	})
}

func TestARotatedKeyInItsOverlapIsRotatedForItsWholeLifetimeAndADeadOneNotAtAll(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		old := f.key(24 * time.Hour)
		f.rotate(old.ID, time.Minute)
		if again := f.rotate(old.ID, time.Minute); life(again.Key) != 24*time.Hour {
			t.Errorf("the second successor lives for %v", life(again.Key))
		}
		f.must(f.s.Change(f.ctx, "UPDATE api_key SET expires_at = 1 WHERE id = $1", old.ID))
		if _, err := f.s.RotateKey(f.ctx, old.ID, 0, "me"); !errors.Is(err, job.ErrEnded) {
			t.Errorf("a key that has expired: %v, want ErrEnded", err)
		}
	})
}

// migrationsUpTo are those of the record up to a number.
func migrationsUpTo(t *testing.T, last string) fstest.MapFS {
	t.Helper()
	const dir = "sql/migrations"
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := fstest.MapFS{}
	for _, e := range entries {
		if strings.Compare(e.Name()[:len(last)], last) > 0 {
			continue
		}
		raw, err := os.ReadFile(dir + "/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = &fstest.MapFile{Data: raw}
	}
	return files
}

// onOld runs a test on the address of a database of each kind as it was after a migration, with rows in it.
func onOld(t *testing.T, last string, rows []string, test func(t *testing.T, f *fixture)) {
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			url := unmigratedURL(t, kind)
			db, err := sqldb.Open(t.Context(), url, sqldb.Options{})
			if err != nil {
				t.Fatal(err)
			}
			_, err = db.Migrate(t.Context(), migrationsUpTo(t, last))
			for _, row := range rows {
				err = errors.Join(err, db.Update(t.Context(), "test", func(tx *sqldb.Tx) error {
					_, err := tx.Exec(t.Context(), row)
					return err
				}))
			}
			if err := errors.Join(err, db.Close()); err != nil {
				t.Fatal(err)
			}
			test(t, newFixture(t, open(t, url, job.Options{})))
		})
	}
}

func TestKeysOfAnEarlierReleaseKeepTheLifetimeThatTheyHave(t *testing.T) {
	onOld(t, "00010", []string{
		"INSERT INTO account (tenant, created_at) VALUES ('acme', 1)",
		"INSERT INTO api_key (id, tenant, hash, scopes, created_at, expires_at) VALUES ('day', 'acme', 'a', 'view', now_us(), now_us() + 86400000000)",
		"INSERT INTO api_key (id, tenant, hash, scopes, created_at) VALUES ('endless', 'acme', 'b', 'view', now_us())",
	}, func(t *testing.T, f *fixture) {
		if day, endless := f.rotate("day", 0), f.rotate("endless", 0); life(day.Key) != 24*time.Hour || life(endless.Key) != 0 {
			t.Errorf("the successors live for %v and %v", life(day.Key), life(endless.Key))
		}
	})
}

package sqldb_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	neturl "net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stagefleet/stagefleet/pkg/internal/sqldb"
)

// wire stands between a client and Postgres. When it is armed it lets the next COMMIT through and cuts the connection instead of
// bringing the answer, as a network or a failover may.
type wire struct {
	armed atomic.Bool
	all   sync.WaitGroup
}

// through returns an address by which a database is reached over the wire.
func (w *wire) through(t *testing.T, address string) string {
	t.Helper()
	u, err := neturl.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	const socket = ".s.PGSQL.5432"
	server := filepath.Join(u.Query().Get("host"), socket)
	dir, err := os.MkdirTemp("", "wire") // short: a socket's path may have 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", filepath.Join(dir, socket))
	if err != nil {
		t.Fatal(err)
	}
	w.all.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			back, err := net.Dial("unix", server)
			if err != nil {
				t.Error(err)
				return
			}
			w.join(client, back)
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		w.all.Wait()
		_ = os.RemoveAll(dir)
	})
	u.RawQuery = neturl.Values{"host": {dir}}.Encode()
	return u.String()
}

func (w *wire) join(client, server net.Conn) {
	var asked atomic.Bool // for a commit whose answer is to be lost
	carry := func(from, to net.Conn, see func([]byte) bool) {
		defer func() { _, _ = from.Close(), to.Close() }()
		buffer := make([]byte, 1<<16)
		for {
			n, err := from.Read(buffer)
			if n > 0 && see(buffer[:n]) {
				if _, err := to.Write(buffer[:n]); err != nil {
					return
				}
			} else if n > 0 {
				return
			}
			if err != nil {
				return
			}
		}
	}
	w.all.Go(func() {
		carry(client, server, func(b []byte) bool {
			if bytes.Contains(b, []byte("COMMIT\x00")) && w.armed.CompareAndSwap(true, false) {
				asked.Store(true)
			}
			return true
		})
	})
	w.all.Go(func() { carry(server, client, func([]byte) bool { return !asked.Load() }) })
}

func TestAnAnswerThatIsLostWithTheConnectionLeavesTheOutcomeUnknown(t *testing.T) {
	w := &wire{}
	address := databases.URL(t, "postgres")
	db := open(t, w.through(t, address), sqldb.Options{})
	if _, err := db.Migrate(t.Context(), files); err != nil {
		t.Fatal(err)
	}
	tries := 0
	w.armed.Store(true)
	err := db.Update(t.Context(), "lost", func(tx *sqldb.Tx) error {
		tries++
		_, err := tx.Exec(t.Context(), "INSERT INTO thing (id, n) VALUES ('a', 1)")
		return err
	})
	if !errors.Is(err, sqldb.ErrUnknown) || tries != 1 {
		t.Fatalf("%v after %d tries, want ErrUnknown after one", err, tries)
	}
	var n int64
	err = db.View(t.Context(), "read", func(tx *sqldb.Tx) error {
		return tx.One(t.Context(), "SELECT COUNT(*) FROM thing", nil, &n)
	})
	if err != nil || n != 1 {
		t.Fatalf("%d rows, %v: it was committed", n, err)
	}
}

func TestARollbackDoesNotWaitForAServerThatKeepsSilent(t *testing.T) {
	db := open(t, databases.URL(t, "postgres"), sqldb.Options{})
	boom := errors.New("boom")
	start := time.Now()
	err := db.Update(t.Context(), "frozen", func(tx *sqldb.Tx) error {
		var backend int64
		if err := tx.One(t.Context(), "SELECT pg_backend_pid()", nil, &backend); err != nil {
			return err
		}
		t.Cleanup(func() { _ = syscall.Kill(int(backend), syscall.SIGCONT) })
		return errors.Join(boom, syscall.Kill(int(backend), syscall.SIGSTOP))
	})
	if took := time.Since(start); !errors.Is(err, boom) || took > time.Minute {
		t.Fatalf("%v after %v", err, took)
	}
}

func TestAWriterSeesWhatIsCommittedWhileItWaitsWhateverTheDefaultIs(t *testing.T) {
	db := open(t, databases.URL(t, "postgres")+"&default_transaction_isolation=serializable", sqldb.Options{})
	for _, update := range []func(context.Context, string, func(*sqldb.Tx) error) error{db.Update, db.UpdateRelaxed} {
		var level string
		err := update(t.Context(), "level", func(tx *sqldb.Tx) error {
			return tx.One(t.Context(), "SHOW transaction_isolation", nil, &level)
		})
		if err != nil || level != "read committed" {
			t.Errorf("isolation %q, %v", level, err)
		}
	}
}

func TestAMigrationMayTakeLongerThanAStatement(t *testing.T) {
	db := open(t, databases.URL(t, "postgres")+"&statement_timeout=100ms", sqldb.Options{})
	slow := fstest.MapFS{"00001_slow.sql": {Data: []byte("-- +goose Up\nSELECT pg_sleep(0.3);\n")}}
	if v, err := db.Migrate(t.Context(), slow); err != nil || v != 1 {
		t.Fatalf("version %d, %v", v, err)
	}
}

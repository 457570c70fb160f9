package fleet

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagefleet/stagefleet/pkg/api"
	"github.com/stagefleet/stagefleet/pkg/job"
)

func TestTheFirstKeyLocksTheFleetAndLeavesItsOwnUserOne(t *testing.T) {
	state := t.TempDir()
	r := run(t, local(t, state, "idle"))
	client := api.NewClient(r.addr)
	defer client.Close()
	if err := client.CreateAccount(t.Context(), "acme", job.Limits{}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(state, KeyFile)); err == nil {
		t.Error("a key file without keys")
	}
	if _, err := client.CreateKey(t.Context(), job.KeyRequest{Tenant: "acme", Scopes: job.AllScopes()}); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(state, KeyFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("key file: %v, %v", info, err)
	}
	if _, err := client.Stages(t.Context()); !refusedWith(err, http.StatusUnauthorized) {
		t.Errorf("without a key: %v", err)
	}
	own := readKey(t, state)
	if _, err := client.WithKey(own).Stages(t.Context()); err != nil {
		t.Errorf("with the fleet's own: %v", err)
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	r = run(t, local(t, state, "idle"))
	if again := readKey(t, state); again != own {
		t.Error("a valid key was replaced")
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(state, KeyFile)); err != nil {
		t.Fatal(err)
	}
	r = run(t, local(t, state, "idle"))
	later := api.NewClient(r.addr).WithKey(own)
	defer later.Close()
	if _, err := later.Stages(t.Context()); !refusedWith(err, http.StatusUnauthorized) {
		t.Errorf("a key whose file is gone: %v", err)
	}
	if _, err := later.WithKey(readKey(t, state)).Stages(t.Context()); err != nil {
		t.Errorf("its replacement: %v", err)
	}
}

func TestOthersReachAFleetOnlyOnceThereAreKeys(t *testing.T) {
	state := t.TempDir()
	open := local(t, state, "idle")
	open.Addr = "0.0.0.0:0"
	if err := open.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "fleet keys first") {
		t.Errorf("without keys: %v", err)
	}
	record, err := job.Open(t.Context(), "sqlite:"+filepath.Join(state, "fleet.db"), job.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := record.CreateAccount(t.Context(), "acme", job.Limits{}, "test"); err != nil {
		t.Fatal(err)
	}
	if _, err := record.CreateKey(t.Context(), job.KeyRequest{Tenant: "acme", Scopes: job.AllScopes()}, "test"); err != nil {
		t.Fatal(err)
	}
	if err := record.Close(); err != nil {
		t.Fatal(err)
	}
	opened := local(t, state, "idle")
	opened.Addr = "0.0.0.0:0"
	if err := run(t, opened).stop(); err != nil {
		t.Errorf("with keys: %v", err)
	}
}

func readKey(t *testing.T, state string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(state, KeyFile))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

func refusedWith(err error, status int) bool {
	p, ok := errors.AsType[*api.Problem](err)
	return ok && p.Status == status
}

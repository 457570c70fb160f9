package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagefleet/stagefleet/pkg/fleet"
	"github.com/stagefleet/stagefleet/pkg/job"
)

// bootstrap is a migrated record and a way to run commands on it directly.
func bootstrap(t *testing.T) (database string, command func(args ...string) (int, string, string)) {
	t.Helper()
	database = "sqlite:" + filepath.Join(t.TempDir(), "record.db")
	command = func(args ...string) (int, string, string) {
		var out, errs bytes.Buffer
		code := run(append(args, "--db", database), func(string) string { return "" }, &out, &errs)
		return code, out.String(), errs.String()
	}
	file := strings.TrimPrefix(database, "sqlite:")
	if code, _, errs := command("accounts", "ls"); code != exitFailed || !strings.Contains(errs, "no such file") || !strings.Contains(errs, "fleet migrate") {
		t.Errorf("a record that is not there = %d %s", code, errs)
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("looking for a record has made one: %v", err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := command("accounts", "ls"); code != exitFailed || !strings.Contains(errs, "fleet migrate") {
		t.Errorf("a record without a schema = %d %s", code, errs)
	}
	store, err := job.Open(t.Context(), database, job.Options{Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	return database, command
}

func TestTheFirstKeyIsMadeOnTheRecordItself(t *testing.T) {
	_, command := bootstrap(t)
	if code, _, errs := command("keys", "create", "--tenant", "acme"); code != exitFailed || !strings.Contains(errs, "fleet accounts create acme") {
		t.Errorf("a key without an account = %d %s", code, errs)
	}
	if code, out, _ := command("accounts", "create", "acme", "--in-flight", "3"); code != exitDone || !strings.Contains(out, "0 of 3") {
		t.Errorf("create = %d %s", code, out)
	}
	if code, _, errs := command("accounts", "create", "acme"); code != exitConflict || !strings.Contains(errs, "limit") {
		t.Errorf("create again = %d %s", code, errs)
	}
	code, secret, errs := command("keys", "create", "--tenant", "acme", "--scopes", "submit, view", "--name", "ci")
	if code != exitDone || !strings.HasPrefix(secret, "fleet_") || strings.Count(secret, "\n") != 1 || !strings.Contains(errs, "this once") {
		t.Fatalf("create = %d %s%s", code, secret, errs)
	}
	_, list, _ := command("keys", "ls", "--json")
	var keys []job.Key
	if err := json.Unmarshal([]byte(list), &keys); err != nil || len(keys) != 1 || keys[0].Scopes.String() != "submit,view" || strings.Contains(list, strings.TrimSpace(secret)) {
		t.Fatalf("list = %s, %v", list, err)
	}
	if code, fresh, _ := command("keys", "rotate", keys[0].ID, "--overlap", "24h"); code != exitDone || fresh == secret {
		t.Errorf("rotate = %d %s", code, fresh)
	}
	if code, out, _ := command("keys", "revoke", keys[0].ID); code != exitDone || !strings.Contains(out, "revoked") {
		t.Errorf("revoke = %d %s", code, out)
	}
	if code, _, _ := command("keys", "rotate", keys[0].ID); code != exitConflict {
		t.Errorf("rotating a revoked key = %d", code)
	}
	_, out, _ := command("keys", "ls")
	if lines := strings.Split(out, "\n"); !strings.Contains(lines[1], "revoked") || !strings.Contains(lines[2], "valid") || !strings.Contains(lines[2], "never") {
		t.Errorf("list:\n%s", out)
	}
}

func TestGrantsCountOnceByTheirNameAndShowWithTheirSum(t *testing.T) {
	_, command := bootstrap(t)
	command("accounts", "create", "acme")
	for range 2 {
		if code, _, errs := command("accounts", "grant", "acme", "100", "--id", "invoice-1"); code != exitDone {
			t.Fatalf("grant = %d %s", code, errs)
		}
	}
	command("accounts", "grant", "acme", "7")
	_, text, _ := command("accounts", "show", "acme", "--json")
	var shown shownAccount
	if err := json.Unmarshal([]byte(text), &shown); err != nil || shown.Balance != 107 || len(shown.Entries) != 2 {
		t.Errorf("show = %s, %v", text, err)
	}
	if code, out, _ := command("accounts", "limit", "acme", "--daily-cap", "5"); code != exitDone || !strings.Contains(out, "0 of 5") || !strings.Contains(out, "grant") {
		t.Errorf("limit = %d %s", code, out)
	}
	if code, _, errs := command("accounts", "grant", "nobody", "1"); code != exitFailed || !strings.Contains(errs, "accounts create nobody") {
		t.Errorf("grant to nobody = %d %s", code, errs)
	}
	if code, _, _ := command("accounts", "grant", "acme", "many"); code != exitUsage {
		t.Errorf("grant of many = %d", code)
	}
	if code, out, _ := command("accounts", "ls"); code != exitDone || !strings.Contains(out, "acme") {
		t.Errorf("ls = %d %s", code, out)
	}
}

func TestTheLocalFleetsKeyIsSentToThisMachineAlone(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.MkdirAll(defaultState, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(defaultState, fleet.KeyFile), []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for addr, want := range map[string]string{
		"127.0.0.1:8080": "secret", "localhost:8080": "secret", "[::1]:8080": "secret", "http://127.0.0.1:8080": "secret", "http://localhost": "secret",
		"fleet.example.org:8080": "", "https://fleet.example.org": "", "http://localhost@fleet.example.org": "", "http://127.0.0.1.example.org": "", "192.0.2.1:80": "",
	} {
		if got, err := secretOf(func(string) string { return "" }, "", addr); err != nil || got != want {
			t.Errorf("to %s: %q, %v", addr, got, err)
		}
	}
}

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagefleet/stagefleet/pkg/job"
)

// validKeys tells which keys of a record permit something, by identifier.
func validKeys(t *testing.T, command func(args ...string) (int, string, string)) []string {
	t.Helper()
	_, list, _ := command("keys", "ls", "--json")
	var keys []job.Key
	if err := json.Unmarshal([]byte(list), &keys); err != nil {
		t.Fatal(err)
	}
	var valid []string
	for _, k := range keys {
		if k.RevokedAt == nil {
			valid = append(valid, k.ID)
		}
	}
	return valid
}

func TestTheOperatorsFirstKeyTakesThePlaceOfTheOneBefore(t *testing.T) {
	_, command := bootstrap(t)
	code, first, errs := command("keys", "first", "--lifetime", "24h")
	if code != exitDone || !strings.HasPrefix(first, "fleet_") || strings.Count(first, "\n") != 1 || !strings.Contains(errs, "this once") {
		t.Fatalf("first = %d %s%s", code, first, errs)
	}
	before := validKeys(t, command)
	if code, second, _ := command("keys", "first"); code != exitDone || second == first {
		t.Errorf("again = %d %s", code, second)
	}
	if after := validKeys(t, command); len(after) != 1 || len(before) != 1 || after[0] == before[0] {
		t.Errorf("valid before %v, after %v", before, after)
	}
}

func TestAFirstKeyInAFileIsItsOwnersAloneAndStaysWhileItIsValid(t *testing.T) {
	database, command := bootstrap(t)
	file := filepath.Join(t.TempDir(), "key")
	read := func() string {
		t.Helper()
		if code, out, errs := command("keys", "first", "--out", file); code != exitDone || out != "" {
			t.Fatalf("first = %d %s%s", code, out, errs)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(text))
	}
	secret := read()
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if again := read(); again != secret {
		t.Error("a valid key was replaced")
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	replaced := read()
	record, err := job.Open(t.Context(), database, job.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = record.Close() }()
	if _, err := record.CheckKey(t.Context(), secret); err == nil {
		t.Error("a key whose file is gone is valid beside the new one")
	}
	if key, err := record.CheckKey(t.Context(), replaced); err != nil || key.Scopes.String() != job.AllScopes().String() {
		t.Errorf("the new one: %v, %v", key, err)
	}
}

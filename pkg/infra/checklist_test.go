package infra_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stagefleet/stagefleet/pkg/infra"
)

// rows is how many needs the checklist has.
const rows = 52

// TestEveryRowThatIsDoneIsHeldByWhatFailsWithoutIt wants of every rule that a row names a template that breaks it, of every
// field a manifest that does, and of every test that it is there. That they are caught, the tests of those tables show; so a
// row that is no longer true fails one of them.
func TestEveryRowThatIsDoneIsHeldByWhatFailsWithoutIt(t *testing.T) {
	broken := map[string]bool{"field Env": true, "rule outputs": true, "rule size": true, "rule manifest-hash": true} // see the tests beside the tables
	for _, b := range brokenTemplates() {
		broken["rule "+b.rule] = true
	}
	for field := range brokenManifests {
		broken["field "+field] = true
	}
	held := infra.Held()
	for n := 1; n <= rows; n++ {
		row, ok := held[n]
		if !ok || len(row.By) == 0 || !strings.HasPrefix(row.How, "done") {
			t.Errorf("row %d: %q, held by %v", n, row.How, row.By)
		}
		for _, by := range row.By {
			if name, isTest := strings.CutPrefix(by, "test "); isTest {
				if !testIsThere(t, name) {
					t.Errorf("row %d: there is no %s", n, by)
				}
			} else if !broken[by] {
				t.Errorf("row %d: nothing is broken to show that %s holds it", n, by)
			}
		}
	}
	if len(held) != rows {
		t.Errorf("%d rows, want %d", len(held), rows)
	}
}

// testIsThere looks for a test by its package's folder and name.
func testIsThere(t *testing.T, name string) bool {
	t.Helper()
	folder, test, _ := strings.Cut(name, ".")
	files, err := filepath.Glob(filepath.Join("../..", folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if text, err := os.ReadFile(f); err == nil && strings.Contains(string(text), "func "+test+"(t *testing.T)") {
			return true
		}
	}
	return false
}

// TestEveryImageStartsTheBinaryItself wants the exec form: a shell in between would not pass signals on.
func TestEveryImageStartsTheBinaryItself(t *testing.T) {
	files, err := filepath.Glob("../../docker/*.Dockerfile")
	if err != nil || len(files) < 3 {
		t.Fatalf("%v, %v", files, err)
	}
	start := regexp.MustCompile(`(?m)^(ENTRYPOINT|CMD) +(.*)$`)
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		lines := start.FindAllStringSubmatch(string(text), -1)
		if len(lines) == 0 {
			t.Errorf("%s starts nothing", f)
		}
		for _, l := range lines {
			if !strings.HasPrefix(l[2], "[") {
				t.Errorf("%s: %s is no exec form", f, l[0])
			}
		}
	}
}

package scaffold_test

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stagefleet/stagefleet/pkg/scaffold"
	"github.com/stagefleet/stagefleet/pkg/stage"
)

// tree is a copy of this source tree.
func tree(t *testing.T) string {
	t.Helper()
	root, to := "../..", t.TempDir()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		inside, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); inside != "." && (strings.HasPrefix(name, ".") || inside == "bin" || inside == "build") {
				return filepath.SkipDir
			}
			return os.MkdirAll(filepath.Join(to, inside), 0o755)
		}
		if !d.Type().IsRegular() {
			return nil
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, inside), raw, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// content is every file of a tree.
func content(t *testing.T, root string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			files[path] = "folder"
			return err
		}
		raw, err := os.ReadFile(path)
		files[path] = string(raw)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func nothing() error { return nil }

func TestWhatCannotBeIsRefusedAndNothingIsWritten(t *testing.T) {
	root := tree(t)
	before := content(t, root)
	for want, s := range map[string]scaffold.Stage{
		`Name is "Review"`:                      {Name: "Review", After: "highlight"},
		`Name is "../x"`:                        {Name: "../x", After: "highlight"},
		`Name is "server"`:                      {Name: "server", After: "highlight"},
		`Name is "review-dlq"`:                  {Name: "review-dlq", After: "highlight"},
		"takes a folder vendor for something":   {Name: "vendor", After: "highlight"},
		"takes a folder testdata for something": {Name: "testdata", After: "highlight"},
		"there is a stage caption already":      {Name: "caption", After: "highlight"},
		`there is no stage "gone" to follow`:    {Name: "untaken", After: "gone"},
		"publish is the last stage":             {Name: "notify", After: "publish"},
		"caption fans out, and compile":         {Name: "check", After: "caption"},
		"compile makes the parts that publish":  {Name: "check", After: "compile"},
		`Queue is "lifo", must be fifo or stan`: {Name: "untaken", After: "highlight", Queue: "lifo"},
	} {
		_, err := scaffold.Add(root, s, nothing)
		if !errors.Is(err, scaffold.ErrRefused) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: %v, want %q", s, err, want)
		}
	}
	if !maps.Equal(before, content(t, root)) {
		t.Error("a refusal has changed the tree")
	}
}

func TestAFailureHalfWayTakesEverythingBack(t *testing.T) {
	root := tree(t)
	before := content(t, root)
	ill := errors.New("ill")
	if _, err := scaffold.Add(root, scaffold.Stage{Name: "untaken", After: "highlight", Queue: stage.FIFO}, func() error { return ill }); !errors.Is(err, ill) {
		t.Fatalf("error %v", err)
	}
	same(t, before, content(t, root))
	// A file where a folder is wanted: found only while writing.
	if err := os.Remove(filepath.Join(root, "pkg/recording/testdata/v1/highlighted.json")); err != nil {
		t.Fatal(err)
	}
	before = content(t, root)
	if _, err := scaffold.Add(root, scaffold.Stage{Name: "untaken", After: "highlight", Queue: stage.FIFO}, nothing); !errors.Is(err, scaffold.ErrRefused) {
		t.Errorf("error %v", err)
	}
	same(t, before, content(t, root))
}

func TestANewStageMayWriteNoObjectsWhileItsHandlerMakesNone(t *testing.T) {
	root := tree(t)
	if _, err := scaffold.Add(root, scaffold.Stage{Name: "untaken", After: "highlight", Queue: stage.FIFO}, nothing); err != nil {
		t.Fatal(err)
	}
	manifest, err := os.ReadFile(filepath.Join(root, "workers/stages.go"))
	if err != nil {
		t.Fatal(err)
	}
	_, entry, _ := strings.Cut(string(manifest), `Name: "untaken"`)
	entry, _, _ = strings.Cut(entry, "\n\t},\n")
	if !strings.Contains(entry, "ReadsOnly: true,\n") {
		t.Errorf("its entry is\n%s", entry)
	}
}

func same(t *testing.T, before, after map[string]string) {
	t.Helper()
	for _, path := range slices.Sorted(maps.Keys(after)) {
		if before[path] != after[path] {
			t.Errorf("%s is left changed", path)
		}
	}
	if len(before) != len(after) {
		t.Errorf("%d files, were %d", len(after), len(before))
	}
}

func TestThePictureShowsFanAndTheNewStage(t *testing.T) {
	p := stage.Pipeline{{Name: "a", Summary: "s", Next: "b", FanOut: true}, {Name: "b", Summary: "s", Queue: stage.Standard, Next: "c"}, {Name: "c", Summary: "s", Join: true, Next: "d"}, {Name: "d", Summary: "s"}}
	got, err := scaffold.Picture(p, "d")
	want := `  a                    fifo
      ↓ ↓ ↓            a message for each part
  b                    standard
      ↘ ↓ ↙            one message after the last part
  c                    fifo
      ↓
  d                    fifo  ← new
`
	if err != nil || got != want {
		t.Errorf("%v\n%s", err, got)
	}
}

func TestTheRootIsFoundFromInsideAndNowhereElse(t *testing.T) {
	want, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := scaffold.Root("."); err != nil || got != want {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := scaffold.Root(t.TempDir()); !errors.Is(err, scaffold.ErrRefused) {
		t.Errorf("error %v", err)
	}
}

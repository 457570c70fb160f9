// Package scaffold writes a new stage into a source tree of this project: folder, handler, test, recording type, entry
// in the manifest, and its place among the others.
//
// It promises all or nothing: everything is worked out from the files as they are and checked before the first byte is
// written, and what was written is taken back if a later file, or what is made from the manifest, fails. Nothing that
// exists is overwritten. The tree is read, never the running program, which may be older. Command fleet is the caller.
package scaffold

import (
	"errors"
	"fmt"
	"go/format"
	"os"
	"path/filepath"
	"strings"

	"github.com/stagefleet/stagefleet/pkg/stage"
)

// Stage says what is wanted.
type Stage struct {
	Name  string
	After string // the stage that it follows
	Queue stage.Kind
}

// Made is what a call has written.
type Made struct {
	Pipeline stage.Pipeline // names, queues and graph, as the manifest now has them
	Files    []string       // relative to the root, those changed among them
	Type     string         // of package recording: what the stage puts out
}

// ErrRefused is matched by the error of a stage that cannot be made; nothing has been written.
var ErrRefused = errors.New("no stage was made")

func refuse(text string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrRefused, fmt.Sprintf(text, args...))
}

// Root finds the source tree that a folder belongs to.
func Root(dir string) (string, error) {
	start, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find the source tree: %w", err)
	}
	for at := start; ; at = filepath.Dir(at) {
		if exists(filepath.Join(at, "go.mod")) && exists(filepath.Join(at, manifestFile)) {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", refuse("%s is not inside the project's source tree (a folder with go.mod and %s)", start, manifestFile)
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Add makes the stage in the tree at root, then calls then, which may make more from the new manifest; its error takes
// everything back that Add has written.
func Add(root string, s Stage, then func() error) (Made, error) {
	m, err := readManifest(root)
	if err != nil {
		return Made{}, err
	}
	if err := m.check(root, s); err != nil {
		return Made{}, err
	}
	out, err := outputOf(root, s.After)
	if err != nil {
		return Made{}, err
	}
	n, err := newFilling(root, s, out)
	if err != nil {
		return Made{}, err
	}
	changes, err := m.changes(root, s, n)
	if err != nil {
		return Made{}, err
	}
	if err := write(root, changes, then); err != nil {
		return Made{}, err
	}
	made := Made{Pipeline: m.with(s), Type: n.Type}
	for _, c := range changes {
		made.Files = append(made.Files, c.path)
	}
	return made, nil
}

// change is one file as it will be.
type change struct {
	path string // relative to the root
	text []byte
	old  []byte // what it replaces; nil: the file is new
}

// write puts every change in place, or none.
func write(root string, changes []change, then func() error) (err error) {
	done := 0
	var folders []string
	defer func() {
		if err == nil {
			return
		}
		for _, c := range changes[:done] {
			path := filepath.Join(root, c.path)
			if c.old == nil {
				err = errors.Join(err, os.Remove(path))
			} else {
				err = errors.Join(err, replace(path, c.old))
			}
		}
		for i := len(folders) - 1; i >= 0; i-- {
			_ = os.Remove(folders[i]) // not empty: somebody else's file is in it
		}
	}()
	for _, c := range changes {
		path := filepath.Join(root, c.path)
		if folders, err = makeFolders(filepath.Dir(path), folders); err != nil {
			return fmt.Errorf("make the folder of %s: %w", c.path, err)
		}
		if err := replace(path, c.text); err != nil {
			return fmt.Errorf("write %s: %w", c.path, err)
		}
		done++
	}
	return then()
}

// makeFolders makes what is missing of a path and notes it, the outermost first.
func makeFolders(dir string, made []string) ([]string, error) {
	if exists(dir) {
		return made, nil
	}
	made, err := makeFolders(filepath.Dir(dir), made)
	if err != nil {
		return made, err
	}
	return append(made, dir), os.Mkdir(dir, 0o755)
}

// replace writes a file beside its place and moves it there.
func replace(path string, text []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	err = errors.Join(err, file.Chmod(0o644), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return nil
}

// formatted is Go source as gofmt writes it.
func formatted(path, text string) (change, error) {
	source, err := format.Source([]byte(text))
	if err != nil {
		return change{}, fmt.Errorf("format %s: %w", path, err)
	}
	return change{path: path, text: source}, nil
}

// edited is a file of the tree with old text replaced by new, which must be there once.
func edited(root, path, old, text string) (change, error) {
	raw, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		return change{}, fmt.Errorf("read %s: %w", path, err)
	}
	if strings.Count(string(raw), old) != 1 {
		return change{}, refuse("%s is not as expected: %q must be in it once", path, old)
	}
	c := change{path: path, text: []byte(strings.Replace(string(raw), old, text, 1)), old: raw}
	if filepath.Ext(path) != ".go" {
		return c, nil
	}
	source, err := formatted(path, string(c.text))
	c.text = source.text
	return c, err
}

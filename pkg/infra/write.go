package infra

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Drift is one file of a folder that is not what Generate returns.
type Drift struct {
	Name string
	// Line is the first line that differs, from 1; 0 if the file is missing or superfluous.
	Line int
	// Found and Wanted are that line in the folder and as generated.
	Found, Wanted string
	// Missing and Superfluous say that there is no such file, or should be none.
	Missing, Superfluous bool
}

// String returns one line for people.
func (d Drift) String() string {
	switch {
	case d.Missing:
		return d.Name + ": missing"
	case d.Superfluous:
		return d.Name + ": generated earlier, superfluous now"
	}
	return fmt.Sprintf("%s:%d:\n  - %s\n  + %s", d.Name, d.Line, d.Found, d.Wanted)
}

// Compare returns the files of a folder that differ from the generated ones. Files of others in it are not looked at.
func Compare(dir string, files []File) ([]Drift, error) {
	var all []Drift
	for _, f := range files {
		found, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(f.Name)))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			all = append(all, Drift{Name: f.Name, Missing: true})
		case err != nil:
			return nil, fmt.Errorf("compare with the folder: %w", err)
		case !bytes.Equal(found, f.Text):
			all = append(all, firstDifference(f.Name, string(found), string(f.Text)))
		}
	}
	old, err := superfluous(dir, files)
	for _, name := range old {
		all = append(all, Drift{Name: name, Superfluous: true})
	}
	return all, err
}

func firstDifference(name, found, wanted string) Drift {
	a, b := strings.Split(found, "\n"), strings.Split(wanted, "\n")
	for i := 0; ; i++ {
		if i >= len(a) || i >= len(b) || a[i] != b[i] {
			return Drift{Name: name, Line: i + 1, Found: at(a, i), Wanted: at(b, i)}
		}
	}
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(end of file)"
}

// superfluous are the files of a folder that were generated and no longer are: those with the mark in their first lines.
func superfluous(dir string, files []File) ([]string, error) {
	var names []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && !entry.Type().IsRegular() {
			return nil
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(rel)
		if slices.ContainsFunc(files, func(f File) bool { return f.Name == name }) {
			return nil
		}
		text, err := os.ReadFile(path) //nolint:gosec // the folder is the caller's own, and only its first line is looked at
		if err == nil && bytes.Contains(text[:min(len(text), 256)], []byte(generated)) {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look for files that are generated no more: %w", err)
	}
	return names, nil
}

// Write makes a folder agree with the generated files: it writes those that differ and removes those that were generated
// and no longer are. It returns the names of what it has changed.
func Write(dir string, files []File) ([]string, error) {
	drifts, err := Compare(dir, files)
	if err != nil {
		return nil, err
	}
	var changed []string
	for _, d := range drifts {
		path := filepath.Join(dir, filepath.FromSlash(d.Name))
		if d.Superfluous {
			err = os.Remove(path)
		} else {
			i := slices.IndexFunc(files, func(f File) bool { return f.Name == d.Name })
			err = writeFile(path, files[i])
		}
		if err != nil {
			return changed, fmt.Errorf("write the folder: %w", err)
		}
		changed = append(changed, d.Name)
	}
	return changed, nil
}

func writeFile(path string, f File) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	if strings.HasSuffix(f.Name, ".sh") {
		mode = 0o755
	}
	return os.WriteFile(path, f.Text, mode)
}

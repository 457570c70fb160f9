package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/stagefleet/stagefleet/pkg/recording"
)

// Folder is a store in one folder of a local file system. Objects are files of mode 0444 under their keys;
// unfinished ones are in ".tmp" beside them, and what a crash leaves there is never read.
type Folder struct {
	root string
	tmp  string
}

// NewFolder opens the store in the folder at an absolute path, and makes the folder when there is none.
func NewFolder(root string) (*Folder, error) {
	if !filepath.IsAbs(root) {
		return nil, fmt.Errorf("object folder must be an absolute path")
	}
	f := &Folder{root: filepath.Clean(root), tmp: filepath.Join(root, ".tmp")}
	if err := os.MkdirAll(f.tmp, 0o755); err != nil {
		return nil, fmt.Errorf("make the object folder: %w", err)
	}
	return f, nil
}

// Create implements Store.
func (f *Folder) Create(ctx context.Context, key string) (Writer, error) {
	if err := errors.Join(context.Cause(ctx), CheckKey(key)); err != nil {
		return nil, err
	}
	file, err := os.CreateTemp(f.tmp, "object-")
	if err != nil {
		return nil, fmt.Errorf("create an object: %w", err)
	}
	return &folderWriter{draft: newDraft(ctx, key), folder: f, file: file}, nil
}

// Open implements Store.
func (f *Folder) Open(ctx context.Context, key string) (io.ReadCloser, error) {
	path, err := f.Path(ctx, key, "")
	if err != nil {
		return nil, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, notOpened(key, err)
	}
	return file, nil
}

// notOpened tells what is wrong with one object from what is wrong with the file system. A part of a key that is too long for a
// file's name, or that lies below a file, names nothing.
func notOpened(key string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%w: %s", ErrNotFound, key)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: %s: %w", ErrUnreadable, key, err)
	}
	return fmt.Errorf("open an object: %w", err)
}

// Path implements Store: the object's own file. dir is not used.
func (f *Folder) Path(ctx context.Context, key, _ string) (string, error) {
	if err := errors.Join(context.Cause(ctx), CheckKey(key)); err != nil {
		return "", err
	}
	path := f.file(key)
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return "", notOpened(key, err)
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%w: %s is not a regular file", ErrNotFound, key)
	}
	return path, nil
}

// Link implements Store with a hard link.
func (f *Folder) Link(ctx context.Context, from, to string) error {
	path, err := f.Path(ctx, from, "")
	if err != nil {
		return err
	}
	if err := CheckKey(to); err != nil {
		return err
	}
	// A link cannot replace a file, a rename can: link beside, then rename.
	beside, err := os.MkdirTemp(f.tmp, "link-")
	if err != nil {
		return fmt.Errorf("link an object: %w", err)
	}
	defer os.RemoveAll(beside)
	name := filepath.Join(beside, "object")
	if err := os.Link(path, name); err != nil {
		return fmt.Errorf("link an object: %w", err)
	}
	return f.place(name, to)
}

func (f *Folder) file(key string) string { return filepath.Join(f.root, filepath.FromSlash(key)) }

// place moves a finished file under its key, and returns when the name is on disk too.
func (f *Folder) place(name, key string) error {
	target := f.file(key)
	made := missing(filepath.Dir(target))
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return fmt.Errorf("make an object's folder: %w", err)
	}
	if err := os.Rename(name, target); err != nil {
		return fmt.Errorf("place an object: %w", err)
	}
	for _, dir := range append(made, filepath.Dir(target)) {
		if err := syncDir(dir); err != nil {
			return fmt.Errorf("sync an object's folder: %w", err)
		}
	}
	return nil
}

// missing returns the folders that will get a new entry when path is made.
func missing(path string) []string {
	var parents []string
	for {
		if _, err := os.Stat(path); err == nil || path == filepath.Dir(path) {
			return parents
		}
		path = filepath.Dir(path)
		parents = append(parents, path)
	}
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

type folderWriter struct {
	draft
	folder *Folder
	file   *os.File
}

func (w *folderWriter) Write(p []byte) (int, error) {
	n, err := w.file.Write(p)
	w.wrote(p[:n])
	return n, err
}

func (w *folderWriter) Commit() (recording.Object, error) { return w.commit(w.appear, w.Abort) }

// appear lets the bytes reach the disk before the name does, else a crash could leave a name without its bytes.
func (w *folderWriter) appear() error {
	if err := errors.Join(w.file.Chmod(0o444), w.file.Sync(), w.file.Close()); err != nil {
		return fmt.Errorf("write an object: %w", err)
	}
	return w.folder.place(w.file.Name(), w.key)
}

func (w *folderWriter) Abort() error {
	if w.ended {
		return nil
	}
	w.ended = true
	w.file.Close() // closed already when Commit failed late
	if err := os.Remove(w.file.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove an unfinished object: %w", err)
	}
	return nil
}

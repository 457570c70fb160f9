package blob

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// stores are the implementations that must keep the same promises.
func stores(t *testing.T) map[string]Store {
	t.Helper()
	folder, err := NewFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return map[string]Store{"folder": folder, "s3": inBucket(t, newBucket(t), "pre/fix")}
}

func put(t *testing.T, s Store, key string, content []byte) {
	t.Helper()
	w, err := s.Create(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	o, err := w.Commit()
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	if o.Key != key || o.Bytes != int64(len(content)) || o.SHA256 != hex.EncodeToString(sum[:]) || o.Type != TypeOf(key) {
		t.Fatalf("got %+v", o)
	}
}

func get(t *testing.T, s Store, key string) ([]byte, error) {
	t.Helper()
	r, err := s.Open(t.Context(), key)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

func TestWhatIsCommittedIsReadBack(t *testing.T) {
	for name, s := range stores(t) {
		for _, content := range [][]byte{nil, []byte("hello"), bytes.Repeat([]byte("0123456789abcdef"), 3*PartSize/32)} {
			t.Run(fmt.Sprint(name, len(content)), func(t *testing.T) {
				key := fmt.Sprintf("jobs/j/a/%d.mp4", len(content))
				put(t, s, key, content)
				if got, err := get(t, s, key); err != nil || !bytes.Equal(got, content) {
					t.Fatalf("got %d bytes, %v", len(got), err)
				}
				path, err := s.Path(t.Context(), key, t.TempDir())
				if err != nil {
					t.Fatal(err)
				}
				if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, content) {
					t.Fatalf("the file has %d bytes, %v", len(got), err)
				}
			})
		}
	}
}

func TestNothingIsVisibleBeforeItsCommitOrAfterItsAbort(t *testing.T) {
	for name, s := range stores(t) {
		for _, size := range []int{5, PartSize + 5} {
			t.Run(fmt.Sprint(name, size), func(t *testing.T) {
				w, err := s.Create(t.Context(), "a/b.json")
				if err != nil {
					t.Fatal(err)
				}
				if _, err := w.Write(make([]byte, size)); err != nil {
					t.Fatal(err)
				}
				if _, err := get(t, s, "a/b.json"); !errors.Is(err, ErrNotFound) {
					t.Fatalf("before commit: %v", err)
				}
				if err := w.Abort(); err != nil {
					t.Fatal(err)
				}
				if _, err := w.Commit(); err == nil {
					t.Fatal("committed after abort")
				}
				if _, err := get(t, s, "a/b.json"); !errors.Is(err, ErrNotFound) {
					t.Fatalf("after abort: %v", err)
				}
			})
		}
	}
}

func TestAnAbortAfterACommitChangesNothing(t *testing.T) {
	for name, s := range stores(t) {
		t.Run(name, func(t *testing.T) {
			w, _ := s.Create(t.Context(), "a")
			if _, err := w.Commit(); err != nil {
				t.Fatal(err)
			}
			if err := w.Abort(); err != nil {
				t.Fatal(err)
			}
			if _, err := get(t, s, "a"); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestAnEndedContextIsNotCommitted(t *testing.T) {
	for name, s := range stores(t) {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			w, err := s.Create(ctx, "late")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write(make([]byte, PartSize+1)); err != nil {
				t.Fatal(err)
			}
			cause := errors.New("lease lost")
			cancel(cause)
			if _, err := w.Commit(); !errors.Is(err, cause) {
				t.Fatalf("got %v", err)
			}
			if _, err := get(t, s, "late"); !errors.Is(err, ErrNotFound) {
				t.Fatalf("got %v", err)
			}
		})
	}
}

func TestALinkIsTheSameObjectUnderAnotherKey(t *testing.T) {
	for name, s := range stores(t) {
		t.Run(name, func(t *testing.T) {
			put(t, s, "from/a+b.mp4", []byte("one"))
			put(t, s, "to/b.mp4", []byte("old"))
			for _, to := range []string{"to/new.mp4", "to/b.mp4", "to/b.mp4", "from/a+b.mp4"} {
				if err := s.Link(t.Context(), "from/a+b.mp4", to); err != nil {
					t.Fatal(err)
				}
				if got, err := get(t, s, to); err != nil || string(got) != "one" {
					t.Fatalf("%s: got %q, %v", to, got, err)
				}
			}
			if err := s.Link(t.Context(), "nothing", "x"); !errors.Is(err, ErrNotFound) {
				t.Fatalf("got %v", err)
			}
		})
	}
}

func TestKeysCannotLeaveTheStore(t *testing.T) {
	bad := []string{"", ".", "..", "/abs", "a/../b", "../a", "a//b", "a/", "./a", "a/.tmp", ".tmp/x", "a b", "a\x00", "a\nb", `a\b`, "ä", "a:b", "a%2e", strings.Repeat("a", MaxKey+1)}
	for name, s := range stores(t) {
		for _, key := range bad {
			t.Run(fmt.Sprintf("%s %.20q", name, key), func(t *testing.T) {
				put(t, s, "good", nil)
				_, err1 := s.Create(t.Context(), key)
				_, err2 := s.Open(t.Context(), key)
				_, err3 := s.Path(t.Context(), key, t.TempDir())
				for _, err := range []error{err1, err2, err3, s.Link(t.Context(), key, "x"), s.Link(t.Context(), "good", key)} {
					if !errors.Is(err, ErrKey) {
						t.Errorf("got %v", err)
					}
				}
			})
		}
	}
	if err := CheckKey("jobs/0-9_A.z=+@/" + strings.Repeat("a", 100)); err != nil {
		t.Error(err)
	}
}

func FuzzCheckKey(f *testing.F) {
	for _, key := range []string{"a/b", "..", "a/../../b", "/x", "a\x00b"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if CheckKey(key) != nil {
			return
		}
		rel, err := filepath.Rel("/root", filepath.Join("/root", filepath.FromSlash(key)))
		if err != nil || rel != key || !filepath.IsLocal(key) {
			t.Fatalf("%q leads to %q, %v", key, rel, err)
		}
	})
}

func TestManyWritersMayWorkAtOnce(t *testing.T) {
	for name, s := range stores(t) {
		t.Run(name, func(t *testing.T) {
			var all sync.WaitGroup
			for i := range 20 {
				all.Go(func() {
					w, err := s.Create(t.Context(), fmt.Sprintf("deep/%d/same.json", i%3))
					if err != nil {
						t.Error(err)
						return
					}
					_, _ = w.Write([]byte("whole"))
					if _, err := w.Commit(); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			for i := range 3 {
				if got, err := get(t, s, fmt.Sprintf("deep/%d/same.json", i)); err != nil || string(got) != "whole" {
					t.Errorf("got %q, %v", got, err)
				}
			}
		})
	}
}

func TestAFolderKeepsReadOnlyFilesAndNoLeftovers(t *testing.T) {
	root := t.TempDir()
	s, err := NewFolder(root)
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, "a/b.json", []byte("x"))
	if err := s.Link(t.Context(), "a/b.json", "a/c.json"); err != nil {
		t.Fatal(err)
	}
	w, _ := s.Create(t.Context(), "d")
	if err := w.Abort(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(root, "a/b.json"))
	if err != nil || info.Mode().Perm() != 0o444 {
		t.Fatalf("got %v, %v", info, err)
	}
	if left, err := os.ReadDir(filepath.Join(root, ".tmp")); err != nil || len(left) != 0 {
		t.Fatalf("left %v, %v", left, err)
	}
}

func TestAFolderDoesNotFollowLinks(t *testing.T) {
	root := t.TempDir()
	s, err := NewFolder(root)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/hostname", filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open(t.Context(), "link"); !errors.Is(err, ErrNotFound) {
		t.Fatalf("got %v", err)
	}
}

func TestAddressesChooseTheStore(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(t.Context(), "file://"+dir)
	if _, ok := s.(*Folder); !ok || err != nil {
		t.Errorf("got %T, %v", s, err)
	}
	t.Setenv("AWS_REGION", "eu-west-1")
	s, err = Open(t.Context(), "s3://bucket/a/b")
	if b, ok := s.(*S3); !ok || err != nil || b.bucket != "bucket" || b.prefix != "a/b/" {
		t.Errorf("got %+v, %v", s, err)
	}
	for _, bad := range []string{"", "dir", "file://relative", "ftp://x/y", "s3://", "s3://b/../x", "::"} {
		if _, err := Open(t.Context(), bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestTypesFollowTheExtension(t *testing.T) {
	for key, want := range map[string]string{"a/b.mp4": "video/mp4", "x.JSON": "application/octet-stream", "x": "application/octet-stream", "i.html": "text/html; charset=utf-8"} {
		if got := TypeOf(key); got != want {
			t.Errorf("%s: got %s", key, got)
		}
	}
}

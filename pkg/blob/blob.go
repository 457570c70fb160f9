// Package blob keeps objects: bytes under a key that are written once and then only read.
//
// An object appears under its key whole or not at all, also after a crash; what a reader opens never changes.
// Writing an existing key again replaces it (stages never do: every attempt has keys of its own). Only garbage collection
// lists and deletes, a folder of keys at a time. There is no permission model here. A folder ([Folder]) serves one machine,
// a bucket ([S3]) a fleet; [Open] chooses by address. Stores are safe for concurrent use. Packages worker, api and admin call it.
package blob

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/url"
	"path"
	"strings"

	"github.com/stagefleet/stagefleet/pkg/recording"
)

// Errors to match with errors.Is.
var (
	ErrNotFound = errors.New("no such object")
	ErrKey      = errors.New("key not allowed")
	// ErrUnreadable is of an object that is there, or may be, and is not given out: it is archived, or the reader may not read it.
	ErrUnreadable = errors.New("object cannot be read")
)

// MaxKey is the longest key in bytes (Amazon S3 User Guide, "Naming Amazon S3 objects", allows as many).
const MaxKey = 1024

// Store is a place for objects.
type Store interface {
	// Create starts an object. Nothing is visible under key before Commit returns nil.
	Create(ctx context.Context, key string) (Writer, error)
	// Open reads an object from its beginning. The error matches ErrNotFound when there is none; one that matches ErrKey or
	// ErrUnreadable will not go away by itself either.
	Open(ctx context.Context, key string) (io.ReadCloser, error)
	// Content reads an object in any order, as for ranges. The error matches ErrNotFound when there is none.
	Content(ctx context.Context, key string) (io.ReadSeekCloser, error)
	// Path returns a local file with the object's bytes, for tools that need a name. A folder store returns
	// its own file, a bucket a copy in dir. The file must not be written to.
	Path(ctx context.Context, key, dir string) (string, error)
	// Link makes the object at from appear under to as well, without copying it through this process.
	Link(ctx context.Context, from, to string) error
	// Usage returns what is stored under a folder: every key that begins with it and a slash. Nothing there is no error.
	Usage(ctx context.Context, folder string) (Usage, error)
	// RemoveAll removes what is stored under a folder and returns what that was. Nobody may be writing there.
	RemoveAll(ctx context.Context, folder string) (Usage, error)
}

// Usage is what some objects take.
type Usage struct {
	Objects int
	Bytes   int64
}

// Writer takes the bytes of one object. Exactly one of Commit and Abort ends it; Abort after Commit does
// nothing, so it may be deferred. It is not safe for concurrent use.
type Writer interface {
	io.Writer
	Commit() (recording.Object, error)
	Abort() error
}

// draft is what all writers have of an object that is not there yet.
type draft struct {
	ctx   context.Context // of Create: a cancelled creation must not be committed
	key   string
	sum   hash.Hash
	bytes int64
	ended bool
}

func newDraft(ctx context.Context, key string) draft {
	return draft{ctx: ctx, key: key, sum: sha256.New()}
}

// wrote counts bytes that are kept.
func (d *draft) wrote(p []byte) {
	d.sum.Write(p)
	d.bytes += int64(len(p))
}

// commit ends a draft by what makes it appear, or else by what gives it up.
func (d *draft) commit(appear, abort func() error) (recording.Object, error) {
	if d.ended {
		return recording.Object{}, errors.New("commit of an ended object")
	}
	err := context.Cause(d.ctx)
	if err == nil {
		err = appear()
	}
	if err != nil {
		_ = abort() // the failure came first
		return recording.Object{}, err
	}
	d.ended = true
	return recording.Object{Key: d.key, SHA256: hex.EncodeToString(d.sum.Sum(nil)), Type: TypeOf(d.key), Bytes: d.bytes}, nil
}

// Open returns the store at an address: file:///absolute/folder or s3://bucket/prefix.
func Open(ctx context.Context, address string) (Store, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("read the object store's address: %w", err)
	}
	switch u.Scheme {
	case "file":
		return NewFolder(u.Path)
	case "s3":
		return openS3(ctx, u.Host, strings.Trim(u.Path, "/"))
	default:
		return nil, fmt.Errorf("object store scheme %q must be file or s3", u.Scheme)
	}
}

// CheckKey reports, matching ErrKey, a key that could leave its store or mean two things: keys are relative,
// slash separated, clean, of at most MaxKey bytes and made of letters, digits and -_.=+@ only.
func CheckKey(key string) error {
	switch {
	case key == "" || len(key) > MaxKey:
		return fmt.Errorf("%w: length %d, bound 1 to %d", ErrKey, len(key), MaxKey)
	case strings.ContainsFunc(key, isForeign):
		return fmt.Errorf("%w: a character outside the allowed ones", ErrKey)
	case path.IsAbs(key) || path.Clean(key) != key || key == "." || key == ".." || strings.HasPrefix(key, "../"):
		return fmt.Errorf("%w: not a clean relative path", ErrKey)
	}
	for part := range strings.SplitSeq(key, "/") {
		if strings.HasPrefix(part, ".") {
			return fmt.Errorf("%w: a part starts with a dot", ErrKey)
		}
	}
	return nil
}

func isForeign(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("/-_.=+@", r)
}

// TypeOf returns the media type that an object gets from the extension of its key. The table is fixed, so
// that the answer does not depend on the machine.
func TypeOf(key string) string {
	if t, ok := mediaTypes[path.Ext(key)]; ok {
		return t
	}
	return "application/octet-stream"
}

var mediaTypes = map[string]string{
	".json": "application/json",
	".html": "text/html; charset=utf-8",
	".txt":  "text/plain; charset=utf-8",
	".srt":  "application/x-subrip",
	".vtt":  "text/vtt",
	".wav":  "audio/wav",
	".mp4":  "video/mp4",
	".jpg":  "image/jpeg",
	".png":  "image/png",
}

package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/stagefleet/stagefleet/pkg/blob"
	"github.com/stagefleet/stagefleet/pkg/outcome"
	"github.com/stagefleet/stagefleet/pkg/recording"
)

// Objects is a task's view of the object store: it opens what a hop refers to, if
// that is the job's own or its tenant's, and writes only under the attempt's own
// key, so that two attempts at one step never write the same object. Safe for
// concurrent use.
type Objects struct {
	store  blob.Store
	prefix string   // where this attempt writes
	dir    string   // where local copies go
	limit  int64    // largest object that may be opened; 0: none
	within []string // folders, with a slash at their ends, that may be read; nil: all
}

// NewObjects returns a view of store that writes under prefix and keeps local
// copies in dir. Objects larger than limit bytes are refused; 0 means no limit.
func NewObjects(store blob.Store, prefix, dir string, limit int64) Objects {
	return Objects{store: store, prefix: prefix, dir: dir, limit: limit}
}

// Within is the view that reads only what is in these folders. Anything else is
// not this tenant's, whatever the record of the step says: it is quarantined.
func (o Objects) Within(folders ...string) Objects {
	o.within = []string{o.prefix + "/"}
	for _, f := range folders {
		o.within = append(o.within, f+"/")
	}
	return o
}

// Open reads an object from its beginning.
func (o Objects) Open(ctx context.Context, obj recording.Object) (io.ReadCloser, error) {
	if err := o.check(obj); err != nil {
		return nil, err
	}
	return o.store.Open(ctx, obj.Key)
}

// Path returns a local file with the object's bytes. It may be the store's own
// file, so it is never to be written to.
func (o Objects) Path(ctx context.Context, obj recording.Object) (string, error) {
	if err := o.check(obj); err != nil {
		return "", err
	}
	return o.store.Path(ctx, obj.Key, o.dir)
}

// Create starts an object of the attempt under name.
func (o Objects) Create(ctx context.Context, name string) (blob.Writer, error) {
	return o.store.Create(ctx, o.key(name))
}

// Put keeps the bytes of a local file as an object of the attempt under name.
func (o Objects) Put(ctx context.Context, name, file string) (recording.Object, error) {
	in, err := os.Open(file)
	if err != nil {
		return recording.Object{}, fmt.Errorf("open the file to keep: %w", err)
	}
	defer in.Close()
	out, err := o.Create(ctx, name)
	if err != nil {
		return recording.Object{}, err
	}
	defer func() { _ = out.Abort() }() // nothing to undo after Commit
	if _, err := io.Copy(out, in); err != nil {
		return recording.Object{}, fmt.Errorf("copy the file to keep: %w", err)
	}
	return out.Commit()
}

// Link makes an existing object an object of the attempt under name, without
// copying its bytes through this process.
func (o Objects) Link(ctx context.Context, obj recording.Object, name string) (recording.Object, error) {
	if err := o.own(obj); err != nil {
		return recording.Object{}, err
	}
	key := o.key(name)
	if err := o.store.Link(ctx, obj.Key, key); err != nil {
		return recording.Object{}, err
	}
	obj.Key = key
	return obj, nil
}

// key is not cleaned, so that the store refuses a name that would leave the prefix.
func (o Objects) key(name string) string { return o.prefix + "/" + name }

var errForeign = errors.New("the input names an object of another job or tenant")

// own refuses an object of others.
func (o Objects) own(obj recording.Object) error {
	if o.within != nil && !slices.ContainsFunc(o.within, func(folder string) bool { return strings.HasPrefix(obj.Key, folder) }) {
		return outcome.Quarantine("foreign_object", errForeign)
	}
	return nil
}

// check refuses an object of others, and one that is larger than the stage's
// profile allows.
func (o Objects) check(obj recording.Object) error {
	if err := o.own(obj); err != nil {
		return err
	}
	if o.limit > 0 && obj.Bytes > o.limit {
		return outcome.Reject("input_too_large",
			fmt.Sprintf("The file has %d bytes; this step takes at most %d.", obj.Bytes, o.limit))
	}
	return nil
}

package intake

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/stagefleet/stagefleet/pkg/blob"
	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/recording"
	"github.com/stagefleet/stagefleet/pkg/sheet"
)

// copyPrefix begins the keys of what was copied for a row, as of what the API takes in.
const copyPrefix = "uploads/"

// refusedRow is the error of a row that makes no job.
type refusedRow struct{ sheet.Refusal }

func (e *refusedRow) Error() string { return e.Sentence }

// rowFault is the error of a row that is tried again. It says nothing about other rows.
type rowFault struct{ error }

func (e *rowFault) Unwrap() error { return e.error }

// refuse says that a row's source cannot be had.
func refuse(r sheet.Row, code, sentence string) error {
	return &refusedRow{sheet.Refusal{Column: sheet.Source, Kind: sheet.KindOf(r.Cells[sheet.Source]), Code: code, Sentence: sentence}}
}

// refusalOf tells refusals of a row from what is waited out.
func refusalOf(err error, r sheet.Row) *sheet.Refusal {
	var row *refusedRow
	var invalid *job.Invalid
	switch {
	case errors.As(err, &invalid):
		return &sheet.Refusal{Column: sheet.Target, Kind: sheet.KindOf(r.Cells[sheet.Target]), Code: "invalid", Sentence: invalid.Sentence}
	case errors.As(err, &row):
		return &row.Refusal
	case errors.Is(err, job.ErrVersionConflict):
		return &sheet.Refusal{Column: sheet.Version, Kind: sheet.KindOf(r.Cells[sheet.Version]), Code: "version_conflict",
			Sentence: "This version of the target exists with other content: give the row another version, or none."}
	case errors.Is(err, job.ErrVersionOlder):
		return &sheet.Refusal{Column: sheet.Version, Kind: sheet.KindOf(r.Cells[sheet.Version]), Code: "version_older",
			Sentence: "A newer version of the target has been taken in already."}
	}
	return nil
}

// meaning reads a stored row again.
func meaning(row job.ImportRow) (sheet.Row, error) {
	var r sheet.Row
	if copy(r.Cells[:], row.Cells) != len(r.Cells) {
		return r, fmt.Errorf("row %d has %d cells", row.Number, len(row.Cells))
	}
	r.Version = sheet.VersionOf(r.Cells[sheet.Version])
	return r, nil
}

func submission(o job.OpenImport, ref job.RowRef, r sheet.Row, source recording.Source, first job.Route) job.Submission {
	input, err := json.Marshal(source)
	if err != nil {
		panic(fmt.Sprintf("intake: encode a source: %v", err)) // unreachable: the struct holds only encodable fields
	}
	sub := job.Submission{
		Tenant: o.Tenant, Target: sheet.TargetOf(r), Version: r.Version, Digest: source.Object.SHA256, Input: input, First: first, Row: &ref,
		Webhook: o.Webhook,
	}
	if strings.HasPrefix(source.Object.Key, copyPrefix) {
		sub.Upload = path.Dir(source.Object.Key)
	}
	return sub
}

// source brings a row's recording into the object store, unless it has been there since an earlier try.
func (d *desk) source(ctx context.Context, o job.OpenImport, row job.ImportRow, r sheet.Row) (recording.Source, error) {
	var s recording.Source
	if row.Source != nil {
		return s, json.Unmarshal(row.Source, &s)
	}
	object, err := d.object(ctx, o, r)
	if err != nil {
		return s, &rowFault{err}
	}
	s = recording.Source{V: recording.Version, Object: object, Name: r.Cells[sheet.Title]}
	if s.Name == "" {
		s.Name = sheet.NameOf(r)
	}
	return s, nil
}

// keep notes a source for the next try, also when ctx has ended: that may be why there is one.
func (d *desk) keep(ctx context.Context, ref job.RowRef, s recording.Source) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), waitFor)
	defer cancel()
	kept, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encode a source: %w", err)
	}
	return d.Record.NoteSource(ctx, ref, kept)
}

func (d *desk) object(ctx context.Context, o job.OpenImport, r sheet.Row) (recording.Object, error) {
	text := r.Cells[sheet.Source]
	if key, ok := strings.CutPrefix(text, sheet.ObjectPrefix); ok {
		return d.stored(ctx, "inbox/"+o.Tenant+"/"+key, r)
	}
	if o.Folder == "" {
		return recording.Object{}, refuse(r, "no_local_files",
			"The source must be object:KEY, an object under inbox/ACCOUNT/ in the fleet's store; files can be named only to a fleet on the same machine.")
	}
	return d.local(ctx, o, text, r)
}

// stored refers to an object that is in the store already.
func (d *desk) stored(ctx context.Context, key string, r sheet.Row) (recording.Object, error) {
	object, err := d.Objects.Open(ctx, key)
	switch {
	case errors.Is(err, blob.ErrKey):
		return recording.Object{}, refuse(r, "object_key", "The source is no key of an object: letters, digits, -_.=+@ and slashes, at most 1024 bytes.")
	case errors.Is(err, blob.ErrNotFound):
		return recording.Object{}, refuse(r, "not_found", "There is no such object in the account's inbox.")
	case errors.Is(err, blob.ErrUnreadable):
		return recording.Object{}, refuse(r, "not_readable", "The fleet may not read this object, or it is archived or not there: restore it, or store it again.")
	case err != nil:
		return recording.Object{}, fmt.Errorf("open a source: %w", err)
	}
	defer func() { _ = object.Close() }()
	sum := sha256.New()
	n, err := io.Copy(sum, io.LimitReader(object, d.MaxInput+1))
	if err != nil {
		return recording.Object{}, fmt.Errorf("read a source: %w", err)
	}
	if n > d.MaxInput {
		return recording.Object{}, tooLarge(r, d.MaxInput)
	}
	return recording.Object{Key: key, SHA256: hex.EncodeToString(sum.Sum(nil)), Type: blob.TypeOf(key), Bytes: n}, nil
}

// unreachable refuses a row that was tried for about a day.
func unreachable(r sheet.Row) *sheet.Refusal {
	return &sheet.Refusal{Column: sheet.Source, Kind: sheet.KindOf(r.Cells[sheet.Source]), Code: "not_read",
		Sentence: "The source could not be read for a day, though it may be there: import the row again when its store can be reached."}
}

func tooLarge(r sheet.Row, limit int64) error {
	return refuse(r, "too_large", fmt.Sprintf("The recording has more than %d bytes.", limit))
}

// local copies a file of this machine into the store. Only a regular file is taken: a pipe could hang, a link could lead anywhere.
func (d *desk) local(ctx context.Context, o job.OpenImport, name string, r sheet.Row) (recording.Object, error) {
	if !filepath.IsAbs(name) {
		name = filepath.Join(o.Folder, name)
	}
	file, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, os.ErrNotExist) {
		return recording.Object{}, refuse(r, "not_found", "There is no such file; a path that does not begin with a slash is relative to the sheet.")
	}
	if err != nil {
		return recording.Object{}, refuse(r, "not_readable", "The file cannot be opened, or is a link.")
	}
	defer file.Close()
	info, err := file.Stat()
	switch {
	case err != nil || !info.Mode().IsRegular():
		return recording.Object{}, refuse(r, "not_regular", "The source is not a regular file.")
	case info.Size() > d.MaxInput:
		return recording.Object{}, tooLarge(r, d.MaxInput)
	}
	return d.copied(ctx, o, file, r)
}

// copied keeps a file in a folder of its own, of which the record knows before the object is in it, so that what no job takes is
// found.
func (d *desk) copied(ctx context.Context, o job.OpenImport, file io.Reader, r sheet.Row) (recording.Object, error) {
	select {
	case d.copies <- struct{}{}:
		defer func() { <-d.copies }()
	case <-ctx.Done():
		return recording.Object{}, context.Cause(ctx)
	}
	folder := copyPrefix + o.Tenant + "/" + strings.ToLower(rand.Text())
	object, err := d.Objects.Create(ctx, folder+"/source")
	if err != nil {
		return recording.Object{}, fmt.Errorf("keep a source: %w", err)
	}
	defer func() { _ = object.Abort() }()
	switch n, err := io.Copy(object, io.LimitReader(file, d.MaxInput+1)); {
	case err != nil:
		return recording.Object{}, fmt.Errorf("keep a source: %w", err)
	case n > d.MaxInput: // it has grown
		return recording.Object{}, tooLarge(r, d.MaxInput)
	}
	if err := d.Record.Copied(ctx, folder, o.ID); err != nil {
		return recording.Object{}, err
	}
	return object.Commit()
}

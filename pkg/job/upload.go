package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/stagefleet/stagefleet/pkg/internal/envelope"
	"github.com/stagefleet/stagefleet/pkg/internal/sqldb"
)

// UploadLife is how long after its beginning an upload can be gone on with and be submitted.
const UploadLife = 24 * time.Hour

// ErrOffset means that the bytes begin elsewhere than where the upload stands (HTTP 409).
var ErrOffset = errors.New("the upload stands elsewhere")

// Upload is a recording that comes in pieces. The pieces are objects; here is which, and how far they reach.
type Upload struct {
	ID        string
	Tenant    string
	Name      string // of the file, for people
	Size      int64  // of the whole, in bytes
	SHA256    string // that the sender says; empty: says nothing
	Received  int64
	Parts     []string        // keys, in order
	Object    json.RawMessage // the whole, once it is
	ExpiresAt time.Time
}

var sha256Text = regexp.MustCompile(`^[0-9a-f]{64}$`)

func (up Upload) validate() error {
	switch {
	case up.Name == "" || len(up.Name) > maxTarget || !PlainText(up.Name):
		return &Invalid{fmt.Sprintf("The name must be 1 to %d bytes of UTF-8 without control characters.", maxTarget)}
	case up.Size < 1:
		return &Invalid{"The size must be the number of bytes that will come, 1 or more."}
	case up.SHA256 != "" && !sha256Text.MatchString(up.SHA256):
		return &Invalid{"The sha256 must be 64 hexadecimal digits in lower case."}
	}
	return nil
}

// CreateUpload begins an upload; of up only Tenant, Name, Size and SHA256 are read. Uploads that have expired are forgotten.
func (s *Store) CreateUpload(ctx context.Context, up Upload) (Upload, error) {
	if err := up.validate(); err != nil {
		return Upload{}, err
	}
	id := envelope.NewID(time.Now())
	err := s.db.Update(ctx, "create_upload", func(tx *sqldb.Tx) error {
		_, err := tx.ExecAll(ctx, []sqldb.Statement{
			{Text: q("drop_uploads")},
			{Text: q("insert_upload"), Args: []any{id, up.Tenant, up.Name, up.Size, up.SHA256, UploadLife.Microseconds()}},
		})
		return err
	})
	if err != nil {
		return Upload{}, fmt.Errorf("begin an upload: %w", err)
	}
	return s.Upload(ctx, up.Tenant, id)
}

// Upload returns an upload of a tenant, or ErrNotFound.
func (s *Store) Upload(ctx context.Context, tenant, id string) (Upload, error) {
	var up Upload
	err := s.db.View(ctx, "upload", func(tx *sqldb.Tx) (err error) {
		up, err = readUpload(ctx, tx, q("upload"), tenant, id)
		return err
	})
	if err != nil {
		return Upload{}, fmt.Errorf("read upload: %w", err)
	}
	return up, nil
}

func readUpload(ctx context.Context, tx *sqldb.Tx, text, tenant, id string) (Upload, error) {
	var up Upload
	err := tx.Query(ctx, text, func(scan func(...any) error) error {
		var parts, object string
		var expires int64
		if err := scan(&up.ID, &up.Tenant, &up.Name, &up.Size, &up.SHA256, &up.Received, &parts, &object, &expires); err != nil {
			return err
		}
		up.ExpiresAt, up.Object = timeOf(expires), json.RawMessage(object)
		return json.Unmarshal([]byte(parts), &up.Parts)
	}, tenant, id)
	if err == nil && up.ID == "" {
		err = ErrNotFound
	}
	return up, err
}

// AppendUpload notes that the bytes from at on, n of them, are in the object under key. ErrOffset when the upload does not
// stand at that byte (another request was faster), or when there would be more than its size.
func (s *Store) AppendUpload(ctx context.Context, tenant, id string, at int64, key string, n int64) error {
	return s.changeUpload(ctx, tenant, id, func(tx *sqldb.Tx, up Upload) error {
		if up.Received != at || at+n > up.Size {
			return ErrOffset
		}
		_, err := tx.Exec(ctx, q("append_upload"), id, at+n, sqldb.Text(append(up.Parts, key)))
		return err
	})
}

// ResetUpload forgets what has come, after it was found to be something else than its sender said.
func (s *Store) ResetUpload(ctx context.Context, tenant, id string) error {
	return s.changeUpload(ctx, tenant, id, func(tx *sqldb.Tx, _ Upload) error {
		_, err := tx.Exec(ctx, q("append_upload"), id, 0, "[]")
		return err
	})
}

// FinishUpload notes the whole. The first one counts.
func (s *Store) FinishUpload(ctx context.Context, tenant, id string, object json.RawMessage) error {
	return s.changeUpload(ctx, tenant, id, func(tx *sqldb.Tx, _ Upload) error {
		_, err := tx.Exec(ctx, q("finish_upload"), tenant, id, string(object))
		return err
	})
}

func (s *Store) changeUpload(ctx context.Context, tenant, id string, change func(*sqldb.Tx, Upload) error) error {
	err := s.db.Update(ctx, "change_upload", func(tx *sqldb.Tx) error {
		up, err := readUpload(ctx, tx, q("upload")+"FOR UPDATE", tenant, id)
		if err != nil {
			return err
		}
		return change(tx, up)
	})
	if err != nil {
		return fmt.Errorf("change upload: %w", err)
	}
	return nil
}

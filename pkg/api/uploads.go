package api

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/stagefleet/stagefleet/pkg/blob"
	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/recording"
)

// Uploads is what the API needs of the record for recordings that come in pieces.
type Uploads interface {
	CreateUpload(ctx context.Context, up job.Upload) (job.Upload, error)
	Upload(ctx context.Context, tenant, id string) (job.Upload, error)
	AppendUpload(ctx context.Context, tenant, id string, at int64, key string, n int64) error
	ResetUpload(ctx context.Context, tenant, id string) error
	FinishUpload(ctx context.Context, tenant, id string, object json.RawMessage) error
	KeepUpload(ctx context.Context, folder string, until time.Time) error
}

// pieceSize is how much of an upload is kept as one object: a server that is killed forgets at most so much of it.
const pieceSize = 64 << 20

// UploadOrder begins an upload.
type UploadOrder struct {
	Name   string `json:"name"` // of the file
	Size   int64  `json:"size"` // in bytes
	SHA256 string `json:"sha256,omitempty"`
}

// UploadState is how far an upload is. Its bytes from offset on are wanted next.
type UploadState struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Size      int64     `json:"size"`
	Offset    int64     `json:"offset"`
	Complete  bool      `json:"complete"` // it can be submitted
	ExpiresAt time.Time `json:"expires_at"`
}

func (s *Server) uploadRoutes() []route {
	state := jsonOf(UploadState{})
	return []route{
		{method: http.MethodPost, path: "/v1/uploads", scope: job.ScopeSubmit, summary: "Begin an upload that can be resumed",
			takes: []body{jsonOf(UploadOrder{})}, gives: map[int]body{201: state}, problems: []int{400, 413, 415, 422}, handle: s.beginUpload},
		{method: http.MethodGet, path: "/v1/uploads/{upload}", scope: job.ScopeSubmit, summary: "How far an upload is; the header Upload-Offset says it too, to HEAD as well",
			gives: map[int]body{200: state}, problems: []int{404}, handle: s.upload},
		{method: http.MethodPut, path: "/v1/uploads/{upload}", scope: job.ScopeSubmit, summary: "Send bytes of an upload, from its offset on",
			params: []param{{in: "header", name: "Content-Range", about: "bytes FIRST-LAST/SIZE; without it, the whole is sent."}},
			takes:  []body{{media: "application/octet-stream"}},
			gives:  map[int]body{200: state}, problems: []int{400, 404, 409, 415, 422}, handle: s.fillUpload},
	}
}

func (s *Server) beginUpload(w http.ResponseWriter, r *http.Request) error {
	order, err := readJSON[UploadOrder](r)
	if err != nil {
		return err
	}
	if order.Size > s.cfg.MaxUpload {
		return &http.MaxBytesError{Limit: s.cfg.MaxUpload}
	}
	up, err := s.cfg.Record.CreateUpload(r.Context(), job.Upload{
		Tenant: callerOf(r.Context()).tenant, Name: baseName(order.Name), Size: order.Size, SHA256: order.SHA256,
	})
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/v1/uploads/"+up.ID)
	return tellUpload(w, http.StatusCreated, up)
}

func (s *Server) upload(w http.ResponseWriter, r *http.Request) error {
	up, err := s.cfg.Record.Upload(r.Context(), callerOf(r.Context()).tenant, r.PathValue("upload"))
	if err != nil {
		return err
	}
	return tellUpload(w, http.StatusOK, up)
}

func tellUpload(w http.ResponseWriter, status int, up job.Upload) error {
	offset(w, up)
	return writeJSON(w, status, UploadState{
		ID: up.ID, Name: up.Name, Size: up.Size, Offset: up.Received, Complete: len(up.Object) > 0, ExpiresAt: up.ExpiresAt,
	})
}

func offset(w http.ResponseWriter, up job.Upload) {
	w.Header().Set("Upload-Offset", strconv.FormatInt(up.Received, 10))
	w.Header().Set("Upload-Length", strconv.FormatInt(up.Size, 10))
}

// fillUpload keeps what comes, piece by piece, and also what came before a connection broke.
func (s *Server) fillUpload(w http.ResponseWriter, r *http.Request) error {
	tenant, id := callerOf(r.Context()).tenant, r.PathValue("upload")
	up, err := s.cfg.Record.Upload(r.Context(), tenant, id)
	if err != nil {
		return err
	}
	offset(w, up)
	first, length, err := rangeOf(r, up.Size)
	if err != nil {
		return err
	}
	if first != up.Received {
		return problem(http.StatusConflict, "offset", "The upload stands at byte %d, the range begins at %d.", up.Received, first)
	}
	body := io.LimitReader(r.Body, length)
	// What has come stays, though the sender be gone.
	ctx := context.WithoutCancel(r.Context())
	for left := length; left > 0; {
		n, err := s.keepPiece(ctx, &up, io.LimitReader(body, min(left, pieceSize)))
		left -= n
		offset(w, up)
		if err != nil {
			return err
		}
		if n == 0 {
			return problem(http.StatusBadRequest, "broken_upload", "The body ended %d bytes before its range; what came is kept.", left)
		}
	}
	if err := s.noMore(ctx, w, r, &up); err != nil {
		return err
	}
	if up, err = s.whole(ctx, up); err != nil {
		return err
	}
	return tellUpload(w, http.StatusOK, up)
}

// noMore refuses a body that is longer than its range, which only shows at its end if no length was announced. An upload that would be
// whole begins anew: what is longer than announced is another recording, and half of it must not pass for it.
func (s *Server) noMore(ctx context.Context, w http.ResponseWriter, r *http.Request, up *job.Upload) error {
	if n, _ := io.ReadFull(r.Body, make([]byte, 1)); n == 0 {
		return nil
	}
	if up.Received < up.Size {
		return errLong
	}
	if err := s.cfg.Record.ResetUpload(ctx, up.Tenant, up.ID); err != nil {
		return err
	}
	up.Received = 0
	offset(w, *up)
	return errLong
}

var errLong = problem(http.StatusBadRequest, "long_upload", "The body has more bytes than were announced; begin an upload of the right size, or go on from the header Upload-Offset.")

// keepPiece makes an object of what can be read, and notes it. The error is of the store or the record, not of the reader:
// a sender that breaks off has still sent what came before.
func (s *Server) keepPiece(ctx context.Context, up *job.Upload, body io.Reader) (int64, error) {
	folder := pieceFolder(up.Tenant, up.ID)
	if err := s.cfg.Record.KeepUpload(ctx, folder, up.ExpiresAt); err != nil {
		return 0, err
	}
	key := fmt.Sprintf("%s/%016x-%s", folder, up.Received, strings.ToLower(rand.Text()))
	object, err := s.cfg.Objects.Create(ctx, key)
	if err != nil {
		return 0, err
	}
	defer func() { _ = object.Abort() }()
	source := &readFailure{Reader: body}
	n, err := io.CopyBuffer(struct{ io.Writer }{object}, source, make([]byte, copyBuffer))
	if err != nil && source.err == nil || n == 0 {
		return 0, err
	}
	if _, err := object.Commit(); err != nil {
		return 0, err
	}
	if err := s.cfg.Record.AppendUpload(ctx, up.Tenant, up.ID, up.Received, key, n); err != nil {
		return 0, err
	}
	up.Received, up.Parts = up.Received+n, append(up.Parts, key)
	return n, nil
}

// readFailure ends a body at its failure, and keeps it.
type readFailure struct {
	io.Reader
	err error
}

func (r *readFailure) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err, err = err, io.EOF
	}
	return n, err
}

// whole joins the pieces of an upload that has come to its end.
func (s *Server) whole(ctx context.Context, up job.Upload) (job.Upload, error) {
	if up.Received < up.Size || len(up.Object) > 0 {
		return up, nil
	}
	joined, err := s.join(ctx, up)
	if errors.Is(err, blob.ErrNotFound) { // nobody sent anything for so long that the pieces became garbage
		return up, errors.Join(problem(http.StatusConflict, "pieces_gone", "The upload has rested for too long; send it again from byte 0."),
			s.cfg.Record.ResetUpload(ctx, up.Tenant, up.ID))
	}
	if err != nil {
		return up, err
	}
	if up.SHA256 != "" && up.SHA256 != joined.SHA256 {
		return up, errors.Join(problem(http.StatusUnprocessableEntity, "checksum", "What came is not what was announced: its SHA-256 is %s. Send it again.", joined.SHA256),
			s.cfg.Record.ResetUpload(ctx, up.Tenant, up.ID))
	}
	if up.Object, err = json.Marshal(joined); err != nil {
		return up, fmt.Errorf("encode the object: %w", err)
	}
	if err := s.cfg.Record.FinishUpload(ctx, up.Tenant, up.ID, up.Object); err != nil {
		return up, err
	}
	return up, s.cfg.Record.Uploaded(ctx, pieceFolder(up.Tenant, up.ID)) // nobody needs the pieces any more
}

// join copies the pieces into one object, through this process and in constant memory: stores have no other way in common.
func (s *Server) join(ctx context.Context, up job.Upload) (recording.Object, error) {
	folder := uploadFolder(up.Tenant, up.ID)
	if err := s.cfg.Record.KeepUpload(ctx, folder, up.ExpiresAt); err != nil {
		return recording.Object{}, err
	}
	object, err := s.cfg.Objects.Create(ctx, folder+"/source")
	if err != nil {
		return recording.Object{}, err
	}
	defer func() { _ = object.Abort() }()
	buffer := make([]byte, copyBuffer)
	for _, key := range up.Parts {
		piece, err := s.cfg.Objects.Open(ctx, key)
		if err != nil {
			return recording.Object{}, err
		}
		_, err = io.CopyBuffer(struct{ io.Writer }{object}, struct{ io.Reader }{piece}, buffer)
		if err = errors.Join(err, piece.Close()); err != nil {
			return recording.Object{}, fmt.Errorf("join the pieces: %w", err)
		}
	}
	return object.Commit()
}

// uploadFolder is where an upload's object is; its pieces are beside it until they are garbage.
func uploadFolder(tenant, id string) string { return "uploads/" + tenant + "/" + id }

func pieceFolder(tenant, id string) string { return uploadFolder(tenant, id) + "-pieces" }

// baseName is the last part of a name, whichever system's path it is.
func baseName(name string) string {
	if name == "" {
		return ""
	}
	return path.Base(strings.ReplaceAll(name, `\`, "/"))
}

// rangeOf reads which bytes of a whole of the given size a request brings.
func rangeOf(r *http.Request, size int64) (first, length int64, err error) {
	text := r.Header.Get("Content-Range")
	if text == "" && r.ContentLength > size {
		return 0, 0, errLong
	}
	if text == "" {
		return 0, size, nil
	}
	first, last, total, err := parseRange(text)
	if err != nil || total != size || r.ContentLength > last-first+1 {
		return 0, 0, problem(http.StatusBadRequest, "content_range", "The Content-Range must be bytes FIRST-LAST/%d, and the body no longer than it says.", size)
	}
	return first, last - first + 1, nil
}

var errRange = errors.New("not bytes FIRST-LAST/SIZE")

// parseRange reads a Content-Range with all of its numbers: 0 <= first <= last < size.
func parseRange(text string) (first, last, size int64, err error) {
	rest, ok := strings.CutPrefix(text, "bytes ")
	bounds, whole, cut := strings.Cut(rest, "/")
	from, to, dash := strings.Cut(bounds, "-")
	if !ok || !cut || !dash {
		return 0, 0, 0, errRange
	}
	for _, n := range []struct {
		text string
		into *int64
	}{{from, &first}, {to, &last}, {whole, &size}} {
		digits, err := strconv.ParseUint(n.text, 10, 63)
		if err != nil {
			return 0, 0, 0, errRange
		}
		*n.into = int64(digits)
	}
	if first > last || last >= size {
		return 0, 0, 0, errRange
	}
	return first, last, size, nil
}

package api

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/recording"
)

// Bounds of what a submission says beside its bytes.
const (
	MaxTarget   = 512       // bytes of UTF-8
	maxName     = 1 << 10   // bytes of a file name
	maxOverhead = 64 << 10  // bytes of a request that are not the recording's
	maxKey      = 255       // bytes of an idempotency key
	copyBuffer  = 256 << 10 // an upload needs this much memory, however long it is
)

// submitForm is the form as the document describes it; its fields are read in the order in which they come.
type submitForm struct {
	File    []byte `json:"file" jsonschema:"description=the recording\\, with its file name"`
	Target  string `json:"target,omitempty" jsonschema:"description=what the recording is called; its file name unless given"`
	Webhook string `json:"webhook,omitempty" jsonschema:"description=https address that the job's end is reported to\\, signed as Standard Webhooks has it"`
	Version int64  `json:"version,omitempty" jsonschema:"minimum=1,description=version of the target; the next unless given"`
}

// upload is what a multipart request brought.
type upload struct {
	target  string
	version int64
	name    string
	folder  string // of the object
	webhook string
	object  recording.Object
}

// submit gets hold of the recording, however it is given, and then asks the record for a job: 202 for a new one, 200 for one that
// the same content has made before. A submission without a new job leaves its object behind, which garbage collection removes.
func (s *Server) submit(w http.ResponseWriter, r *http.Request) error {
	key := r.Header.Get("Idempotency-Key")
	if len(key) > maxKey {
		return problem(http.StatusBadRequest, "idempotency_key", "The idempotency key must have at most %d bytes.", maxKey)
	}
	receive := s.receive
	if media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); media == "application/json" {
		receive = s.refer
	}
	up, err := receive(w, r)
	if err != nil {
		return err
	}
	input, err := json.Marshal(recording.Source{V: recording.Version, Object: up.object, Name: up.name})
	if err != nil {
		return fmt.Errorf("encode the source: %w", err)
	}
	j, err := s.cfg.Record.Submit(r.Context(), job.Submission{
		Tenant: callerOf(r.Context()).tenant, Target: up.target, Version: up.version, Digest: up.object.SHA256, Input: input, Upload: up.folder, First: s.cfg.First,
		Price: s.cfg.Price, IdempotencyKey: key, BodyHash: up.hash(), TraceParent: r.Header.Get("Traceparent"), Webhook: up.webhook,
	})
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/v1/jobs/"+j.ID)
	status := http.StatusAccepted
	if j.Known {
		status = http.StatusOK
	}
	return writeJSON(w, status, s.placed(j))
}

// hash is equal for two requests that ask for the same thing.
func (u upload) hash() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %d %q %s %q", u.target, u.version, u.name, u.object.SHA256, u.webhook))
	return hex.EncodeToString(sum[:])
}

func (s *Server) receive(w http.ResponseWriter, r *http.Request) (upload, error) {
	body := &unstalled{r.Body, http.NewResponseController(w)}
	r.Body = http.MaxBytesReader(w, body, s.cfg.MaxUpload+maxOverhead)
	parts, err := r.MultipartReader()
	if err != nil {
		return upload{}, problem(http.StatusUnsupportedMediaType, "not_multipart", "Send the recording as multipart/form-data in a field named file.")
	}
	var up upload
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return upload{}, broken(err)
		}
		if err := s.take(&up, r, part); err != nil {
			return upload{}, err
		}
	}
	return up, up.complete()
}

// take reads one field of the form.
func (s *Server) take(up *upload, r *http.Request, part *multipart.Part) error {
	var err error
	switch part.FormName() {
	case "target":
		up.target, err = text(part, MaxTarget)
	case "webhook":
		if up.webhook, err = text(part, MaxTarget*4); err == nil && up.webhook != "" {
			err = s.reportable(up.webhook)
		}
	case "version":
		var digits string
		if digits, err = text(part, 20); err == nil {
			up.version, err = ParseVersion(digits)
		}
	case "file":
		if up.object.Key != "" {
			return problem(http.StatusBadRequest, "two_files", "Send one recording per request.")
		}
		up.name = baseName(part.FileName())
		up.folder, up.object, err = s.keep(r.Context(), part)
	default:
		return problem(http.StatusBadRequest, "unknown_field", "The form's fields are file, target, version and webhook.")
	}
	return err
}

// keep streams a file into the object store, in a folder of its own. The record knows of the folder before the object is in
// it, so that what no job takes is found.
func (s *Server) keep(ctx context.Context, part io.Reader) (string, recording.Object, error) {
	folder := uploadFolder(callerOf(ctx).tenant, strings.ToLower(rand.Text()))
	object, err := s.cfg.Objects.Create(ctx, folder+"/source")
	if err != nil {
		return "", recording.Object{}, err
	}
	defer func() { _ = object.Abort() }()
	limited := http.MaxBytesReader(nil, io.NopCloser(part), s.cfg.MaxUpload)
	if _, err := io.CopyBuffer(struct{ io.Writer }{object}, limited, make([]byte, copyBuffer)); err != nil {
		return "", recording.Object{}, broken(err)
	}
	if err := s.cfg.Record.Uploaded(ctx, folder); err != nil {
		return "", recording.Object{}, err
	}
	kept, err := object.Commit()
	return folder, kept, err
}

// unstalled allows each read of a body its own time, so that a long upload may go on and a dead one may not.
type unstalled struct {
	io.ReadCloser
	control *http.ResponseController
}

func (u *unstalled) Read(p []byte) (int, error) {
	_ = u.control.SetReadDeadline(time.Now().Add(stallTimeout)) // unsupported only without a connection, where nothing stalls
	return u.ReadCloser.Read(p)
}

// broken states that a request did not arrive whole.
func broken(err error) error {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return err
	}
	return problem(http.StatusBadRequest, "broken_upload", "The upload broke off or is not a well-formed form.")
}

func text(part io.Reader, limit int64) (string, error) {
	raw, err := io.ReadAll(io.LimitReader(part, limit+1))
	if err != nil {
		return "", broken(err)
	}
	if int64(len(raw)) > limit {
		return "", problem(http.StatusBadRequest, "field_too_long", "A field of the form has more than %d bytes.", limit)
	}
	if !storable(string(raw)) {
		return "", problem(http.StatusBadRequest, "field_text", "The fields of the form must be UTF-8 without NUL characters.")
	}
	return string(raw), nil
}

// ParseVersion reads a version number; an empty text is 0, which means the next one.
func ParseVersion(digits string) (int64, error) {
	if digits == "" {
		return 0, nil
	}
	version, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || version < 1 {
		return 0, problem(http.StatusBadRequest, "version", "The version must be a whole number from 1.")
	}
	return version, nil
}

// complete gives the target its default and refuses what the record could not keep.
func (u *upload) complete() error {
	if u.object.Key == "" {
		return problem(http.StatusBadRequest, "no_file", "The form has no field named file with a recording.")
	}
	if u.name == "" || u.name == "." || u.name == "/" {
		u.name = "recording"
	}
	if u.target == "" {
		u.target = u.name
	}
	if len(u.name) > maxName || !utf8.ValidString(u.name) {
		return problem(http.StatusBadRequest, "name", "The file name must be UTF-8 of at most %d bytes.", maxName)
	}
	if len(u.target) > MaxTarget || !utf8.ValidString(u.target) {
		return problem(http.StatusBadRequest, "target", "The target must be UTF-8 of at most %d bytes.", MaxTarget)
	}
	return nil
}

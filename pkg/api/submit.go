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
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/recording"
)

// Bounds of what a submission says beside its bytes.
const (
	MaxTarget   = 512       // bytes of UTF-8
	maxName     = 1 << 10   // bytes of a file name
	maxAddress  = 2 << 10   // bytes of a webhook's address
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
	key, err := idempotencyKey(r)
	if err != nil {
		return err
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
		Price: s.cfg.Price, IdempotencyKey: key, BodyHash: up.hash(), TraceParent: traceOf(r), Webhook: up.webhook,
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

// idempotencyKey is what makes a request that is sent again the same request; empty: nothing.
func idempotencyKey(r *http.Request) (string, error) {
	key := r.Header.Get("Idempotency-Key")
	if len(key) > maxKey || !job.PlainText(key) {
		return "", problem(http.StatusBadRequest, "idempotency_key", "The idempotency key must be UTF-8 of at most %d bytes without control characters.", maxKey)
	}
	return key, nil
}

// hash is equal for two requests that ask for the same thing.
func (u upload) hash() string {
	return hashOf("job", u.target, strconv.FormatInt(u.version, 10), u.name, u.object.SHA256, u.webhook)
}

func hashOf(parts ...string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", parts))
	return hex.EncodeToString(sum[:])
}

var traceparent = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// traceOf is the caller's W3C trace context. Any other text is ignored, as the recommendation has it: it travels with messages.
func traceOf(r *http.Request) string {
	if trace := r.Header.Get("Traceparent"); traceparent.MatchString(trace) {
		return trace
	}
	return ""
}

func (s *Server) receive(w http.ResponseWriter, r *http.Request) (upload, error) {
	r.Body = http.MaxBytesReader(w, r.Body, s.cfg.MaxUpload+maxOverhead)
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
		if up.webhook, err = text(part, maxAddress); err == nil && up.webhook != "" {
			err = s.reportable(callerOf(r.Context()), up.webhook)
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

// keep streams a recording into the object store.
func (s *Server) keep(ctx context.Context, part io.Reader) (folder string, kept recording.Object, err error) {
	folder = uploadFolder(callerOf(ctx).tenant, strings.ToLower(rand.Text()))
	kept, err = s.put(ctx, folder, "source", part, s.cfg.MaxUpload)
	return folder, kept, err
}

// put streams a body into the object store, in a folder of its own. The record knows of the folder before the object is in it, so
// that what nothing takes is found; a body that is too large leaves nothing. What the store cannot do is not the sender's fault.
func (s *Server) put(ctx context.Context, folder, name string, body io.Reader, most int64) (recording.Object, error) {
	object, err := s.cfg.Objects.Create(ctx, folder+"/"+name)
	if err != nil {
		return recording.Object{}, err
	}
	defer func() { _ = object.Abort() }()
	source := &readFailure{Reader: http.MaxBytesReader(nil, io.NopCloser(body), most)}
	_, err = io.CopyBuffer(struct{ io.Writer }{object}, source, make([]byte, copyBuffer))
	switch {
	case source.err != nil:
		return recording.Object{}, broken(source.err)
	case err != nil:
		return recording.Object{}, fmt.Errorf("keep what comes: %w", err)
	}
	if err := s.cfg.Record.Uploaded(ctx, folder); err != nil {
		return recording.Object{}, err
	}
	return object.Commit()
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
	if len(u.name) > maxName || !job.PlainText(u.name) {
		return errName
	}
	if len(u.target) > MaxTarget || !utf8.ValidString(u.target) {
		return problem(http.StatusBadRequest, "target", "The target must be UTF-8 of at most %d bytes.", MaxTarget)
	}
	return nil
}

var errName = problem(http.StatusBadRequest, "name", "The file name must be UTF-8 of at most %d bytes without control characters.", maxName)

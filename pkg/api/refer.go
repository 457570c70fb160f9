package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"syscall"

	"github.com/stagefleet/stagefleet/pkg/blob"
	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/recording"
)

// SubmitOrder asks for a job on a recording that is not in the request. Exactly one of Upload, Object and File says which.
type SubmitOrder struct {
	Upload  string `json:"upload,omitempty"`  // identifier of a complete upload
	Object  string `json:"object,omitempty"`  // key of an object in the caller's own folder of the object store: inbox/TENANT/KEY
	File    string `json:"file,omitempty"`    // path on the server's machine: only of a local fleet, only for operators
	Name    string `json:"name,omitempty"`    // of the recording, for people; empty: the file's
	Target  string `json:"target,omitempty"`  // what the recording is called; empty: the name
	Version int64  `json:"version,omitempty"` // empty: the next
	Webhook string `json:"webhook,omitempty"` // address that the job's end is reported to
}

// refer reads a submission that names its recording.
func (s *Server) refer(w http.ResponseWriter, r *http.Request) (upload, error) {
	order, err := readJSON[SubmitOrder](r)
	if err != nil {
		return upload{}, err
	}
	if order.Version < 0 {
		return upload{}, &job.Invalid{Sentence: "The version must be a whole number from 1, or absent for the next."}
	}
	if order.Webhook != "" {
		if err := s.reportable(callerOf(r.Context()), order.Webhook); err != nil {
			return upload{}, err
		}
	}
	up := upload{target: order.Target, version: order.Version, name: baseName(order.Name), webhook: order.Webhook}
	var name string
	switch c := callerOf(r.Context()); {
	case order.Upload != "" && order.Object == "" && order.File == "":
		up.folder = uploadFolder(c.tenant, order.Upload)
		up.object, name, err = s.uploaded(r.Context(), c, order.Upload)
	case order.Object != "" && order.Upload == "" && order.File == "":
		up.object, err = s.stored(r.Context(), c, order.Object)
		name = path.Base(order.Object)
	case order.File != "" && order.Upload == "" && order.Object == "":
		up.folder, up.object, err = s.local(r.Context(), c, order.File)
		name = path.Base(order.File)
	default:
		err = &job.Invalid{Sentence: "Say exactly one of upload, object and file."}
	}
	if err != nil {
		return upload{}, err
	}
	if up.name == "" {
		up.name = name
	}
	return up, up.complete()
}

// uploaded is the object of a complete upload. One whose server died as the last byte had come is completed here.
func (s *Server) uploaded(ctx context.Context, c caller, id string) (recording.Object, string, error) {
	var object recording.Object
	if !job.PlainText(id) {
		return object, "", job.ErrNotFound
	}
	up, err := s.cfg.Record.Upload(ctx, c.tenant, id)
	if err == nil {
		up, err = s.whole(ctx, up)
	}
	if err != nil {
		return object, "", err
	}
	if len(up.Object) == 0 {
		return object, "", problem(http.StatusConflict, "upload_incomplete", "The upload stands at byte %d of %d.", up.Received, up.Size)
	}
	if err := json.Unmarshal(up.Object, &object); err != nil {
		return object, "", fmt.Errorf("decode the object: %w", err)
	}
	return object, up.Name, nil
}

// stored reads an object of the caller's tenant once, to know its bytes. Another tenant's is not there.
func (s *Server) stored(ctx context.Context, c caller, key string) (recording.Object, error) {
	if key = "inbox/" + c.tenant + "/" + key; blob.CheckKey(key) != nil {
		return recording.Object{}, job.ErrNotFound
	}
	body, err := s.cfg.Objects.Open(ctx, key)
	if err != nil {
		return recording.Object{}, unreadable(err)
	}
	defer func() { _ = body.Close() }()
	sum := sha256.New()
	n, err := io.CopyBuffer(sum, io.LimitReader(body, s.cfg.MaxUpload+1), make([]byte, copyBuffer))
	if err != nil {
		return recording.Object{}, fmt.Errorf("read the object: %w", err)
	}
	if n > s.cfg.MaxUpload {
		return recording.Object{}, &http.MaxBytesError{Limit: s.cfg.MaxUpload}
	}
	return recording.Object{Key: key, SHA256: hex.EncodeToString(sum.Sum(nil)), Type: blob.TypeOf(key), Bytes: n}, nil
}

// unreadable says of an object what is not the server's fault.
func unreadable(err error) error {
	switch {
	case errors.Is(err, blob.ErrNotFound), errors.Is(err, blob.ErrKey): // a key that no object can have is nobody's
		return job.ErrNotFound
	case errors.Is(err, blob.ErrUnreadable):
		return problem(http.StatusConflict, "not_readable", "The fleet may not read this object, or it is archived: restore it, or store it again.")
	}
	return err
}

// local keeps a file of this machine. Who may read the server's disk is the operator alone.
func (s *Server) local(ctx context.Context, c caller, file string) (string, recording.Object, error) {
	if !s.cfg.Local {
		return "", recording.Object{}, &job.Invalid{Sentence: "Only a local fleet takes files of its own machine; send the bytes instead."}
	}
	if err := c.allow(job.ScopeOperate); err != nil {
		return "", recording.Object{}, err
	}
	if !path.IsAbs(file) {
		return "", recording.Object{}, &job.Invalid{Sentence: "The file must be an absolute path."}
	}
	opened, err := OpenRegular(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", recording.Object{}, &job.Invalid{Sentence: "There is no such file."}
	}
	if err != nil {
		return "", recording.Object{}, &job.Invalid{Sentence: sentence(err) + "."}
	}
	defer func() { _ = opened.Close() }()
	return s.keep(ctx, opened)
}

// OpenRegular opens what certainly is a file with bytes in it: a pipe could hang, a link could lead anywhere.
func OpenRegular(path string) (*os.File, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", path, errors.Unwrap(err))
	}
	if err := regular(path, info); err != nil {
		return nil, err
	}
	// The file may have been exchanged since: do not follow, do not wait, and look again.
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", path, errors.Unwrap(err))
	}
	info, err = file.Stat()
	if err == nil {
		err = regular(path, info)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

func regular(path string, info fs.FileInfo) error {
	var kind string
	switch mode := info.Mode(); {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		kind = "a folder"
	case mode&fs.ModeSymlink != 0:
		kind = "a symbolic link"
	case mode&fs.ModeNamedPipe != 0:
		kind = "a named pipe"
	case mode&fs.ModeSocket != 0:
		kind = "a socket"
	default:
		kind = "a device"
	}
	return fmt.Errorf("%s is %s; only a regular file is taken", path, kind)
}

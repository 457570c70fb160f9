package api

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"
	"time"

	"github.com/stagefleet/stagefleet/pkg/blob"
	"github.com/stagefleet/stagefleet/pkg/job"
)

func (s *Server) resultRoutes() []route {
	return []route{
		{method: http.MethodGet, path: "/v1/jobs/{id}/result/{file...}", scope: job.ScopeView,
			summary: "One file of a job's result, or a range of it; manifest.json lists them, and no name at all is index.html",
			params: []param{
				{in: "header", name: "Range", about: "bytes=FIRST-LAST, as in RFC 9110."},
				{in: "header", name: "If-Range", about: "An ETag: the range only if the file is still the same."},
				{in: "header", name: "If-None-Match", about: "An ETag: nothing if the file is still the same."},
			},
			gives: map[int]body{200: {media: "*/*"}, 206: {media: "*/*"}, 304: {}}, problems: []int{404, 409, 416}, handle: s.result},
	}
}

// result serves what the job's own attempt has published, and nothing else of the store.
func (s *Server) result(w http.ResponseWriter, r *http.Request) error {
	j, err := s.cfg.Record.Job(r.Context(), callerOf(r.Context()).tenant, r.PathValue("id"))
	if err != nil {
		return err
	}
	if j.Result == nil {
		return problem(http.StatusConflict, "no_result", "The job has no result; it is %s.", strings.ReplaceAll(string(j.State), "_", " "))
	}
	file := r.PathValue("file")
	if file == "" {
		file = "index.html"
	}
	key := j.Result.Dir + "/" + file
	if blob.CheckKey(key) != nil || !strings.HasPrefix(key, "jobs/"+j.ID+"/") {
		return job.ErrNotFound
	}
	content, err := s.cfg.Objects.Content(r.Context(), key)
	if err != nil {
		return unreadable(err)
	}
	defer func() { _ = content.Close() }()
	header := w.Header()
	header.Set("Content-Type", blob.TypeOf(key))
	header.Set("ETag", tag(key))
	header.Set("Cache-Control", "private, max-age=31536000, immutable")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Security-Policy", "sandbox; default-src 'none'; img-src 'self'; media-src 'self'; style-src 'unsafe-inline'")
	ranged := &rangedWriter{ResponseWriter: w}
	http.ServeContent(ranged, r, "", time.Time{}, content)
	if ranged.unsatisfiable {
		header.Del("ETag")
		header.Del("Cache-Control")
		return problem(http.StatusRequestedRangeNotSatisfiable, "range", "The file has no such range.")
	}
	return nil
}

// tag identifies an object for ever: an attempt writes each of its keys once.
func tag(key string) string {
	sum := sha256.Sum256([]byte(key))
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
}

// rangedWriter holds back the plain text with which the standard library refuses a range, for a problem document.
type rangedWriter struct {
	http.ResponseWriter
	unsatisfiable bool
}

func (w *rangedWriter) WriteHeader(status int) {
	if w.unsatisfiable = status == http.StatusRequestedRangeNotSatisfiable; !w.unsatisfiable {
		w.ResponseWriter.WriteHeader(status)
	}
}

func (w *rangedWriter) Write(p []byte) (int, error) {
	if w.unsatisfiable {
		return len(p), nil
	}
	return w.ResponseWriter.Write(p)
}

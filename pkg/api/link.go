package api

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// bound gives every read of a request and every write of its answer a time of its own, so that a long transfer may go on and a dead
// one may not.
func bound(w http.ResponseWriter, r *http.Request) http.ResponseWriter {
	link := http.NewResponseController(w)
	if r.Body != nil && r.Body != http.NoBody {
		in := &unstalled{r.Body, link}
		in.more() // the server reads what a handler has left
		r.Body = in
	}
	out := &unstalledWriter{w, link}
	out.more()
	return out
}

// unstalled is a body. Deadlines are unsupported only without a connection, where nothing stalls.
type unstalled struct {
	io.ReadCloser
	link *http.ResponseController
}

func (u *unstalled) more() { _ = u.link.SetReadDeadline(time.Now().Add(stallTimeout)) }

func (u *unstalled) Read(p []byte) (int, error) {
	u.more()
	n, err := u.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) { // from here on the server listens for the caller to hang up: a deadline would look like that
		_ = u.link.SetReadDeadline(time.Time{})
	}
	return n, err
}

// small reads a body that nobody needs long to send: one that keeps dripping would hold its connection, and what has come of it, for
// as long as its sender likes.
func small(w http.ResponseWriter, r *http.Request, most int64) ([]byte, error) {
	return io.ReadAll(http.MaxBytesReader(w, io.NopCloser(&brief{r.Body, time.Now().Add(stallTimeout)}), most))
}

type brief struct {
	io.Reader
	until time.Time
}

var errSlow = errors.New("the body takes too long")

func (b *brief) Read(p []byte) (int, error) {
	if time.Now().After(b.until) {
		return 0, errSlow
	}
	return b.Reader.Read(p)
}

// unstalledWriter is an answer.
type unstalledWriter struct {
	http.ResponseWriter
	link *http.ResponseController
}

// more allows longer than a read has: before an answer the server waits for what a handler has left of the body.
func (u *unstalledWriter) more() {
	_ = u.link.SetWriteDeadline(time.Now().Add(stallTimeout + headerTimeout))
}

func (u *unstalledWriter) Unwrap() http.ResponseWriter { return u.ResponseWriter }

func (u *unstalledWriter) WriteHeader(status int) {
	u.more()
	u.ResponseWriter.WriteHeader(status)
}

func (u *unstalledWriter) Write(p []byte) (int, error) {
	u.more()
	return u.ResponseWriter.Write(p)
}

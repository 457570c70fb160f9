// Package awshttp holds the HTTP transport that every AWS client of the project uses. The SDK closes a request's body as
// the round trip returns; on a kept-alive connection that can break the reply of a fast server while it is being read,
// after the server has handed messages out. Here each request owns a copy of its body, so nobody else can close it.
package awshttp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// Bounds of the transport. Idle connections are plentiful because a worker holds one per poll, beat and send at a time.
const (
	idlePerHost   = 256
	idleTimeout   = 90 * time.Second
	dialTimeout   = 10 * time.Second
	tlsTimeout    = 10 * time.Second
	dialKeepAlive = 30 * time.Second
)

// One system call takes in the reply of a receive, which is ten times a message, and one sends ten receipts; the defaults of net/http
// are 4 KiB.
const (
	readBuffer  = 32 << 10
	writeBuffer = 16 << 10
)

// Transport returns a new transport with its own connection pool. It sets no limit on how long a reply may take: long
// polls are bounded by their contexts.
func Transport() http.RoundTripper {
	t := &http.Transport{Proxy: http.ProxyFromEnvironment}
	tune(t)
	return ownBody{t}
}

func tune(t *http.Transport) {
	t.DialContext = (&net.Dialer{Timeout: dialTimeout, KeepAlive: dialKeepAlive}).DialContext
	t.ForceAttemptHTTP2 = true
	t.MaxIdleConns = 0 // unbounded; the bound is per host
	t.MaxIdleConnsPerHost = idlePerHost
	t.IdleConnTimeout = idleTimeout
	t.TLSHandshakeTimeout = tlsTimeout
	t.ReadBufferSize, t.WriteBufferSize = readBuffer, writeBuffer
}

// maxKnown is the most that is set aside on a promise; the largest request of SQS is 1 MiB and its frame.
const maxKnown = 2 << 20

// ownBody gives each request its own copy of the body.
type ownBody struct{ next *http.Transport }

func (t ownBody) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return t.next.RoundTrip(r)
	}
	body, err := read(r)
	if err = errors.Join(err, r.Body.Close()); err != nil {
		return nil, fmt.Errorf("copy request body: %w", err)
	}
	own := r.WithContext(r.Context()) // the header is shared: a transport changes none
	own.Body = io.NopCloser(bytes.NewReader(body))
	own.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	own.ContentLength = int64(len(body))
	return t.next.RoundTrip(own)
}

// read reads the whole body, into memory of its size where that is known.
func read(r *http.Request) ([]byte, error) {
	if r.ContentLength <= 0 || r.ContentLength > maxKnown {
		return io.ReadAll(r.Body)
	}
	buf := bytes.NewBuffer(make([]byte, 0, r.ContentLength+bytes.MinRead)) // with the room in which ReadFrom looks for the end
	_, err := buf.ReadFrom(r.Body)
	return buf.Bytes(), err
}

// CloseIdleConnections lets http.Client.CloseIdleConnections reach the pool.
func (t ownBody) CloseIdleConnections() { t.next.CloseIdleConnections() }

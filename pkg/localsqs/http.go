package localsqs

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// maxRequestBytes bounds one request: a full batch whose every character is escaped, and its attributes.
const maxRequestBytes = 8 << 20

const (
	contentType  = "application/x-amz-json-1.0"
	targetPrefix = "AmazonSQS."
)

// buffers hold request bodies and replies while they are in work; nothing that is kept refers to them.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// keptBuffer is the largest buffer that is kept for the next request.
const keptBuffer = 256 << 10

func borrow() *bytes.Buffer { return buffers.Get().(*bytes.Buffer) }

func giveBack(buf *bytes.Buffer) {
	if buf.Cap() <= keptBuffer {
		buf.Reset()
		buffers.Put(buf)
	}
}

// call is one request on its way through the server.
type call struct {
	ctx    context.Context
	base   string // scheme and host as the client sees them
	action string
	strike strike
	undo   func() // takes the effect back when the reply does not reach the client; nil if it stays
}

// ServeHTTP answers one SQS request. It returns as soon as the request's context ends.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Amzn-Requestid", newUUID().String())
	if isQueryProtocol(r) {
		writeQueryError(w)
		return
	}
	buf := borrow()
	defer giveBack(buf)
	if _, err := buf.ReadFrom(http.MaxBytesReader(w, r.Body, maxRequestBytes)); err != nil {
		writeError(w, badRequest("RequestEntityTooLarge", "RequestEntityTooLarge", "The request is larger than %d bytes or broke off.", maxRequestBytes))
		return
	}
	body := buf.Bytes()
	c := &call{ctx: r.Context(), base: baseURL(r), action: strings.TrimPrefix(r.Header.Get("X-Amz-Target"), targetPrefix)}
	if err := s.authorize(r, body); err != nil {
		s.countRequest(c.action, err)
		writeError(w, err)
		return
	}
	s.answer(w, c, body)
}

// answer runs the call and replies. A client that has gone by then gets no reply, and what it would have received goes
// back to its queue.
func (s *Server) answer(w http.ResponseWriter, c *call, body []byte) {
	result, err := s.run(c, body)
	s.countRequest(c.action, err)
	switch {
	case c.ctx.Err() != nil:
	case err != nil:
		writeError(w, err)
		return
	case writeOutput(w, result) == nil:
		return
	}
	if c.undo != nil {
		c.undo()
	}
}

func writeOutput(w http.ResponseWriter, result any) error {
	buf := borrow()
	defer giveBack(buf)
	out, err := encodeOutput(buf.AvailableBuffer(), result)
	if err != nil {
		return err
	}
	buf.Write(out) // in place, unless the reply outgrew the buffer
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(buf.Len())) // else a large reply is sent in chunks, with more system calls
	_, err = w.Write(buf.Bytes())
	return err
}

func (s *Server) run(c *call, body []byte) (any, error) {
	op, ok := operations()[c.action]
	if !ok {
		return nil, badRequest("UnknownOperationException", "InvalidAction", "The action %q is not valid for this endpoint.", clip(c.action))
	}
	c.strike = s.faults.on(c.action, body)
	if err := c.strike.before(c.ctx, s.closing); err != nil {
		if c.strike.effects[Throttle] {
			s.throttled(body)
		}
		return nil, err
	}
	out, err := op(s, c, body)
	if err != nil {
		return nil, err
	}
	if err := s.persist(); err != nil {
		return nil, err
	}
	c.strike.after()
	return out, nil
}

// operation decodes an input, runs one action and returns what is to be encoded.
type operation func(s *Server, c *call, body []byte) (any, error)

func action[In any](run func(*Server, *call, *In) (any, error)) operation {
	return func(s *Server, c *call, body []byte) (any, error) {
		in := new(In)
		if err := decodeInput(body, in); err != nil {
			return nil, badRequest("SerializationException", "MalformedInput", "The request body is not valid JSON for this action.")
		}
		if p, ok := any(in).(interface{ prepare() }); ok {
			p.prepare()
		}
		return run(s, c, in)
	}
}

// locked makes an operation of a function that does not block and needs the lock and the time.
func locked[In any](run func(*Server, *call, *In, int64) (any, error)) operation {
	return action(func(s *Server, c *call, in *In) (any, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.closed {
			return nil, errClosed()
		}
		return run(s, c, in, s.now())
	})
}

// onQueue is locked for the operations on one queue: the queue is found and brought up to now before, and those who wait
// on it are served after.
func onQueue[In any, P interface {
	*In
	queueURL() string
}](run func(*Server, *call, *queue, P, int64) (any, error)) operation {
	return locked(func(s *Server, c *call, in *In, now int64) (any, error) {
		q, err := s.byURL(P(in).queueURL())
		if err != nil {
			return nil, err
		}
		q.advance(now)
		defer s.serve(now, q)
		return run(s, c, q, in, now)
	})
}

// target is embedded by every input that names a queue.
type target struct{ QueueUrl string }

func (t *target) queueURL() string { return t.QueueUrl }

type empty struct{}

func baseURL(r *http.Request) string {
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

func (s *Server) queueURL(c *call, q *queue) string {
	return c.base + "/" + s.opts.Account + "/" + q.name
}

func writeError(w http.ResponseWriter, err error) {
	e := asAPIError(err)
	body, _ := json.Marshal(map[string]string{"__type": "com.amazonaws.sqs#" + e.code, "message": e.message})
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("X-Amzn-Query-Error", e.legacy+";"+e.fault())
	w.WriteHeader(e.status)
	_, _ = w.Write(body)
}

func isQueryProtocol(r *http.Request) bool {
	return r.Header.Get("X-Amz-Target") == "" &&
		(strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") || r.URL.Query().Has("Action"))
}

// writeQueryError tells a client of the older Query/XML protocol, in its own format, what to do.
func writeQueryError(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/xml")
	w.WriteHeader(http.StatusBadRequest)
	_, _ = io.WriteString(w, `<?xml version="1.0"?><ErrorResponse xmlns="http://queue.amazonaws.com/doc/2012-11-05/"><Error><Type>Sender</Type>`+
		`<Code>UnsupportedProtocol</Code><Message>This server speaks the AWS JSON 1.0 protocol only: use an SDK or AWS CLI released since November 2023.</Message></Error>`+
		`<RequestId>`+w.Header().Get("X-Amzn-Requestid")+`</RequestId></ErrorResponse>`)
}

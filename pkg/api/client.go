package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/stagefleet/stagefleet/pkg/admin"
	"github.com/stagefleet/stagefleet/pkg/job"
)

// Timing of the client.
const (
	reconnectWait = time.Second
	// Patience is how long Watch keeps trying to reach a fleet that went away, as over a restart.
	Patience   = 90 * time.Second
	maxAnswer  = 64 << 20
	silentTime = 3 * sayAlive // an event stream that says nothing for so long is dead
)

// ErrUnreachable is matched by the error of a call that got no answer.
var ErrUnreachable = errors.New("the fleet does not answer")

// Client speaks to a fleet. It is safe for concurrent use.
type Client struct {
	base  string
	actor string // named in the audit
	link  func(up bool)
	key   string // sent with every request; empty: none
	http  *http.Client
}

// NewClient returns a client of the fleet at an address: host:port, or a URL.
func NewClient(address string) *Client {
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	return &Client{base: strings.TrimSuffix(address, "/"), http: &http.Client{Transport: &http.Transport{}}}
}

// OnLink has Watch tell when it lost the fleet (false) and when it hears it again (true). Set it before the first call.
func (c *Client) OnLink(tell func(up bool)) { c.link = tell }

// WithKey makes the client send an API key, and returns it.
func (c *Client) WithKey(secret string) *Client {
	c.key = secret
	return c
}

// Close lets go of idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Request asks for a job.
type Request struct {
	Name           string // of the file, for people
	Target         string // empty: Name
	Version        int64  // 0: the next
	Webhook        string // address that the job's end is reported to; empty: nobody asks
	IdempotencyKey string // optional: the same request with the same key makes one job
}

// Submit streams a recording to the fleet. The job is Known when the same submission has made it before. The error is a
// *Problem when the fleet refused it.
func (c *Client) Submit(ctx context.Context, request Request, recording io.Reader) (job.Job, error) {
	body, contentType, err := form(request, recording)
	if err != nil {
		return job.Job{}, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/v1/jobs", body)
	if err != nil {
		return job.Job{}, fmt.Errorf("make the request: %w", err)
	}
	r.Header.Set("Content-Type", contentType)
	if request.IdempotencyKey != "" {
		r.Header.Set("Idempotency-Key", request.IdempotencyKey)
	}
	j, status, err := decoded[job.Job](c, r)
	j.Known = status == http.StatusOK
	return j, err
}

// form puts the fields before the file and does not hold the file in memory.
func form(request Request, recording io.Reader) (io.Reader, string, error) {
	var head bytes.Buffer
	w := multipart.NewWriter(&head)
	fields := map[string]string{"target": request.Target, "version": "", "webhook": request.Webhook}
	if request.Version != 0 {
		fields["version"] = strconv.FormatInt(request.Version, 10)
	}
	for name, value := range fields {
		if err := w.WriteField(name, value); err != nil {
			return nil, "", fmt.Errorf("make the form: %w", err)
		}
	}
	if _, err := w.CreateFormFile("file", request.Name); err != nil {
		return nil, "", fmt.Errorf("make the form: %w", err)
	}
	tail := "\r\n--" + w.Boundary() + "--\r\n"
	return io.MultiReader(&head, recording, strings.NewReader(tail)), w.FormDataContentType(), nil
}

// Job returns one job.
func (c *Client) Job(ctx context.Context, id string) (job.Job, error) {
	return get[job.Job](ctx, c, "/v1/jobs/"+url.PathEscape(id))
}

// Jobs returns one page of jobs, newest first. The filter's tenant is the caller's, whatever it says.
func (c *Client) Jobs(ctx context.Context, f job.Filter) (Page, error) {
	query := url.Values{}
	for name, value := range map[string]string{"target": f.Target, "state": string(f.State), "cursor": f.Cursor} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if f.Limit != 0 {
		query.Set("limit", strconv.Itoa(f.Limit))
	}
	return get[Page](ctx, c, "/v1/jobs?"+query.Encode())
}

// Stages returns the state of every stage, in the order of the work.
func (c *Client) Stages(ctx context.Context) ([]admin.Stage, error) {
	return get[[]admin.Stage](ctx, c, "/v1/stages")
}

// Watch calls see with the job now and after each change until it has ended, and returns its last state. A connection that
// breaks is made again for up to Patience.
func (c *Client) Watch(ctx context.Context, id string, see func(job.Job)) (job.Job, error) {
	var last job.Job
	deadline := time.Now().Add(Patience)
	up := true
	link := func(now bool) {
		if now != up && c.link != nil {
			c.link(now)
		}
		up = now
	}
	for {
		err := c.stream(ctx, id, last.Seq, func() { link(true) }, func(j job.Job) {
			last = j
			deadline = time.Now().Add(Patience)
			see(j)
		})
		wait, again := passing(err)
		switch {
		case last.State.Ended():
			return last, nil
		case ctx.Err() != nil:
			return last, context.Cause(ctx)
		case !again, time.Now().After(deadline):
			return last, err
		}
		if wait == 0 {
			link(false)
		}
		rest(ctx, max(wait, reconnectWait))
	}
}

// passing reports whether a call that failed may succeed later, and how long a fleet that refused it wants it to wait.
func passing(err error) (wait time.Duration, again bool) {
	refused, ok := errors.AsType[*Problem](err)
	if !ok {
		return 0, true
	}
	return refused.RetryAfter, refused.Status >= http.StatusInternalServerError || refused.Status == http.StatusTooManyRequests
}

func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// stream reads one connection's events to its end; heard is called when the fleet has answered.
func (c *Client) stream(ctx context.Context, id string, seen int64, heard func(), see func(job.Job)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/v1/jobs/"+url.PathEscape(id)+"/events", nil)
	if err != nil {
		return fmt.Errorf("make the request: %w", err)
	}
	if seen != 0 {
		r.Header.Set("Last-Event-ID", strconv.FormatInt(seen, 10))
	}
	response, err := c.do(r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	heard()
	silence := time.AfterFunc(silentTime, cancel)
	defer silence.Stop()
	lines := bufio.NewReader(response.Body)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return fmt.Errorf("%w: the stream broke off: %w", ErrUnreachable, err)
		}
		silence.Reset(silentTime)
		if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
			var j job.Job
			if err := json.Unmarshal(data, &j); err != nil {
				return fmt.Errorf("read an event: %w", err)
			}
			see(j)
		}
	}
}

func get[T any](ctx context.Context, c *Client, path string) (T, error) {
	var none T
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil) //nolint:gosec // the address is the caller's own choice
	if err != nil {
		return none, fmt.Errorf("make the request: %w", err)
	}
	return answer[T](c, r)
}

func answer[T any](c *Client, r *http.Request) (T, error) {
	value, _, err := decoded[T](c, r)
	return value, err
}

// decoded returns what a call that succeeded was answered, and its status.
func decoded[T any](c *Client, r *http.Request) (T, int, error) {
	var value T
	response, err := c.do(r)
	if err != nil {
		return value, 0, err
	}
	defer func() { _ = response.Body.Close() }()
	if err := json.NewDecoder(io.LimitReader(response.Body, maxAnswer)).Decode(&value); err != nil {
		return value, 0, fmt.Errorf("read the answer: %w", err)
	}
	return value, response.StatusCode, nil
}

// do returns the response of a call that succeeded; its body is the caller's to close.
func (c *Client) do(r *http.Request) (*http.Response, error) {
	if c.key != "" {
		r.Header.Set("Authorization", "Bearer "+c.key)
	}
	response, err := c.http.Do(r) //nolint:gosec // the address is the caller's own choice
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	if response.StatusCode < 300 {
		return response, nil
	}
	defer func() { _ = response.Body.Close() }()
	p := &Problem{}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxAnswer)).Decode(p); err != nil || p.Detail == "" {
		return nil, fmt.Errorf("%w: %s is not a fleet's answer", ErrUnreachable, response.Status)
	}
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil {
		p.RetryAfter = time.Duration(seconds) * time.Second
	}
	return nil, p
}

package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/stagefleet/stagefleet/pkg/job"
)

// SheetRequest asks for an import.
type SheetRequest struct {
	Name   string // of the file, for people
	Folder string // absolute; see job.ImportSheet

	Webhook        string // address that the ends of the jobs are reported to; empty: nobody asks
	IdempotencyKey string // optional: the same request with the same key makes one import
}

// CreateImport streams a sheet to the fleet. The error is a *Problem when the fleet refused it.
func (c *Client) CreateImport(ctx context.Context, request SheetRequest, sheet io.Reader) (job.Import, error) {
	var head bytes.Buffer
	w := multipart.NewWriter(&head)
	err := errors.Join(w.WriteField("folder", request.Folder), w.WriteField("webhook", request.Webhook))
	if err == nil {
		_, err = w.CreateFormFile("file", request.Name)
	}
	if err != nil {
		return job.Import{}, fmt.Errorf("make the form: %w", err)
	}
	body := io.MultiReader(&head, sheet, strings.NewReader("\r\n--"+w.Boundary()+"--\r\n"))
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/v1/imports", body)
	if err != nil {
		return job.Import{}, fmt.Errorf("make the request: %w", err)
	}
	r.Header.Set("Content-Type", w.FormDataContentType())
	if request.IdempotencyKey != "" {
		r.Header.Set("Idempotency-Key", request.IdempotencyKey)
	}
	i, status, err := decoded[job.Import](c, r)
	i.Known = status == http.StatusOK
	return i, err
}

// Import returns one import.
func (c *Client) Import(ctx context.Context, id string) (job.Import, error) {
	return get[job.Import](ctx, c, "/v1/imports/"+url.PathEscape(id))
}

// Imports returns the newest imports, at most limit.
func (c *Client) Imports(ctx context.Context, limit int) (ImportPage, error) {
	return get[ImportPage](ctx, c, "/v1/imports?limit="+strconv.Itoa(limit))
}

// ImportRows returns one page of an import's rows, in the order of the sheet.
func (c *Client) ImportRows(ctx context.Context, id string, refused bool, cursor string, limit int) (ImportRowPage, error) {
	query := url.Values{"refused": {strconv.FormatBool(refused)}, "limit": {strconv.Itoa(limit)}}
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	return get[ImportRowPage](ctx, c, "/v1/imports/"+url.PathEscape(id)+"/rows?"+query.Encode())
}

// RefusedSheet copies the sheet of an import's refused rows.
func (c *Client) RefusedSheet(ctx context.Context, id string, to io.Writer) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/v1/imports/"+url.PathEscape(id)+"/refused", nil)
	if err != nil {
		return fmt.Errorf("make the request: %w", err)
	}
	response, err := c.do(r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if _, err := io.Copy(to, response.Body); err != nil {
		return fmt.Errorf("receive the sheet: %w", err)
	}
	return nil
}

// CancelImport ends an import; rows that have a job keep it.
func (c *Client) CancelImport(ctx context.Context, id string) (job.Import, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/v1/imports/"+url.PathEscape(id)+"/cancel", nil)
	if err != nil {
		return job.Import{}, fmt.Errorf("make the request: %w", err)
	}
	return answer[job.Import](c, r)
}

// importEvery is how often WatchImport asks.
const importEvery = 500 * time.Millisecond

// WatchImport calls see with the import now and after each change until it has ended, and returns its last state. A fleet that went
// away is asked again for up to Patience.
func (c *Client) WatchImport(ctx context.Context, id string, see func(job.Import)) (job.Import, error) {
	var last job.Import
	deadline := time.Now().Add(Patience)
	for {
		now, err := c.Import(ctx, id)
		wait, again := passing(err)
		switch {
		case ctx.Err() != nil:
			return last, context.Cause(ctx)
		case err != nil && again && time.Now().Before(deadline):
		case err != nil:
			return last, err
		default:
			deadline = time.Now().Add(Patience)
			if changed(last, now) {
				see(now)
			}
			if last = now; now.State.Ended() {
				return now, nil
			}
		}
		rest(ctx, max(wait, importEvery))
	}
}

func changed(a, b job.Import) bool {
	return a.State != b.State || a.Rows != b.Rows || a.Accepted != b.Accepted || a.Refused != b.Refused || (a.Reason == nil) != (b.Reason == nil)
}

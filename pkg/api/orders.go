package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/stagefleet/stagefleet/pkg/admin"
	"github.com/stagefleet/stagefleet/pkg/job"
)

// As returns a client whose orders name a person in the audit. It shares the connections of c.
func (c *Client) As(actor string) *Client {
	named := *c
	named.actor = actor
	return &named
}

// Cancel ends a job and returns it. A job that was cancelled before is returned as it is; the error is a *Problem with
// http.StatusConflict when it had ended otherwise.
func (c *Client) Cancel(ctx context.Context, id, reason string) (job.Job, error) {
	return send[job.Job](ctx, c, http.MethodPost, "/v1/jobs/"+url.PathEscape(id)+"/cancel", Order{Reason: reason})
}

// Dead returns one page of dead steps and, on the first page, the messages that the record does not know.
func (c *Client) Dead(ctx context.Context, f job.DeadFilter) (admin.DeadPage, error) {
	query := url.Values{}
	for name, value := range map[string]string{"stage": f.Stage, "cursor": f.After} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if f.Limit != 0 {
		query.Set("limit", strconv.Itoa(f.Limit))
	}
	return get[admin.DeadPage](ctx, c, "/v1/dead?"+query.Encode())
}

// Inspect returns all that is known of a dead step or an unknown message.
func (c *Client) Inspect(ctx context.Context, id string) (admin.Inspection, error) {
	return get[admin.Inspection](ctx, c, "/v1/dead/"+url.PathEscape(id))
}

// Redrive sets the dead steps of a job going again; id is the job's or a step's.
func (c *Client) Redrive(ctx context.Context, id string) (job.Job, error) {
	return send[job.Job](ctx, c, http.MethodPost, "/v1/dead/"+url.PathEscape(id)+"/redrive", Order{})
}

// Discard gives up the dead steps of a job, or deletes an unknown message; then the job has no ID.
func (c *Client) Discard(ctx context.Context, id, reason string) (job.Job, error) {
	return send[job.Job](ctx, c, http.MethodPost, "/v1/dead/"+url.PathEscape(id)+"/discard", Order{Reason: reason})
}

// Pauses lists the pauses in force.
func (c *Client) Pauses(ctx context.Context) ([]admin.Pause, error) {
	return get[[]admin.Pause](ctx, c, "/v1/pauses")
}

// Pause stops a stage, or all, from taking new work.
func (c *Client) Pause(ctx context.Context, order PauseOrder) (admin.Pause, error) {
	return send[admin.Pause](ctx, c, http.MethodPost, "/v1/pauses", order)
}

// Resume lifts a pause.
func (c *Client) Resume(ctx context.Context, stage string) (Resumed, error) {
	return send[Resumed](ctx, c, http.MethodDelete, "/v1/pauses/"+url.PathEscape(stage), nil)
}

// Collect removes garbage that is older than an age, zero for what is certainly garbage; a dry run only counts it.
func (c *Client) Collect(ctx context.Context, older time.Duration, dry bool) (admin.Collected, error) {
	return send[admin.Collected](ctx, c, http.MethodPost, "/v1/garbage", CollectOrder{DryRun: dry, OlderThanSeconds: int64(older / time.Second)})
}

// send gives an order as JSON; nil is no body.
func send[T any](ctx context.Context, c *Client, method, path string, order any) (T, error) {
	var none T
	var body bytes.Buffer
	if order != nil {
		if err := json.NewEncoder(&body).Encode(order); err != nil {
			return none, fmt.Errorf("encode the order: %w", err)
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, &body)
	if err != nil {
		return none, fmt.Errorf("make the request: %w", err)
	}
	if order != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.actor != "" {
		r.Header.Set(ActorHeader, c.actor)
	}
	return answer[T](c, r)
}

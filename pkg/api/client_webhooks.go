package api

import (
	"context"
	"net/http"
	"net/url"

	"github.com/stagefleet/stagefleet/pkg/job"
)

// Webhooks lists the reports of a job's ends, oldest first.
func (c *Client) Webhooks(ctx context.Context, id string) ([]job.Hook, error) {
	return get[[]job.Hook](ctx, c, "/v1/jobs/"+url.PathEscape(id)+"/webhooks")
}

// WebhookSecret returns the text of the secret that signs the tenant's webhooks, made when it is first asked for.
func (c *Client) WebhookSecret(ctx context.Context) (string, error) {
	got, err := get[hookSecret](ctx, c, "/v1/webhook-secret")
	return got.Secret, err
}

// RotateWebhookSecret replaces the secret and returns the new one; for a day both sign.
func (c *Client) RotateWebhookSecret(ctx context.Context) (string, error) {
	got, err := send[hookSecret](ctx, c, http.MethodPost, "/v1/webhook-secret", nil)
	return got.Secret, err
}

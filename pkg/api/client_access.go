package api

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/stagefleet/stagefleet/pkg/job"
)

// CreateKey makes a key; its secret is told this once.
func (c *Client) CreateKey(ctx context.Context, r job.KeyRequest) (job.NewKey, error) {
	return send[job.NewKey](ctx, c, http.MethodPost, "/v1/keys", KeyOrder{
		Tenant: r.Tenant, Name: r.Name, Scopes: r.Scopes, PerMinute: r.PerMinute, LifetimeSeconds: wholeSeconds(r.Lifetime),
	})
}

// RotateKey makes a key in the place of another, which lives on for the overlap.
func (c *Client) RotateKey(ctx context.Context, id string, overlap time.Duration) (job.NewKey, error) {
	return send[job.NewKey](ctx, c, http.MethodPost, "/v1/keys/"+url.PathEscape(id)+"/rotate", Rotation{wholeSeconds(overlap)})
}

// wholeSeconds rounds away from zero, which has a meaning of its own.
func wholeSeconds(d time.Duration) int64 {
	n, rest := int64(d/time.Second), d%time.Second
	switch {
	case rest > 0:
		n++
	case rest < 0:
		n--
	}
	return n
}

// RevokeKey ends a key at once.
func (c *Client) RevokeKey(ctx context.Context, id string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodDelete, c.base+"/v1/keys/"+url.PathEscape(id), nil)
	if err != nil {
		return fmt.Errorf("make the request: %w", err)
	}
	response, err := c.do(r)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// Keys lists a tenant's keys, or with an empty tenant all.
func (c *Client) Keys(ctx context.Context, tenant string) ([]job.Key, error) {
	list, err := get[KeyList](ctx, c, "/v1/keys?"+url.Values{"tenant": {tenant}}.Encode())
	return list.Keys, err
}

// CreateAccount opens a tenant's account.
func (c *Client) CreateAccount(ctx context.Context, tenant string, l job.Limits) error {
	_, err := send[job.Account](ctx, c, http.MethodPost, "/v1/accounts", AccountOrder{tenant, l})
	return err
}

// ChangeLimits says what a tenant may do from now on.
func (c *Client) ChangeLimits(ctx context.Context, tenant string, l job.Limits) error {
	_, err := send[job.Account](ctx, c, http.MethodPatch, "/v1/accounts/"+url.PathEscape(tenant), l)
	return err
}

// Grant adds to a tenant's balance. The same id grants once.
func (c *Client) Grant(ctx context.Context, tenant, id string, amount int64) error {
	_, err := send[job.Account](ctx, c, http.MethodPost, "/v1/accounts/"+url.PathEscape(tenant)+"/grants", GrantOrder{id, amount})
	return err
}

// Account returns a tenant's account.
func (c *Client) Account(ctx context.Context, tenant string) (job.Account, error) {
	return get[job.Account](ctx, c, "/v1/accounts/"+url.PathEscape(tenant))
}

// Accounts lists all accounts.
func (c *Client) Accounts(ctx context.Context) ([]job.Account, error) {
	list, err := get[AccountList](ctx, c, "/v1/accounts")
	return list.Accounts, err
}

// Entries lists the newest entries of a tenant's account.
func (c *Client) Entries(ctx context.Context, tenant string, limit int) ([]job.Entry, error) {
	page, err := get[EntryPage](ctx, c, "/v1/accounts/"+url.PathEscape(tenant)+"/entries?limit="+strconv.Itoa(limit))
	return page.Entries, err
}

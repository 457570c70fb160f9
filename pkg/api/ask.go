package api

import "context"

// Health returns nil if the server and its record work.
func (c *Client) Health(ctx context.Context) error {
	_, err := get[health](ctx, c, "/healthz")
	return err
}

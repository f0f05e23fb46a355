package gateway

import "context"

// Call calls a method of the gateway.
func (c *Client) Call(ctx context.Context, method string, params, out any) error {
	return c.call(ctx, method, params, out)
}

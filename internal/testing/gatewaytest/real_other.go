//go:build !unix

package gatewaytest

import "testing"

// Real skips the test: the real gateway is started on unix alone.
func Real(t testing.TB) Gateway {
	t.Helper()
	t.Skip("the real gateway is started on unix alone")
	return Gateway{}
}

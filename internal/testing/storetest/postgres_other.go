//go:build !unix

package storetest

import (
	"errors"
	"testing"
)

var errNoServer = errors.New("no PostgreSQL is started on this system")

func newAddress(testing.TB) string { return "" }

func openPostgres(string) (Store, error) { return nil, errNoServer }

func loadPostgres(string, int, func() (string, []byte, error)) error { return errNoServer }

func execPostgres(t testing.TB, _, _ string) { t.Fatal(errNoServer) }

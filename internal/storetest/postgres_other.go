//go:build !unix

package storetest

import (
	"errors"
	"testing"
)

func inPostgres(testing.TB) func() (Store, error) {
	return func() (Store, error) { return nil, errors.New("no PostgreSQL is started on this system") }
}

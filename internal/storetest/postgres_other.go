//go:build !unix

package storetest

import (
	"errors"
	"testing"

	"github.com/parley-agents/parley/hub"
)

func openPostgres(testing.TB) (hub.Store, error) {
	return nil, errors.New("no PostgreSQL is started on this system")
}

//go:build unix

package storetest

import (
	"context"
	"testing"

	"github.com/parley-agents/parley/internal/engine/postgres"
	"github.com/parley-agents/parley/internal/pgtest"
)

// inPostgres returns a function that opens the store in a schema of its own.
func inPostgres(t testing.TB) func() (Store, error) {
	address := pgtest.Address(t)
	return func() (Store, error) { return postgres.Open(context.Background(), address, nil) }
}

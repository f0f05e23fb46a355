//go:build unix

package storetest

import (
	"context"
	"testing"

	"github.com/parley-agents/parley/internal/engine/postgres"
	"github.com/parley-agents/parley/internal/testing/pgtest"
)

func newAddress(t testing.TB) string { return pgtest.Address(t) }

func openPostgres(address string) (Store, error) {
	return postgres.Open(context.Background(), address, nil)
}

func loadPostgres(address string, schema int, next func() (string, []byte, error)) error {
	return postgres.Load(context.Background(), address, nil, schema, next)
}

// execPostgres runs statements without triggers and foreign keys.
func execPostgres(t testing.TB, address, sql string) {
	t.Helper()
	pgtest.Exec(t, address, "SET session_replication_role = replica; "+sql)
}

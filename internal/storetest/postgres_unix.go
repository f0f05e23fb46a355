//go:build unix

package storetest

import (
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/postgres"
	"github.com/parley-agents/parley/internal/pgtest"
)

func openPostgres(t testing.TB) (hub.Store, error) {
	return postgres.Open(t.Context(), pgtest.Address(t), nil)
}

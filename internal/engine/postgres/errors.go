package postgres

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/parley-agents/parley/hub"
)

// engineError turns an error of the driver into one of the hub's. The driver's own
// error goes no further; only its text does, without values and without the secret.
func engineError(err error) error {
	if err == nil {
		return nil
	}
	if known, ok := errors.AsType[*hub.Error](err); ok {
		return known
	}

	if cannot, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return away(cannot.Unwrap()) // its own text has the address with user and database
	}
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return away(err)
	}

	// The codes are those of the SQLSTATE table of PostgreSQL.
	switch {
	case pg.Code == "23505":
		return hub.Errorf(hub.CodeConflict, "", "it already exists")
	case pg.Code == "23503":
		return hub.Errorf(hub.CodeNotFound, "", "the row that this one refers to does not exist")
	case pg.Code == "P0001": // the words of a trigger of the schema
		return hub.Errorf(hub.CodeInvalid, "", "%s", pg.Message)
	case pg.Code == "23514", pg.Code == "23502":
		return hub.Errorf(hub.CodeInvalid, "", "a value is not one that the store allows")
	case pg.Code == "22021", pg.Code == "22P05":
		return hub.Errorf(hub.CodeInvalid, "", "the database cannot store a character in the text: %s", pg.Message)

	case pg.Code == "53100":
		return hub.Errorf(hub.CodeDegraded, "", "the disk of the database is full: %s", pg.Message).
			WithHint("free space on the database's disk; the hub then continues by itself")
	case pg.Code == "28P01", pg.Code == "28000", pg.Code == "3D000", pg.Code == "42501":
		return hub.Errorf(hub.CodeDegraded, "", "the database refuses this hub: %s", pg.Message).
			WithHint("check the user, the password and the database in --store")
	case pg.Code == "25006":
		return hub.Errorf(hub.CodeDegraded, "", "cannot write to the database: %s", pg.Message).
			WithHint("set the primary server in --store, or add target_session_attrs=read-write")

	case strings.HasPrefix(pg.Code, "08"), strings.HasPrefix(pg.Code, "53"), strings.HasPrefix(pg.Code, "57"), strings.HasPrefix(pg.Code, "58"), pg.Code == "25P03":
		return away(errors.New(pg.Message))
	}
	return hub.Errorf(hub.CodeInternal, "", "%s (%s)", pg.Message, pg.Code)
}

// away returns the error while the database does not answer.
func away(err error) *hub.Error {
	return hub.Errorf(hub.CodeDegraded, "", "cannot reach the database: %v", err).
		WithHint("start the database or check the network; the hub then continues by itself").WithRetry(retryAfter)
}

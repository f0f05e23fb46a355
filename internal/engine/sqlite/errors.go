package sqlite

import (
	"errors"
	"os"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/rows"
)

// restoreHint tells the operator how to go on after damage.
const restoreHint = "restore a backup, or move hub.db and its companion files away; nothing was changed"

// engineError turns an error of the driver into one of the hub's. The driver's own error goes no
// further; of a broken constraint its text does not either.
func engineError(op string, err error) error {
	if err == nil {
		return nil
	}

	var known *hub.Error
	if errors.As(err, &known) {
		if known.Op == "" {
			known.Op = op
		}
		return err
	}
	if errors.Is(err, rows.ErrInterrupted) {
		return err
	}

	// An error without a code does not come from the engine.
	var code sqlite3.ExtendedErrorCode
	if !errors.As(err, &code) {
		if _, ok := errors.AsType[*os.PathError](err); ok {
			return hub.Errorf(hub.CodeDegraded, op, "cannot reach the database: %v", err)
		}
		return hub.Errorf(hub.CodeInternal, op, "%v", err)
	}

	switch code.Code() {
	case sqlite3.INTERRUPT:
		return rows.ErrInterrupted
	case sqlite3.BUSY, sqlite3.LOCKED, sqlite3.PROTOCOL:
		return hub.Errorf(hub.CodeDegraded, op, "another process holds the database: %v", err).
			WithHint("end the program that has hub.db open; the hub then continues by itself")
	case sqlite3.FULL:
		return fullError(op, err)
	case sqlite3.READONLY, sqlite3.PERM, sqlite3.AUTH:
		return hub.Errorf(hub.CodeDegraded, op, "cannot write to the database: %v", err).
			WithHint("make hub.db and its folder writable for the user that runs the hub")
	case sqlite3.IOERR, sqlite3.CANTOPEN, sqlite3.NOLFS:
		return hub.Errorf(hub.CodeDegraded, op, "cannot reach the database: %v", err).
			WithHint("check the disk and the permissions of the hub's folder")
	case sqlite3.CORRUPT, sqlite3.NOTADB:
		return hub.Errorf(hub.CodeDegraded, op, "the database is damaged: %v", err).WithHint(restoreHint)

	case sqlite3.CONSTRAINT:
		switch code {
		case sqlite3.CONSTRAINT_UNIQUE, sqlite3.CONSTRAINT_PRIMARYKEY, sqlite3.CONSTRAINT_ROWID:
			return hub.Errorf(hub.CodeConflict, op, "it already exists")
		case sqlite3.CONSTRAINT_FOREIGNKEY:
			return hub.Errorf(hub.CodeNotFound, op, "the row that this one refers to does not exist")
		case sqlite3.CONSTRAINT_TRIGGER:
			return hub.Errorf(hub.CodeInvalid, op, "%s", triggerText(err))
		case sqlite3.CONSTRAINT_CHECK, sqlite3.CONSTRAINT_NOTNULL:
			return hub.Errorf(hub.CodeInvalid, op, "a value is not one that the store allows")
		}
	}
	return hub.Errorf(hub.CodeInternal, op, "%v", err)
}

// triggerText returns the words of a trigger of the schema without those of the driver.
func triggerText(err error) string {
	const before = "constraint failed: "
	text := err.Error()
	if i := strings.LastIndex(text, before); i >= 0 {
		return text[i+len(before):]
	}
	return text
}

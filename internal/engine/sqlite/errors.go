package sqlite

import (
	"errors"
	"os"

	"github.com/ncruces/go-sqlite3"

	"github.com/parley-agents/parley/hub"
)

// restoreHint tells the operator how to go on after damage.
const restoreHint = "restore a backup, or move hub.db and the files beside it away; nothing was changed"

// errInterrupted ends a read whose context has ended.
var errInterrupted = errors.New("interrupted")

// engineError turns an error of the driver into one of the hub's. The driver's
// own error goes no further; only its text does.
func engineError(op string, err error) error {
	if err == nil {
		return nil
	}
	var known *hub.Error
	if errors.As(err, &known) {
		return err
	}
	var code sqlite3.ExtendedErrorCode
	if !errors.As(err, &code) {
		if _, ok := errors.AsType[*os.PathError](err); ok {
			return hub.Errorf(hub.CodeDegraded, op, "the database cannot be reached: %v", err)
		}
		return hub.Errorf(hub.CodeInternal, op, "%v", err)
	}
	switch code.Code() {
	case sqlite3.INTERRUPT:
		return errInterrupted
	case sqlite3.BUSY, sqlite3.LOCKED, sqlite3.PROTOCOL:
		return hub.Errorf(hub.CodeDegraded, op, "another process holds the database: %v", err).
			WithHint("end whatever has hub.db open; the hub goes on by itself")
	case sqlite3.FULL:
		return fullError(op, err)
	case sqlite3.READONLY, sqlite3.PERM, sqlite3.AUTH:
		return hub.Errorf(hub.CodeDegraded, op, "the database cannot be written: %v", err).
			WithHint("make hub.db and its folder writable for the user that runs the hub")
	case sqlite3.IOERR, sqlite3.CANTOPEN, sqlite3.NOLFS:
		return hub.Errorf(hub.CodeDegraded, op, "the database cannot be reached: %v", err).
			WithHint("look at the disk and at the permissions of the hub's folder")
	case sqlite3.CORRUPT, sqlite3.NOTADB:
		return hub.Errorf(hub.CodeDegraded, op, "the database is damaged: %v", err).WithHint(restoreHint)
	case sqlite3.CONSTRAINT:
		switch code {
		case sqlite3.CONSTRAINT_UNIQUE, sqlite3.CONSTRAINT_PRIMARYKEY, sqlite3.CONSTRAINT_ROWID:
			return hub.Errorf(hub.CodeConflict, op, "it exists already: %v", err)
		case sqlite3.CONSTRAINT_FOREIGNKEY:
			return hub.Errorf(hub.CodeNotFound, op, "the row that this one refers to does not exist")
		case sqlite3.CONSTRAINT_TRIGGER, sqlite3.CONSTRAINT_CHECK, sqlite3.CONSTRAINT_NOTNULL:
			return hub.Errorf(hub.CodeInvalid, op, "%v", err)
		}
	}
	return hub.Errorf(hub.CodeInternal, op, "%v", err)
}

// foreignRow returns the error after a row of the journal was found that this hub
// did not write. The chain has another end than the writer believes, so that it
// must not go on.
func foreignRow(seq int64) error {
	return hub.Errorf(hub.CodeDegraded, "sqlite.Append", "the journal has a row %d that this hub did not write; it writes no more", seq).
		WithHint("end the other program that writes to hub.db, run parley audit verify, and start the hub again")
}

// notFound returns the error of a read whose row does not exist.
func notFound(op, noun, name string) error {
	return hub.Errorf(hub.CodeNotFound, op, "no %s %q", noun, name)
}

// closedError returns the answer to a call after Close.
func closedError(op string) error {
	return hub.Errorf(hub.CodeDegraded, op, "the store is closed")
}

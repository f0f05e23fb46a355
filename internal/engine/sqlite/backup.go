package sqlite

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/parley-agents/parley/hub"
)

// Backup copies the database, as it is now, into a file at path, while it is in
// use. SQLite writes the copy from one snapshot, without free pages. The file
// appears when it is complete, or not at all; an existing file is refused with
// CodeConflict.
func (s *Store) Backup(ctx context.Context, path string) error {
	const op = "sqlite.Backup"
	if !s.enter() {
		return closedError(op)
	}
	defer s.leave()
	path, err := filepath.Abs(path)
	if err != nil {
		return engineError(op, err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		return hub.Errorf(hub.CodeConflict, op, "%s exists already", path).WithHint("name a file that does not exist yet")
	}
	draft := path + ".partial"
	if err := removeDatabase(draft); err != nil { // left by a crash
		return engineError(op, err)
	}
	err = s.copyTo(ctx, draft)
	if err == nil {
		err = moveDatabase(draft, path)
	}
	if err != nil {
		return errors.Join(cmp.Or(ctx.Err(), engineError(op, err)), removeDatabase(draft))
	}
	return nil
}

// copyTo copies a snapshot of the database. The file is made first, so that only
// its owner can read it.
func (s *Store) copyTo(ctx context.Context, path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	c, err := openConn(s.path, s.busy, readerCache)
	if err != nil {
		return err
	}
	c.db.SetInterrupt(ctx)
	st, _, err := c.db.Prepare(`VACUUM INTO ?1`)
	if err == nil {
		err = errors.Join(st.BindText(1, path), st.Exec(), st.Close())
	}
	c.db.SetInterrupt(context.Background())
	return errors.Join(err, c.close())
}

package sqlite

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/parley-agents/parley/hub"
)

// backupPages is how many pages a backup copies at a time.
const backupPages = 256

// Backup copies the database, as it is now, into a file at path, while it is
// in use. Put into an empty home as hub.db, the file is a hub's database. It
// appears when it is complete, or not at all; a file that is there already is
// refused with CodeConflict. progress, if not nil, is told how many pages of
// how many are done. Consumers of the journal that are named in without have
// not begun in the copy: what they have made does not go with it.
func (s *Store) Backup(ctx context.Context, path string, progress func(done, total int), without ...string) error {
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
	err = s.copyTo(ctx, draft, progress)
	if err == nil {
		err = forgetConsumers(draft, s.busy, without)
	}
	if err == nil {
		err = moveDatabase(draft, path)
	}
	if err != nil {
		return errors.Join(cmp.Or(ctx.Err(), engineError(op, err)), removeDatabase(draft))
	}
	return nil
}

// copyTo copies a snapshot of the database page by page.
func (s *Store) copyTo(ctx context.Context, path string, progress func(done, total int)) (err error) {
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
	defer func() { err = errors.Join(err, c.close()) }()

	// The copy would begin anew at every change, if it did not stand on a
	// snapshot of its own.
	hold := c.query(stmtSnapshot)
	defer hold.done()
	if !hold.next() {
		return cmp.Or(hold.done(), errors.New("the database has no schema"))
	}
	backup, err := c.db.BackupInit("main", path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, backup.Close()) }()
	for done := false; !done; {
		if err := ctx.Err(); err != nil {
			return err
		}
		if done, err = backup.Step(backupPages); err != nil {
			return err
		}
		if progress != nil {
			total := backup.PageCount()
			progress(total-backup.Remaining(), total)
		}
	}
	return nil
}

// forgetConsumers takes cursors out of a database that nobody has open.
func forgetConsumers(path string, busy time.Duration, names []string) (err error) {
	if len(names) == 0 {
		return nil
	}
	c, err := openConn(path, busy, readerCache)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	for _, sql := range []string{`DELETE FROM cursors WHERE consumer = ?1`, `DELETE FROM acp_meta WHERE key = ?1`} {
		for _, name := range names {
			st, _, err := c.db.Prepare(sql)
			if err != nil {
				return err
			}
			err = st.BindText(1, name)
			if err == nil {
				err = st.Exec()
			}
			if err := errors.Join(err, st.Close()); err != nil {
				return err
			}
		}
	}
	return nil
}

// syncFile makes sure that a file is on disk.
func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// syncFolder makes sure that the names in a folder are on disk. Windows has no
// such call and does it by itself.
func syncFolder(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

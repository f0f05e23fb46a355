package sqlite

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/ncruces/go-sqlite3"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/durable"
)

// Backup copies the database, as it is now, into a file at path, while it is in
// use, about as fast as the file can be copied when little was written since the last
// checkpoint. The log cannot be emptied meanwhile.
// The file appears when it is complete, or not at all; an existing file is refused
// with CodeConflict.
func (s *Store) Backup(ctx context.Context, path string) error {
	const op = "sqlite.Backup"
	if err := s.gate.Enter(op); err != nil {
		return err
	}
	defer s.gate.Leave()
	path, err := filepath.Abs(path)
	if err != nil {
		return engineError(op, err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		return hub.Errorf(hub.CodeConflict, op, "%s already exists", path).WithHint("use a file that does not exist yet")
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

// copyTo copies the database and its log, and makes one file of the copies.
//
// While no checkpoint runs, which logMu ensures, the file of the database does not
// change, and the log grows at its end. Both together are the database at the moment at
// which the copy of the log ended, as after a kill. One exception: if all of the log was
// copied into the database before, then the next commit begins the log anew, over its
// old content. That can happen once, and changes the header of the log first; a copy
// of the log during which its header changed is made again.
func (s *Store) copyTo(ctx context.Context, path string) error {
	s.logMu.Lock()
	defer s.logMu.Unlock()
	if err := s.shortenLog(); err != nil {
		return err
	}

	if err := durable.Copy(ctx, s.path, path); err != nil {
		return err
	}

	log := path + "-wal"
	for {
		before, err := logHeader(s.path)
		if err == nil {
			err = durable.Copy(ctx, s.path+"-wal", log)
		}
		if err != nil {
			return err
		}
		after, err := logHeader(s.path)
		if err != nil {
			return err
		}
		if before == after {
			break
		}
		if err := os.Remove(log); err != nil {
			return err
		}
	}

	if err := protect(path); err != nil {
		return err
	}
	c, err := openConn(path, s.busy, readerCache)
	if err != nil {
		return err
	}
	// A connection that has read nothing leaves the log as it is.
	_, err = c.number(`PRAGMA user_version`)
	return errors.Join(err, c.close())
}

// shortenLog copies the log into the database and empties it, as far as readers and the
// writer allow without a long wait: the log is as large as the database of a small hub,
// also when little in it is new, and every byte of it would be copied. It is called with
// logMu held.
func (s *Store) shortenLog() error {
	c, err := openConn(s.path, min(s.busy, checkpointWait), readerCache)
	if err != nil {
		return err
	}
	for _, mode := range []sqlite3.CheckpointMode{sqlite3.CHECKPOINT_PASSIVE, sqlite3.CHECKPOINT_TRUNCATE} {
		if err == nil {
			_, _, err = c.db.WALCheckpoint("main", mode)
		}
	}
	if err != nil && !errors.Is(err, sqlite3.BUSY) {
		s.log.Warn("checkpoint before a backup", "err", err) // such as on a full disk: the copy of a long log is as good
	}
	return c.close()
}

// logHeader returns the first bytes of the log, among them the numbers that change
// when it begins anew.
func logHeader(path string) (header [32]byte, err error) {
	f, err := os.Open(path + "-wal")
	if err != nil {
		return header, err
	}
	defer f.Close()
	if _, err = io.ReadFull(f, header[:]); err == io.EOF {
		err = nil // a log without a commit
	}
	return header, err
}

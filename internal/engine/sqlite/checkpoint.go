package sqlite

import (
	"errors"
	"os"
	"time"

	"github.com/ncruces/go-sqlite3"
)

const (
	// When the write-ahead log has walPages it is copied into the database.
	// The longer that is put off, the more often a page was changed that has
	// to be copied, and synced, only once; and the longer takes the start after a
	// kill, which reads the log.
	walPages = 64 << 20 / 4096

	// On a disk with little room the log is copied earlier. Its room is looked up
	// each time that the log has grown by walPagesLook.
	walPagesLook = 1 << 20 / 4096

	// A log file of so many bytes is copied before the hub starts: checkpoints did
	// not end beside the work, as in a hub that is killed again and again, and each
	// start takes as long as the log is.
	walTrim = 2 * walPages * 4096

	// The writer may be blocked for so many pages.
	walPagesLeft = 256

	// How long a checkpoint that would empty the log waits for readers. The writer
	// waits meanwhile, and a backup may read for minutes.
	checkpointWait = 100 * time.Millisecond
)

// trimLog empties a log that became too long in earlier processes. It is called before
// other connections are open.
func (s *Store) trimLog(c *conn) error {
	info, err := os.Stat(s.path + "-wal")
	if err != nil || info.Size() < walTrim {
		return nil // no log: an earlier process ended well
	}
	_, _, err = c.db.WALCheckpoint("main", sqlite3.CHECKPOINT_TRUNCATE)
	return err
}

// walGrew is called by the writer's connection after each commit, always by
// the same goroutine.
func (s *Store) walGrew(_ *sqlite3.Conn, _ string, pages int) error {
	if pages < s.walLooked {
		s.walLooked, s.walAsked = 0, 0 // the log has begun anew
	}
	if s.walLimit == 0 || pages-s.walLooked >= walPagesLook {
		s.walLooked, s.walLimit = pages, s.logLimit()
	}
	// An attempt that a reader or the writer blocked is repeated when the log has
	// grown by a quarter of its limit.
	if pages >= s.walLimit && pages-s.walAsked >= s.walLimit/4 {
		s.walAsked = pages
		s.askCheckpoint()
	}
	return nil
}

// logLimit returns the number of pages at which the log is copied into the database:
// walPages, or as many as half of the room on the disk. The copy may make the
// database longer by the whole log, and the log grows while it is copied.
func (s *Store) logLimit() int {
	return int(min(max(s.room()/2/4096, walPagesLook), walPages))
}

// askCheckpoint makes runCheckpoints work once more.
func (s *Store) askCheckpoint() {
	select {
	case s.checkpoint <- struct{}{}:
	default: // one is due already
	}
}

// runCheckpoints works on a connection of its own until the channel closes.
func (s *Store) runCheckpoints(c *conn) {
	defer close(s.checkpointsDone)

	for range s.checkpoint {
		if !s.logMu.TryLock() {
			continue // a backup reads the log; it is asked for again when the log has grown
		}
		// Passive passes copy pages beside the writer, each the pages written
		// during the one before. The last pass blocks the writer, so it should
		// have little left to copy and to sync.
		var err error
		for left, pass := walPages, 0; left > walPagesLeft && pass < 3 && err == nil; pass++ {
			var logged, copied int
			logged, copied, err = c.db.WALCheckpoint("main", sqlite3.CHECKPOINT_PASSIVE)
			left = logged - copied
		}

		if err == nil {
			mode := sqlite3.CHECKPOINT_RESTART
			if s.logLimit() < walPages {
				mode = sqlite3.CHECKPOINT_TRUNCATE // gives the space of the log back
			}
			_, _, err = c.db.WALCheckpoint("main", mode)
		}

		if err != nil && !errors.Is(err, sqlite3.BUSY) {
			// The log grows until the next one succeeds; nothing is lost.
			s.log.Warn("checkpoint", "err", err)
		}
		s.logMu.Unlock()
	}

	if _, _, err := c.db.WALCheckpoint("main", sqlite3.CHECKPOINT_TRUNCATE); err != nil {
		s.log.Warn("checkpoint at close", "err", err)
	}
	if err := c.close(); err != nil {
		s.log.Warn("closing the checkpoint connection", "err", err)
	}
}

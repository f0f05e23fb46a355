package sqlite

import (
	"errors"

	"github.com/ncruces/go-sqlite3"
)

const (
	// When the write-ahead log has walPages it is copied into the database.
	// The longer that is put off, the more often a page was changed that has
	// to be copied, and synced, only once.
	walPages = 128 << 20 / 4096

	// An attempt that a reader or the writer blocked is repeated when the log
	// has grown by walPagesMore.
	walPagesMore = walPages / 4

	// The writer may be blocked for so many pages.
	walPagesLeft = 256
)

// walGrew is called by the writer's connection after each commit, always by
// the same goroutine.
func (s *Store) walGrew(_ *sqlite3.Conn, _ string, pages int) error {
	if pages < s.walAsked {
		s.walAsked = 0 // the log has begun anew
	}
	if pages >= walPages && pages-s.walAsked >= walPagesMore {
		s.walAsked = pages
		select {
		case s.checkpoint <- struct{}{}:
		default: // one is due already
		}
	}
	return nil
}

// runCheckpoints works on a connection of its own until the channel closes.
func (s *Store) runCheckpoints(c *conn) {
	defer close(s.checkpointsDone)
	for range s.checkpoint {
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
			_, _, err = c.db.WALCheckpoint("main", sqlite3.CHECKPOINT_RESTART)
		}
		if err != nil && !errors.Is(err, sqlite3.BUSY) {
			// The log grows until the next one succeeds; nothing is lost.
			s.log.Warn("checkpoint", "err", err)
		}
	}
	if _, _, err := c.db.WALCheckpoint("main", sqlite3.CHECKPOINT_TRUNCATE); err != nil {
		s.log.Warn("checkpoint at close", "err", err)
	}
	if err := c.close(); err != nil {
		s.log.Warn("closing the checkpoint connection", "err", err)
	}
}

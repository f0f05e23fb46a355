package sqlite

import (
	"github.com/ncruces/go-sqlite3"
)

// When the write-ahead log has this many pages it is copied into the database
// beside the writer; when it has many more, because there was always somebody
// writing or reading, the writer waits until it can start from the beginning.
const (
	walPages     = 8 << 20 / 4096
	walPagesLots = 8 * walPages
)

// walGrew is called by the writer's connection after each commit.
func (s *Store) walGrew(_ *sqlite3.Conn, _ string, pages int) error {
	if pages >= walPages {
		s.walSize.Store(int64(pages))
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
		_, _, err := c.db.WALCheckpoint("main", sqlite3.CHECKPOINT_PASSIVE)
		if err == nil && s.walSize.Load() >= walPagesLots {
			_, _, err = c.db.WALCheckpoint("main", sqlite3.CHECKPOINT_RESTART)
		}
		if err != nil {
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

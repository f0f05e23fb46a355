-- The Merkle tree over the journal: its hashes, in base64, 256 in a tile, and the checkpoints that the
-- hub signed.
CREATE TABLE IF NOT EXISTS tree_tiles (
  level  INTEGER NOT NULL,
  n      INTEGER NOT NULL,
  hashes TEXT NOT NULL,
  PRIMARY KEY (level, n)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS tree_checkpoints (
  size INTEGER PRIMARY KEY,
  at   TEXT NOT NULL,
  note TEXT NOT NULL
);

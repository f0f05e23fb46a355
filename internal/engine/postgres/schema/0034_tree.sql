-- The Merkle tree over the journal: its hashes, in base64, 256 in a tile, and the checkpoints that the
-- hub signed.
CREATE TABLE tree_tiles (
  level  BIGINT NOT NULL,
  n      BIGINT NOT NULL,
  hashes TEXT NOT NULL,
  PRIMARY KEY (level, n)
);

CREATE TABLE tree_checkpoints (
  size BIGINT PRIMARY KEY,
  at   TEXT NOT NULL,
  note TEXT NOT NULL
);

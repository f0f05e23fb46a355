-- The folders that the operator allows the hub to read, to check claims.
CREATE TABLE IF NOT EXISTS roots (
  path     TEXT PRIMARY KEY,               -- absolute
  added_by TEXT NOT NULL,
  added_at TEXT NOT NULL
) WITHOUT ROWID;

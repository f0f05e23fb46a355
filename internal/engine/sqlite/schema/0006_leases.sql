-- Work that must run in one process at a time. number grows by one with each
-- new holder, and never goes back.
CREATE TABLE IF NOT EXISTS leases (
  name       TEXT PRIMARY KEY,
  holder     TEXT NOT NULL,
  number     INTEGER NOT NULL,
  expires_at TEXT NOT NULL
) WITHOUT ROWID;

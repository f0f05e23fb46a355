-- Work that must run in one process at a time. number grows by one each time
-- the work changes hands, and never goes back.
CREATE TABLE IF NOT EXISTS leases (
  name   TEXT PRIMARY KEY,
  number INTEGER NOT NULL
) WITHOUT ROWID;

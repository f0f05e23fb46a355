-- Work that must run in one process at a time. number grows by one each time
-- the work changes hands, and never goes back.
CREATE TABLE IF NOT EXISTS leases (
  name   TEXT PRIMARY KEY,
  number INTEGER NOT NULL
) WITHOUT ROWID;

-- A list of an agent's messages of one type walks over the agent's rows, which
-- hold the type. The index cost more with every message than it saved.
DROP INDEX IF EXISTS message_party_type;

-- Places outside of the hub whose events become messages.
CREATE TABLE IF NOT EXISTS event_sources (
  name      TEXT PRIMARY KEY,
  vendor    TEXT NOT NULL CHECK (vendor IN ('github','gitlab','gitea','generic')),
  revision  INTEGER NOT NULL,
  body_json TEXT NOT NULL
) WITHOUT ROWID;

-- The ids of events that came, for seven days, so that a repetition is known.
CREATE TABLE IF NOT EXISTS event_deliveries (
  source TEXT NOT NULL,
  id     TEXT NOT NULL,
  at     TEXT NOT NULL,
  PRIMARY KEY (source, id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS event_deliveries_at ON event_deliveries(at);

-- What became of the requests of each source.
CREATE TABLE IF NOT EXISTS event_counts (
  source  TEXT NOT NULL,
  outcome TEXT NOT NULL,
  n       INTEGER NOT NULL,
  PRIMARY KEY (source, outcome)
) WITHOUT ROWID;

-- Messages of the operator on a schedule.
CREATE TABLE IF NOT EXISTS schedules (
  n         INTEGER PRIMARY KEY,              -- en
  agent     TEXT NOT NULL,
  revision  INTEGER NOT NULL,
  body_json TEXT NOT NULL
);

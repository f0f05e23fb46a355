-- Places outside of the hub whose events become messages.
CREATE TABLE event_sources (
  name      TEXT PRIMARY KEY,
  vendor    TEXT NOT NULL CHECK (vendor IN ('github','gitlab','gitea','generic')),
  revision  BIGINT NOT NULL,
  body_json TEXT NOT NULL
);

-- The ids of events that came, for seven days, so that a repetition is known.
CREATE TABLE event_deliveries (
  source TEXT NOT NULL,
  id     TEXT NOT NULL,
  at     TEXT NOT NULL,
  PRIMARY KEY (source, id)
);
CREATE INDEX event_deliveries_at ON event_deliveries(at);

-- What became of the requests of each source.
CREATE TABLE event_counts (
  source  TEXT NOT NULL,
  outcome TEXT NOT NULL,
  n       BIGINT NOT NULL,
  PRIMARY KEY (source, outcome)
);

-- Messages of the operator on a schedule.
CREATE TABLE schedules (
  n         BIGINT PRIMARY KEY,              -- en
  agent     TEXT NOT NULL,
  revision  BIGINT NOT NULL,
  body_json TEXT NOT NULL
);

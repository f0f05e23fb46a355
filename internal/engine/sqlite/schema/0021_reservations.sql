-- Which agent may change which file of which working tree.
CREATE TABLE IF NOT EXISTS reservations (
  fence       INTEGER PRIMARY KEY,
  machine     TEXT,
  tree        TEXT NOT NULL,
  repository  TEXT,
  path        TEXT NOT NULL,
  is_pattern  INTEGER NOT NULL,
  holder      TEXT NOT NULL,
  session     TEXT,
  shared      INTEGER NOT NULL,
  task        TEXT,
  handoff     TEXT,
  why         TEXT,
  state       TEXT NOT NULL CHECK (state IN ('held','orphan')),
  since_at    TEXT NOT NULL,
  active_at   TEXT NOT NULL,
  until_at    TEXT,
  asked_at    TEXT,
  base        TEXT,
  digest      TEXT,
  object      TEXT,
  changed     INTEGER NOT NULL,
  left_sha256 TEXT,
  left_lines  INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS reservations_tree ON reservations (tree, fence);
CREATE INDEX IF NOT EXISTS reservations_held ON reservations (state, is_pattern, holder);

-- Agents that were refused a file and wait for it.
CREATE TABLE IF NOT EXISTS file_waits (
  tree     TEXT NOT NULL,
  path     TEXT NOT NULL,
  agent    TEXT NOT NULL,
  since_at TEXT NOT NULL,
  told_at  TEXT,
  warned   INTEGER NOT NULL,
  PRIMARY KEY (tree, path, agent)
) WITHOUT ROWID;

-- The content of files that agents last saw.
CREATE TABLE IF NOT EXISTS file_views (
  tree   TEXT NOT NULL,
  path   TEXT NOT NULL,
  agent  TEXT NOT NULL,
  digest TEXT,
  stale  TEXT,
  wrote  INTEGER NOT NULL,
  at     TEXT NOT NULL,
  PRIMARY KEY (tree, path, agent)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS file_views_at ON file_views (at);

-- Sentences for the next answer of the guard to an agent.
CREATE TABLE IF NOT EXISTS file_notes (
  agent TEXT NOT NULL,
  n     INTEGER NOT NULL,
  kind  TEXT NOT NULL,
  path  TEXT NOT NULL,
  other TEXT,
  text  TEXT NOT NULL,
  PRIMARY KEY (agent, n)
) WITHOUT ROWID;

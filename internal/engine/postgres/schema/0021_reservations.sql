-- Which agent may change which file of which working tree.
CREATE TABLE reservations (
  fence       BIGINT PRIMARY KEY,
  machine     TEXT,
  tree        TEXT NOT NULL,
  repository  TEXT,
  path        TEXT NOT NULL,
  is_pattern  BIGINT NOT NULL,
  holder      TEXT NOT NULL,
  session     TEXT,
  shared      BIGINT NOT NULL,
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
  changed     BIGINT NOT NULL,
  left_sha256 TEXT,
  left_lines  BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX reservations_tree ON reservations (tree, fence);
CREATE INDEX reservations_held ON reservations (state, is_pattern, holder);

-- Agents that were refused a file and wait for it.
CREATE TABLE file_waits (
  tree     TEXT NOT NULL,
  path     TEXT NOT NULL,
  agent    TEXT NOT NULL,
  since_at TEXT NOT NULL,
  told_at  TEXT,
  warned   BIGINT NOT NULL,
  PRIMARY KEY (tree, path, agent)
);

-- The content of files that agents last saw.
CREATE TABLE file_views (
  tree   TEXT NOT NULL,
  path   TEXT NOT NULL,
  agent  TEXT NOT NULL,
  digest TEXT,
  stale  TEXT,
  wrote  BIGINT NOT NULL,
  at     TEXT NOT NULL,
  PRIMARY KEY (tree, path, agent)
);
CREATE INDEX file_views_at ON file_views (at);

-- Sentences for the next answer of the guard to an agent.
CREATE TABLE file_notes (
  agent TEXT NOT NULL,
  n     BIGINT NOT NULL,
  kind  TEXT NOT NULL,
  path  TEXT NOT NULL,
  other TEXT,
  text  TEXT NOT NULL,
  PRIMARY KEY (agent, n)
);

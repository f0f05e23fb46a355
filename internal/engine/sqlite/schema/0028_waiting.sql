-- column reservations.found
-- column reservations.head

-- A reservation can wait for another one of the same path, and knows the content that the hub
-- found last beside the one that it saw of the holder, and the file in the checked-out commit.
DROP TABLE IF EXISTS reservations_next;
CREATE TABLE reservations_next (
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
  state       TEXT NOT NULL CHECK (state IN ('held','waiting','orphan')),
  since_at    TEXT NOT NULL,
  active_at   TEXT NOT NULL,
  until_at    TEXT,
  asked_at    TEXT,
  base        TEXT,
  digest      TEXT,
  object      TEXT,
  changed     INTEGER NOT NULL,
  left_sha256 TEXT,
  left_lines  INTEGER NOT NULL DEFAULT 0,
  found       TEXT,
  head        TEXT
);
INSERT INTO reservations_next
  SELECT fence, machine, tree, repository, path, is_pattern, holder, session, shared, task, handoff, why, state, since_at, active_at, until_at, asked_at, base, digest, object, changed, left_sha256, left_lines, coalesce(found, digest), head FROM reservations;
DROP TABLE reservations;
ALTER TABLE reservations_next RENAME TO reservations;
CREATE INDEX reservations_tree ON reservations (tree, fence);
CREATE INDEX reservations_held ON reservations (state, is_pattern, holder);

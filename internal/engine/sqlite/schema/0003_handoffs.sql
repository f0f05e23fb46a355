-- What the hub keeps of a handoff beside the protocol's own row.
CREATE TABLE IF NOT EXISTS handoff_meta (
  handoff_id    TEXT PRIMARY KEY REFERENCES handoffs(id),
  previous_id   TEXT,
  restricted    INTEGER NOT NULL DEFAULT 0,
  needs_human   INTEGER NOT NULL DEFAULT 0,
  approved_at   TEXT,
  ownership     TEXT NOT NULL DEFAULT '' CHECK (ownership IN ('', 'manual_required', 'confirmed')),
  deadline      TEXT,
  accepted_at   TEXT,
  escalated_at  TEXT,
  reject_reason TEXT,
  ending        TEXT CHECK (ending IN ('done','handed_on','released','rejected','withdrawn'))
) WITHOUT ROWID;

-- Every move of a handoff. Rows are only ever added.
CREATE TABLE IF NOT EXISTS handoff_history (
  handoff_id  TEXT NOT NULL REFERENCES handoffs(id),
  n           INTEGER NOT NULL,
  state       TEXT NOT NULL
              CHECK (state IN ('draft','proposed','validating','accepted','rejected','activated','completed','closed')),
  at          TEXT NOT NULL,
  actor       TEXT NOT NULL,
  note        TEXT,
  checks_json TEXT,
  PRIMARY KEY (handoff_id, n)
) WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS handoffs_task ON handoffs(task_id, id);
CREATE INDEX IF NOT EXISTS handoffs_from ON handoffs(from_agent, id);
CREATE INDEX IF NOT EXISTS handoffs_to ON handoffs(to_agent, id);
CREATE INDEX IF NOT EXISTS handoffs_open ON handoffs(status, id) WHERE status IN ('accepted','activated');

CREATE TRIGGER IF NOT EXISTS handoff_history_no_update BEFORE UPDATE ON handoff_history
BEGIN
  SELECT RAISE(ABORT, 'the history of a handoff is append-only');
END;
CREATE TRIGGER IF NOT EXISTS handoff_history_no_delete BEFORE DELETE ON handoff_history
BEGIN
  SELECT RAISE(ABORT, 'the history of a handoff is append-only');
END;
CREATE TRIGGER IF NOT EXISTS handoffs_no_delete BEFORE DELETE ON handoffs
BEGIN
  SELECT RAISE(ABORT, 'handoffs are kept for ever');
END;

-- REPLACE deletes without asking the triggers on DELETE.
CREATE TRIGGER IF NOT EXISTS handoff_history_no_replace BEFORE INSERT ON handoff_history
WHEN EXISTS (SELECT 1 FROM handoff_history WHERE handoff_id = NEW.handoff_id AND n = NEW.n)
BEGIN
  SELECT RAISE(ABORT, 'the history of a handoff is append-only');
END;
CREATE TRIGGER IF NOT EXISTS handoffs_no_replace BEFORE INSERT ON handoffs
WHEN EXISTS (SELECT 1 FROM handoffs WHERE id = NEW.id)
BEGIN
  SELECT RAISE(FAIL, 'handoffs.id is taken: handoffs are kept for ever');
END;

INSERT OR IGNORE INTO acp_meta (key, value) VALUES ('package_hash', 'sha256 of RFC 8785 without verification.package_hash');

-- What was handed over, by whom and to whom, never changes; states move only
-- along the protocol's arrows.
CREATE TRIGGER IF NOT EXISTS handoffs_fixed BEFORE UPDATE ON handoffs
WHEN NEW.id <> OLD.id OR NEW.thread_id <> OLD.thread_id OR NEW.task_id <> OLD.task_id OR NEW.from_agent <> OLD.from_agent
  OR NEW.to_agent <> OLD.to_agent OR NEW.title <> OLD.title OR NEW.reason <> OLD.reason OR NEW.package_json <> OLD.package_json
  OR NEW.provenance_json <> OLD.provenance_json OR NEW.verification_json <> OLD.verification_json OR NEW.initiated_at <> OLD.initiated_at
BEGIN
  SELECT RAISE(ABORT, 'what was handed over does not change');
END;
CREATE TRIGGER IF NOT EXISTS handoffs_moves BEFORE UPDATE OF status ON handoffs
WHEN OLD.status <> NEW.status AND (OLD.status || '>' || NEW.status) NOT IN (
  'draft>proposed', 'proposed>validating', 'validating>accepted', 'validating>rejected', 'accepted>activated',
  'rejected>closed', 'activated>completed', 'completed>closed')
BEGIN
  SELECT RAISE(ABORT, 'no such move of a handoff');
END;

-- Up to where the journal lies in archives. The chain goes on from the newest
-- row; entries up to its seq may be deleted, no others.
CREATE TABLE IF NOT EXISTS journal_archives (
  seq      INTEGER PRIMARY KEY,            -- of the last entry in the archive
  hash     TEXT NOT NULL,                  -- of that entry
  cutoff   TEXT NOT NULL,                  -- messages created before are in it
  file     TEXT NOT NULL,
  sha256   TEXT NOT NULL,                  -- of the file
  entries  INTEGER NOT NULL,
  messages INTEGER NOT NULL,
  at       TEXT NOT NULL
);
CREATE TRIGGER IF NOT EXISTS journal_archives_no_update BEFORE UPDATE ON journal_archives
BEGIN
  SELECT RAISE(ABORT, 'the list of archives is append-only');
END;
CREATE TRIGGER IF NOT EXISTS journal_archives_no_delete BEFORE DELETE ON journal_archives
BEGIN
  SELECT RAISE(ABORT, 'the list of archives is append-only');
END;

CREATE TRIGGER IF NOT EXISTS journal_archives_no_replace BEFORE INSERT ON journal_archives
WHEN EXISTS (SELECT 1 FROM journal_archives WHERE seq = NEW.seq)
BEGIN
  SELECT RAISE(ABORT, 'the list of archives is append-only');
END;

DROP TRIGGER IF EXISTS journal_no_delete;
CREATE TRIGGER journal_no_delete BEFORE DELETE ON journal
WHEN OLD.seq > coalesce((SELECT max(seq) FROM journal_archives), 0)
BEGIN
  SELECT RAISE(ABORT, 'the journal is append-only');
END;

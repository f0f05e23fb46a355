-- Runs of agents: what was asked for, what was claimed, what was found.
CREATE TABLE IF NOT EXISTS runs (
  id                  TEXT PRIMARY KEY,
  agent               TEXT NOT NULL REFERENCES agents(id),
  by_agent            TEXT NOT NULL REFERENCES agents(id),
  task                TEXT NOT NULL,
  dir                 TEXT NOT NULL,
  thread_id           TEXT NOT NULL,
  handoff_id          TEXT REFERENCES handoffs(id),
  key_id              TEXT NOT NULL,
  state               TEXT NOT NULL
                      CHECK (state IN ('starting','running','checking','done','failed','interrupted')),
  session_id          TEXT,
  stop_reason         TEXT,
  reason              TEXT,
  report_json         TEXT,
  verdict             TEXT CHECK (verdict IN ('confirmed','contradicted','unverified')),
  contradictions_json TEXT,
  evidence_json       TEXT,
  message_id          TEXT,
  started_at          TEXT NOT NULL,
  expires_at          TEXT NOT NULL,
  ended_at            TEXT
) WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS runs_agent ON runs(agent, id);
CREATE INDEX IF NOT EXISTS runs_by ON runs(by_agent, id);
CREATE INDEX IF NOT EXISTS runs_handoff ON runs(handoff_id, id) WHERE handoff_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS runs_open ON runs(id) WHERE state IN ('starting','running','checking');

-- What was asked for never changes; a run that is over does not change at all.
CREATE TRIGGER IF NOT EXISTS runs_fixed BEFORE UPDATE ON runs
WHEN NEW.id <> OLD.id OR NEW.agent <> OLD.agent OR NEW.by_agent <> OLD.by_agent OR NEW.task <> OLD.task OR NEW.dir <> OLD.dir
  OR NEW.thread_id <> OLD.thread_id OR NEW.handoff_id IS NOT OLD.handoff_id OR NEW.key_id <> OLD.key_id
  OR NEW.started_at <> OLD.started_at OR NEW.expires_at <> OLD.expires_at
BEGIN
  SELECT RAISE(ABORT, 'what a run is about does not change');
END;
CREATE TRIGGER IF NOT EXISTS runs_moves BEFORE UPDATE ON runs
WHEN (OLD.state || '>' || NEW.state) NOT IN (
  'starting>running', 'starting>failed', 'starting>interrupted', 'running>checking', 'running>failed', 'running>interrupted',
  'checking>done', 'checking>failed', 'checking>interrupted')
BEGIN
  SELECT RAISE(ABORT, 'no such move of a run');
END;
CREATE TRIGGER IF NOT EXISTS runs_no_delete BEFORE DELETE ON runs
BEGIN
  SELECT RAISE(ABORT, 'runs are kept for ever');
END;
-- REPLACE deletes without asking the triggers on DELETE.
CREATE TRIGGER IF NOT EXISTS runs_no_replace BEFORE INSERT ON runs
WHEN EXISTS (SELECT 1 FROM runs WHERE id = NEW.id)
BEGIN
  SELECT RAISE(FAIL, 'runs.id is taken: runs are kept for ever');
END;

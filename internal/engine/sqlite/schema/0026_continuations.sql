-- Tasks whose agent cannot go on, on their way to the next owner.
CREATE TABLE IF NOT EXISTS continuations (
  n            INTEGER PRIMARY KEY,           -- kn
  handoff      TEXT NOT NULL,
  next_handoff TEXT,
  task         TEXT NOT NULL,
  of_agent     TEXT NOT NULL,
  state        TEXT NOT NULL CHECK (state IN ('waiting','offered','taken','refused')),
  revision     INTEGER NOT NULL,
  body_json    TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS continuations_handoff ON continuations(handoff, n);
CREATE INDEX IF NOT EXISTS continuations_next ON continuations(next_handoff) WHERE next_handoff IS NOT NULL;
CREATE INDEX IF NOT EXISTS continuations_task ON continuations(task, n);
CREATE INDEX IF NOT EXISTS continuations_agent ON continuations(of_agent, n);
CREATE TRIGGER IF NOT EXISTS continuations_fixed BEFORE UPDATE ON continuations WHEN OLD.state = 'taken' OR NEW.n <> OLD.n OR NEW.handoff <> OLD.handoff OR NEW.of_agent <> OLD.of_agent
BEGIN
  SELECT RAISE(ABORT, 'a continuation that was taken does not change');
END;

-- Uncommitted work that the hub keeps in its own copies of repositories.
CREATE TABLE IF NOT EXISTS rescues (
  n         INTEGER PRIMARY KEY,              -- sn
  agent     TEXT NOT NULL,
  body_json TEXT NOT NULL
);

-- The tokens and costs of model calls, and the work that they were for.
CREATE TABLE IF NOT EXISTS usages (
  cli          TEXT NOT NULL,
  id           TEXT NOT NULL,
  record       INTEGER NOT NULL,
  source       TEXT NOT NULL CHECK (source IN ('acp','transcript','plugin','hook')),
  agent        TEXT NOT NULL,
  session      TEXT,
  model        TEXT,
  input        INTEGER NOT NULL CHECK (input >= 0),
  output       INTEGER NOT NULL CHECK (output >= 0),
  cached_read  INTEGER NOT NULL CHECK (cached_read >= 0),
  cached_write INTEGER NOT NULL CHECK (cached_write >= 0),
  reasoning    INTEGER NOT NULL CHECK (reasoning >= 0),
  cost         INTEGER NOT NULL CHECK (cost >= 0),
  currency     TEXT,
  run          TEXT,
  handoff      TEXT,
  task         TEXT,
  team         TEXT,
  wake         TEXT,
  thread       TEXT,
  at           TEXT NOT NULL,
  PRIMARY KEY (cli, id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS usages_at ON usages (at);
CREATE INDEX IF NOT EXISTS usages_agent ON usages (agent, at);
CREATE INDEX IF NOT EXISTS usages_record ON usages (record);
CREATE INDEX IF NOT EXISTS usages_handoff ON usages (handoff) WHERE handoff IS NOT NULL;
CREATE INDEX IF NOT EXISTS usages_task ON usages (task) WHERE task IS NOT NULL;
CREATE INDEX IF NOT EXISTS usages_team ON usages (team, at) WHERE team IS NOT NULL;
CREATE INDEX IF NOT EXISTS usages_run ON usages (run) WHERE run IS NOT NULL;

-- Bounds of usage.
CREATE TABLE IF NOT EXISTS budgets (
  n         INTEGER PRIMARY KEY,
  of_name   TEXT NOT NULL,
  most      INTEGER NOT NULL CHECK (most > 0),
  unit      TEXT NOT NULL CHECK (unit IN ('tokens','money','turns')),
  currency  TEXT,
  per       TEXT NOT NULL CHECK (per IN ('hour','day','total')),
  hard      INTEGER NOT NULL,
  set_at    TEXT NOT NULL,
  set_by    TEXT NOT NULL,
  told_for  TEXT,
  spent_for TEXT
);

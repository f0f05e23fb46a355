-- column budgets.unpriced

-- A call belongs to its agent: a report of one agent hides no call of another. What the hub read itself
-- is known; the rest is the word of the agent.
DROP TABLE IF EXISTS usages_next;
CREATE TABLE usages_next (
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
  known        INTEGER NOT NULL,
  PRIMARY KEY (agent, id)
) WITHOUT ROWID;
INSERT INTO usages_next (cli, id, record, source, agent, session, model, input, output, cached_read, cached_write, reasoning, cost, currency, run, handoff, task, team, wake, thread, at, known)
SELECT cli,
  CASE WHEN EXISTS (SELECT 1 FROM usages AS o WHERE o.agent = u.agent AND o.id = u.id AND o.cli < u.cli) THEN id || '@' || cli ELSE id END,
  record, source, agent, session, model, input, output, cached_read, cached_write, reasoning, cost, currency, run, handoff, task, team, wake, thread, at, source IN ('acp', 'transcript') FROM usages AS u;
DROP TABLE usages;
ALTER TABLE usages_next RENAME TO usages;
CREATE INDEX usages_at ON usages (at);
CREATE INDEX usages_agent ON usages (agent, at);
CREATE INDEX usages_record ON usages (record);
CREATE INDEX usages_handoff ON usages (handoff) WHERE handoff IS NOT NULL;
CREATE INDEX usages_task ON usages (task) WHERE task IS NOT NULL;
CREATE INDEX usages_team ON usages (team, at) WHERE team IS NOT NULL;
CREATE INDEX usages_run ON usages (run) WHERE run IS NOT NULL;
CREATE INDEX usages_id ON usages (id);

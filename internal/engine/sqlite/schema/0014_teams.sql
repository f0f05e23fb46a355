-- column handoff_meta.team
-- column handoff_meta.team_approved_by

-- Teams, their members and tasks. The columns are those by which they are found; the
-- noun itself is body_json.
CREATE TABLE IF NOT EXISTS teams (
  id        TEXT PRIMARY KEY,
  lifecycle TEXT NOT NULL CHECK (lifecycle IN ('forming','active','incident','stabilizing','closed','archived')),
  revision  INTEGER NOT NULL,
  body_json TEXT NOT NULL
) WITHOUT ROWID;
CREATE TRIGGER IF NOT EXISTS teams_fixed BEFORE UPDATE ON teams WHEN OLD.lifecycle = 'archived' OR NEW.id <> OLD.id
BEGIN
  SELECT RAISE(ABORT, 'an archived team does not change');
END;

-- The ledger of roles: a row is the time in which an agent has one role in a team.
CREATE TABLE IF NOT EXISTS team_members (
  team   TEXT NOT NULL REFERENCES teams(id),
  n      INTEGER NOT NULL,
  agent  TEXT NOT NULL REFERENCES agents(id),
  role   TEXT NOT NULL CHECK (role IN ('coordinator','researcher','executor','reviewer','integrator')),
  since  TEXT NOT NULL,
  by     TEXT NOT NULL,
  reason TEXT NOT NULL,
  until  TEXT,
  ending TEXT,
  PRIMARY KEY (team, n)
) WITHOUT ROWID;
CREATE UNIQUE INDEX IF NOT EXISTS team_members_now ON team_members(team, agent) WHERE until IS NULL;
CREATE INDEX IF NOT EXISTS team_members_agent ON team_members(agent, team);
CREATE TRIGGER IF NOT EXISTS team_members_fixed BEFORE UPDATE ON team_members
WHEN OLD.until IS NOT NULL OR NEW.agent <> OLD.agent OR NEW.role <> OLD.role OR NEW.since <> OLD.since
BEGIN
  SELECT RAISE(ABORT, 'a line of the ledger of roles does not change');
END;
CREATE TRIGGER IF NOT EXISTS team_members_no_delete BEFORE DELETE ON team_members
BEGIN
  SELECT RAISE(ABORT, 'the ledger of roles is kept for ever');
END;

CREATE TABLE IF NOT EXISTS team_tasks (
  n         INTEGER PRIMARY KEY,           -- T-n
  team      TEXT NOT NULL REFERENCES teams(id),
  state     TEXT NOT NULL CHECK (state IN ('backlog','assigned','in_progress','in_review','rework','blocked','done','dropped')),
  owner     TEXT,
  revision  INTEGER NOT NULL,
  body_json TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS team_tasks_team ON team_tasks(team, n);
CREATE INDEX IF NOT EXISTS team_tasks_state ON team_tasks(team, state, n);
CREATE INDEX IF NOT EXISTS team_tasks_owner ON team_tasks(owner, n) WHERE owner IS NOT NULL;
CREATE TRIGGER IF NOT EXISTS team_tasks_fixed BEFORE UPDATE ON team_tasks WHEN OLD.state IN ('done','dropped') OR NEW.n <> OLD.n OR NEW.team <> OLD.team
BEGIN
  SELECT RAISE(ABORT, 'a task that is over does not change');
END;

-- Operations of teams that wait for the operator, or did.
CREATE TABLE IF NOT EXISTS team_held (
  id        TEXT PRIMARY KEY,
  team      TEXT NOT NULL REFERENCES teams(id),
  verdict   TEXT CHECK (verdict IN ('approved','denied')),
  body_json TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS team_held_waiting ON team_held(id) WHERE verdict IS NULL;

CREATE INDEX IF NOT EXISTS message_teams ON messages(team, created_at) WHERE team IS NOT NULL;

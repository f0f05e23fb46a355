-- Teams, their members and tasks.
CREATE TABLE teams (
  id        TEXT PRIMARY KEY,
  lifecycle TEXT NOT NULL CHECK (lifecycle IN ('forming','active','incident','stabilizing','closed','archived')),
  revision  BIGINT NOT NULL,
  body_json TEXT NOT NULL
);
CREATE TRIGGER teams_fixed BEFORE UPDATE ON teams FOR EACH ROW WHEN (OLD.lifecycle = 'archived' OR NEW.id <> OLD.id)
  EXECUTE FUNCTION refuse('an archived team does not change');

-- The ledger of roles: a row is the time in which an agent has one role in a team.
CREATE TABLE team_members (
  team   TEXT NOT NULL REFERENCES teams(id),
  n      BIGINT NOT NULL,
  agent  TEXT NOT NULL REFERENCES agents(id),
  role   TEXT NOT NULL CHECK (role IN ('coordinator','researcher','executor','reviewer','integrator')),
  since  TEXT NOT NULL,
  by     TEXT NOT NULL,
  reason TEXT NOT NULL,
  until  TEXT,
  ending TEXT,
  PRIMARY KEY (team, n)
);
CREATE UNIQUE INDEX team_members_now ON team_members(team, agent) WHERE until IS NULL;
CREATE INDEX team_members_agent ON team_members(agent, team);
CREATE TRIGGER team_members_fixed BEFORE UPDATE ON team_members FOR EACH ROW
  WHEN (OLD.until IS NOT NULL OR NEW.agent <> OLD.agent OR NEW.role <> OLD.role OR NEW.since <> OLD.since)
  EXECUTE FUNCTION refuse('a line of the ledger of roles does not change');
CREATE TRIGGER team_members_no_delete BEFORE DELETE ON team_members FOR EACH ROW EXECUTE FUNCTION refuse('the ledger of roles is kept for ever');

CREATE TABLE team_tasks (
  n         BIGINT PRIMARY KEY,            -- T-n
  team      TEXT NOT NULL REFERENCES teams(id),
  state     TEXT NOT NULL CHECK (state IN ('backlog','assigned','in_progress','in_review','rework','blocked','done','dropped')),
  owner     TEXT,
  revision  BIGINT NOT NULL,
  body_json TEXT NOT NULL
);
CREATE INDEX team_tasks_team ON team_tasks(team, n);
CREATE INDEX team_tasks_state ON team_tasks(team, state, n);
CREATE INDEX team_tasks_owner ON team_tasks(owner, n) WHERE owner IS NOT NULL;
CREATE TRIGGER team_tasks_fixed BEFORE UPDATE ON team_tasks FOR EACH ROW
  WHEN (OLD.state IN ('done','dropped') OR NEW.n <> OLD.n OR NEW.team <> OLD.team)
  EXECUTE FUNCTION refuse('a task that is over does not change');

-- Operations of teams that wait for the operator, or did.
CREATE TABLE team_held (
  id        TEXT PRIMARY KEY,
  team      TEXT NOT NULL REFERENCES teams(id),
  verdict   TEXT CHECK (verdict IN ('approved','denied')),
  body_json TEXT NOT NULL
);
CREATE INDEX team_held_waiting ON team_held(id) WHERE verdict IS NULL;

ALTER TABLE handoff_meta ADD COLUMN team TEXT, ADD COLUMN team_approved_by TEXT;
CREATE INDEX message_teams ON messages(team, created_at) WHERE team IS NOT NULL;

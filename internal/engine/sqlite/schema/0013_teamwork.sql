-- Negotiations and disagreements: the state that the hub keeps of a thread. The
-- columns are those by which they are found; the noun itself is body_json.
CREATE TABLE IF NOT EXISTS deliberations (
  id           TEXT PRIMARY KEY,           -- the thread
  kind         TEXT NOT NULL CHECK (kind IN ('negotiation','disagreement')),
  state        TEXT NOT NULL
               CHECK (state IN ('offered','countered','conditional','accepted','declined','expired','open','challenged','conceded','decided','lapsed','escalated')),
  team         TEXT,
  parties_json TEXT NOT NULL,              -- the agents that take part or decide
  due_at       TEXT,
  untold       INTEGER NOT NULL,
  revision     INTEGER NOT NULL,
  body_json    TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS deliberations_due ON deliberations(due_at) WHERE due_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS deliberations_untold ON deliberations(id) WHERE untold = 1;
CREATE INDEX IF NOT EXISTS deliberations_kind ON deliberations(kind, id);

CREATE TRIGGER IF NOT EXISTS deliberations_fixed BEFORE UPDATE ON deliberations
WHEN OLD.state IN ('accepted','declined','expired','conceded','decided','lapsed') OR NEW.id <> OLD.id OR NEW.kind <> OLD.kind
BEGIN
  SELECT RAISE(ABORT, 'a deliberation that is over does not change');
END;

-- Decisions, of deliberations and of teams. They are kept for ever.
CREATE TABLE IF NOT EXISTS decisions (
  id        TEXT PRIMARY KEY,
  team      TEXT,
  body_json TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS decisions_team ON decisions(team, id) WHERE team IS NOT NULL;
CREATE TRIGGER IF NOT EXISTS decisions_no_delete BEFORE DELETE ON decisions
BEGIN
  SELECT RAISE(ABORT, 'decisions are kept for ever');
END;

-- Negotiations and disagreements: the state that the hub keeps of a thread.
CREATE TABLE deliberations (
  id           TEXT PRIMARY KEY,           -- the thread
  kind         TEXT NOT NULL CHECK (kind IN ('negotiation','disagreement')),
  state        TEXT NOT NULL
               CHECK (state IN ('offered','countered','conditional','accepted','declined','expired','open','challenged','conceded','decided','lapsed','escalated')),
  team         TEXT,
  parties_json TEXT NOT NULL,              -- the agents that take part or decide
  due_at       TEXT,
  untold       BIGINT NOT NULL,
  revision     BIGINT NOT NULL,
  body_json    TEXT NOT NULL
);
CREATE INDEX deliberations_due ON deliberations(due_at) WHERE due_at IS NOT NULL;
CREATE INDEX deliberations_untold ON deliberations(id) WHERE untold = 1;
CREATE INDEX deliberations_kind ON deliberations(kind, id);
CREATE TRIGGER deliberations_fixed BEFORE UPDATE ON deliberations FOR EACH ROW
  WHEN (OLD.state IN ('accepted','declined','expired','conceded','decided','lapsed') OR NEW.id <> OLD.id OR NEW.kind <> OLD.kind)
  EXECUTE FUNCTION refuse('a deliberation that is over does not change');

-- Decisions, of deliberations and of teams. They are kept for ever.
CREATE TABLE decisions (
  id        TEXT PRIMARY KEY,
  team      TEXT,
  body_json TEXT NOT NULL
);
CREATE INDEX decisions_team ON decisions(team, id) WHERE team IS NOT NULL;
CREATE TRIGGER decisions_no_delete BEFORE DELETE ON decisions FOR EACH ROW EXECUTE FUNCTION refuse('decisions are kept for ever');

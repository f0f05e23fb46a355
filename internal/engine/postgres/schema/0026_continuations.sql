-- Tasks whose agent cannot go on, on their way to the next owner.
CREATE TABLE continuations (
  n            BIGINT PRIMARY KEY,           -- kn
  handoff      TEXT NOT NULL,
  next_handoff TEXT,
  task         TEXT NOT NULL,
  of_agent     TEXT NOT NULL,
  state        TEXT NOT NULL CHECK (state IN ('waiting','offered','taken','refused')),
  revision     BIGINT NOT NULL,
  body_json    TEXT NOT NULL
);
CREATE INDEX continuations_handoff ON continuations(handoff, n);
CREATE INDEX continuations_next ON continuations(next_handoff) WHERE next_handoff IS NOT NULL;
CREATE INDEX continuations_task ON continuations(task, n);
CREATE INDEX continuations_agent ON continuations(of_agent, n);
CREATE TRIGGER continuations_fixed BEFORE UPDATE ON continuations FOR EACH ROW
  WHEN (OLD.state = 'taken' OR NEW.n <> OLD.n OR NEW.handoff <> OLD.handoff OR NEW.of_agent <> OLD.of_agent)
  EXECUTE FUNCTION refuse('a continuation that was taken does not change');

-- Uncommitted work that the hub keeps in its own copies of repositories.
CREATE TABLE rescues (
  n         BIGINT PRIMARY KEY,              -- sn
  agent     TEXT NOT NULL,
  body_json TEXT NOT NULL
);

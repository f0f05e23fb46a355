-- How changes land in branches of repositories.
CREATE TABLE landing_policies (
  id        TEXT PRIMARY KEY,
  body_json TEXT NOT NULL
);

-- Changes on their way into a branch.
CREATE TABLE landings (
  n         BIGINT PRIMARY KEY,           -- ln
  queue     TEXT NOT NULL,
  state     TEXT NOT NULL CHECK (state IN ('queued','trying','waiting','landed','returned','cancelled')),
  owner     TEXT NOT NULL,
  subject   TEXT,                          -- a handoff or a task
  undoes    TEXT,
  revision  BIGINT NOT NULL,
  body_json TEXT NOT NULL
);
CREATE INDEX landings_queue ON landings(queue, state, n);
CREATE INDEX landings_state ON landings(state, n);
CREATE INDEX landings_subject ON landings(subject, n) WHERE subject IS NOT NULL;
CREATE TRIGGER landings_fixed BEFORE UPDATE ON landings FOR EACH ROW
  WHEN (OLD.state IN ('landed','cancelled') OR NEW.n <> OLD.n OR NEW.queue <> OLD.queue)
  EXECUTE FUNCTION refuse('a landing that is over does not change');

-- Questions whether a commit is good enough to land, and their answers.
CREATE TABLE reviews (
  n         BIGINT PRIMARY KEY,           -- vn
  handoff   TEXT,
  entry     TEXT,
  state     TEXT NOT NULL CHECK (state IN ('waiting','approved','changes','replaced')),
  revision  BIGINT NOT NULL,
  body_json TEXT NOT NULL
);
CREATE INDEX reviews_state ON reviews(state, n);
CREATE INDEX reviews_handoff ON reviews(handoff, n) WHERE handoff IS NOT NULL;
CREATE INDEX reviews_entry ON reviews(entry, n) WHERE entry IS NOT NULL;
CREATE TRIGGER reviews_fixed BEFORE UPDATE ON reviews FOR EACH ROW
  WHEN (OLD.state = 'replaced' OR NEW.n <> OLD.n)
  EXECUTE FUNCTION refuse('a review that is over does not change');

-- A closed handoff becomes active again, and a task that is done goes to rework, if a landing
-- queue returns the work.
DROP TRIGGER handoffs_moves ON handoffs;
CREATE TRIGGER handoffs_moves BEFORE UPDATE OF status ON handoffs FOR EACH ROW
  WHEN (OLD.status <> NEW.status AND (OLD.status || '>' || NEW.status) NOT IN (
    'draft>proposed', 'proposed>validating', 'validating>accepted', 'validating>rejected', 'accepted>activated',
    'rejected>closed', 'activated>completed', 'completed>closed', 'closed>activated'))
  EXECUTE FUNCTION refuse('no such move of a handoff');
DROP TRIGGER tasks_fixed ON tasks;
CREATE TRIGGER tasks_fixed BEFORE UPDATE ON tasks FOR EACH ROW
  WHEN ((OLD.state IN ('done','dropped') AND (OLD.team IS NULL OR (OLD.state || '>' || NEW.state) <> 'done>rework')) OR NEW.n <> OLD.n OR NEW.team IS DISTINCT FROM OLD.team)
  EXECUTE FUNCTION refuse('a task that is over does not change');

-- How changes land in branches of repositories.
CREATE TABLE IF NOT EXISTS landing_policies (
  id        TEXT PRIMARY KEY,
  body_json TEXT NOT NULL
) WITHOUT ROWID;

-- Changes on their way into a branch.
CREATE TABLE IF NOT EXISTS landings (
  n         INTEGER PRIMARY KEY,           -- ln
  queue     TEXT NOT NULL,
  state     TEXT NOT NULL CHECK (state IN ('queued','trying','waiting','landed','returned','cancelled')),
  owner     TEXT NOT NULL,
  subject   TEXT,                          -- a handoff or a task
  undoes    TEXT,
  revision  INTEGER NOT NULL,
  body_json TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS landings_queue ON landings(queue, state, n);
CREATE INDEX IF NOT EXISTS landings_state ON landings(state, n);
CREATE INDEX IF NOT EXISTS landings_subject ON landings(subject, n) WHERE subject IS NOT NULL;
CREATE TRIGGER IF NOT EXISTS landings_fixed BEFORE UPDATE ON landings WHEN OLD.state IN ('landed','cancelled') OR NEW.n <> OLD.n OR NEW.queue <> OLD.queue
BEGIN
  SELECT RAISE(ABORT, 'a landing that is over does not change');
END;

-- Questions whether a commit is good enough to land, and their answers.
CREATE TABLE IF NOT EXISTS reviews (
  n         INTEGER PRIMARY KEY,           -- vn
  handoff   TEXT,
  entry     TEXT,
  state     TEXT NOT NULL CHECK (state IN ('waiting','approved','changes','replaced')),
  revision  INTEGER NOT NULL,
  body_json TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS reviews_state ON reviews(state, n);
CREATE INDEX IF NOT EXISTS reviews_handoff ON reviews(handoff, n) WHERE handoff IS NOT NULL;
CREATE INDEX IF NOT EXISTS reviews_entry ON reviews(entry, n) WHERE entry IS NOT NULL;
CREATE TRIGGER IF NOT EXISTS reviews_fixed BEFORE UPDATE ON reviews WHEN OLD.state = 'replaced' OR NEW.n <> OLD.n
BEGIN
  SELECT RAISE(ABORT, 'a review that is over does not change');
END;

-- A closed handoff becomes active again, and a task that is done goes to rework, if a landing
-- queue returns the work.
DROP TRIGGER IF EXISTS handoffs_moves;
CREATE TRIGGER handoffs_moves BEFORE UPDATE OF status ON handoffs
WHEN OLD.status <> NEW.status AND (OLD.status || '>' || NEW.status) NOT IN (
  'draft>proposed', 'proposed>validating', 'validating>accepted', 'validating>rejected', 'accepted>activated',
  'rejected>closed', 'activated>completed', 'completed>closed', 'closed>activated')
BEGIN
  SELECT RAISE(ABORT, 'no such move of a handoff');
END;
DROP TRIGGER IF EXISTS tasks_fixed;
CREATE TRIGGER tasks_fixed BEFORE UPDATE ON tasks
WHEN (OLD.state IN ('done','dropped') AND (OLD.team IS NULL OR (OLD.state || '>' || NEW.state) <> 'done>rework')) OR NEW.n <> OLD.n OR NEW.team IS NOT OLD.team
BEGIN
  SELECT RAISE(ABORT, 'a task that is over does not change');
END;

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
  handoff   TEXT,
  undoes    TEXT,
  revision  BIGINT NOT NULL,
  body_json TEXT NOT NULL
);
CREATE INDEX landings_queue ON landings(queue, state, n);
CREATE INDEX landings_state ON landings(state, n);
CREATE INDEX landings_handoff ON landings(handoff, n) WHERE handoff IS NOT NULL;
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

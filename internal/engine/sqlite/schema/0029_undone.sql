-- A change that landed can be taken back.
DROP TABLE IF EXISTS landings_next;
CREATE TABLE landings_next (
  n         INTEGER PRIMARY KEY,           -- ln
  queue     TEXT NOT NULL,
  state     TEXT NOT NULL CHECK (state IN ('queued','trying','waiting','landed','returned','cancelled','undone')),
  owner     TEXT NOT NULL,
  subject   TEXT,                          -- a handoff or a task
  undoes    TEXT,
  revision  INTEGER NOT NULL,
  body_json TEXT NOT NULL
);
INSERT INTO landings_next (n, queue, state, owner, subject, undoes, revision, body_json)
  SELECT n, queue, state, owner, subject, undoes, revision, body_json FROM landings;
DROP TABLE landings;
ALTER TABLE landings_next RENAME TO landings;
CREATE INDEX landings_queue ON landings(queue, state, n);
CREATE INDEX landings_state ON landings(state, n);
CREATE INDEX landings_subject ON landings(subject, n) WHERE subject IS NOT NULL;
CREATE TRIGGER landings_fixed BEFORE UPDATE ON landings
WHEN OLD.state = 'cancelled' OR (OLD.state = 'landed' AND NEW.state <> 'undone') OR (OLD.state = 'undone' AND NEW.state <> 'landed')
  OR NEW.n <> OLD.n OR NEW.queue <> OLD.queue
BEGIN
  SELECT RAISE(ABORT, 'a landing that is over does not change');
END;

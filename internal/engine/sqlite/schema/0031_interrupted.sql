-- One more word about a run of a check: interrupted.
DROP TABLE IF EXISTS check_results_31;
CREATE TABLE check_results_31 (
  n          INTEGER PRIMARY KEY,           -- cN
  machine    TEXT NOT NULL,
  repository TEXT NOT NULL,
  name       TEXT NOT NULL,
  tree       TEXT NOT NULL,
  digest     TEXT NOT NULL,
  commit_id  TEXT NOT NULL,
  handoff    TEXT,
  state      TEXT NOT NULL CHECK (state IN ('queued','running','passed','failed','timed_out','not_started','cancelled','interrupted')),
  body_json  TEXT NOT NULL
);
INSERT INTO check_results_31 (n, machine, repository, name, tree, digest, commit_id, handoff, state, body_json)
SELECT n, machine, repository, name, tree, digest, commit_id, handoff, state, body_json FROM check_results;
DROP TABLE check_results;
ALTER TABLE check_results_31 RENAME TO check_results;
CREATE INDEX check_results_tree ON check_results (tree, digest, n);
CREATE INDEX check_results_repository ON check_results (repository, n);
CREATE INDEX check_results_handoff ON check_results (handoff, n) WHERE handoff IS NOT NULL;
CREATE INDEX check_results_open ON check_results (state, n) WHERE state IN ('queued','running');

-- The commands that the operator allowed for repositories.
CREATE TABLE IF NOT EXISTS repository_checks (
  machine    TEXT NOT NULL,
  repository TEXT NOT NULL,
  name       TEXT NOT NULL,
  body_json  TEXT NOT NULL,
  PRIMARY KEY (machine, repository, name)
) WITHOUT ROWID;

-- The operator's decisions about the checks of a repository as a whole.
CREATE TABLE IF NOT EXISTS check_policies (
  machine    TEXT NOT NULL,
  repository TEXT NOT NULL,
  body_json  TEXT NOT NULL,
  PRIMARY KEY (machine, repository)
) WITHOUT ROWID;

-- The runs of checks on commits.
CREATE TABLE IF NOT EXISTS check_results (
  n          INTEGER PRIMARY KEY,           -- cN
  machine    TEXT NOT NULL,
  repository TEXT NOT NULL,
  name       TEXT NOT NULL,
  tree       TEXT NOT NULL,
  digest     TEXT NOT NULL,
  commit_id  TEXT NOT NULL,
  handoff    TEXT,
  state      TEXT NOT NULL CHECK (state IN ('queued','running','passed','failed','timed_out','not_started','cancelled')),
  body_json  TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS check_results_tree ON check_results (tree, digest, n);
CREATE INDEX IF NOT EXISTS check_results_repository ON check_results (repository, n);
CREATE INDEX IF NOT EXISTS check_results_handoff ON check_results (handoff, n) WHERE handoff IS NOT NULL;
CREATE INDEX IF NOT EXISTS check_results_open ON check_results (state, n) WHERE state IN ('queued','running');

-- The ends of their outputs.
CREATE TABLE IF NOT EXISTS check_tails (
  n    INTEGER PRIMARY KEY,
  tail TEXT NOT NULL
);

-- How far the commits of handoffs and tasks have come.
CREATE TABLE IF NOT EXISTS progress (
  subject   TEXT NOT NULL PRIMARY KEY,
  checks    TEXT NOT NULL CHECK (checks IN ('none','running','passed','failed')),
  review    TEXT NOT NULL CHECK (review IN ('none','waiting','approved','changes')),
  landing   TEXT NOT NULL CHECK (landing IN ('none','queued','trying','landed','returned')),
  revision  INTEGER NOT NULL,
  body_json TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS progress_checking ON progress (subject) WHERE checks = 'running';

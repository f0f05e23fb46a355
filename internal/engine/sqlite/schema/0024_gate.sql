-- column contracts.terms_json
-- column projects.breaking

-- The verdicts on two contents of a contract, with the version of the rules.
CREATE TABLE IF NOT EXISTS contract_verdicts (
  project   TEXT NOT NULL,
  contract  TEXT NOT NULL,
  pair      TEXT NOT NULL,
  rules     INTEGER NOT NULL,
  body_json TEXT NOT NULL,
  PRIMARY KEY (project, contract, pair)
) WITHOUT ROWID;

-- Results of tests of repositories against versions of contracts.
CREATE TABLE IF NOT EXISTS contract_results (
  n         INTEGER PRIMARY KEY,
  project   TEXT NOT NULL,
  contract  TEXT NOT NULL,
  repo      TEXT NOT NULL,
  version   INTEGER NOT NULL,
  commit_id TEXT NOT NULL,
  tree      TEXT,
  kind      TEXT NOT NULL CHECK (kind IN ('said','run')),
  body_json TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS contract_results_project ON contract_results (project, n);
CREATE INDEX IF NOT EXISTS contract_results_contract ON contract_results (project, contract, repo, n);
CREATE INDEX IF NOT EXISTS contract_results_commit ON contract_results (project, repo, commit_id, n);
CREATE INDEX IF NOT EXISTS contract_results_tree ON contract_results (project, repo, tree, n) WHERE tree IS NOT NULL;

-- The commits that run in environments.
CREATE TABLE IF NOT EXISTS deployments (
  n         INTEGER PRIMARY KEY,
  project   TEXT NOT NULL,
  repo      TEXT NOT NULL,
  env       TEXT NOT NULL,
  body_json TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS deployments_project ON deployments (project, n);
CREATE INDEX IF NOT EXISTS deployments_env ON deployments (project, env, repo, n);
CREATE INDEX IF NOT EXISTS deployments_repo ON deployments (project, repo, n);

CREATE INDEX IF NOT EXISTS contracts_name ON contracts (project, name);

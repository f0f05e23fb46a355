-- The terms of contracts that other implementations do not have, and the policy of projects
-- about updates that are not compatible.
ALTER TABLE contracts ADD COLUMN terms_json TEXT;
ALTER TABLE projects ADD COLUMN breaking TEXT;

-- The verdicts on two contents of a contract, with the version of the rules.
CREATE TABLE contract_verdicts (
  project   TEXT NOT NULL,
  contract  TEXT NOT NULL,
  pair      TEXT NOT NULL,
  rules     BIGINT NOT NULL,
  body_json TEXT NOT NULL,
  PRIMARY KEY (project, contract, pair)
);

-- Results of tests of repositories against versions of contracts.
CREATE TABLE contract_results (
  n         BIGINT PRIMARY KEY,
  project   TEXT NOT NULL,
  contract  TEXT NOT NULL,
  repo      TEXT NOT NULL,
  version   BIGINT NOT NULL,
  commit_id TEXT NOT NULL,
  tree      TEXT,
  kind      TEXT NOT NULL CHECK (kind IN ('said','run')),
  body_json TEXT NOT NULL
);
CREATE INDEX contract_results_project ON contract_results (project, n);
CREATE INDEX contract_results_contract ON contract_results (project, contract, repo, n);
CREATE INDEX contract_results_commit ON contract_results (project, repo, commit_id, n);
CREATE INDEX contract_results_tree ON contract_results (project, repo, tree, n) WHERE tree IS NOT NULL;

-- The commits that run in environments.
CREATE TABLE deployments (
  n         BIGINT PRIMARY KEY,
  project   TEXT NOT NULL,
  repo      TEXT NOT NULL,
  env       TEXT NOT NULL,
  body_json TEXT NOT NULL
);
CREATE INDEX deployments_project ON deployments (project, n);
CREATE INDEX deployments_env ON deployments (project, env, repo, n);
CREATE INDEX deployments_repo ON deployments (project, repo, n);

CREATE INDEX contracts_name ON contracts (project, name);

-- Projects that several repositories build together. Times are microseconds
-- since 1970. The counts follow what the other tables hold.
CREATE TABLE IF NOT EXISTS projects (
  id          TEXT PRIMARY KEY,
  name        TEXT NOT NULL,
  objective   TEXT NOT NULL,
  status      TEXT NOT NULL CHECK (status IN ('planning','implementing','integrating','complete')),
  policy      TEXT NOT NULL CHECK (policy IN ('','any','counterparty','all')),
  repos_json  TEXT NOT NULL,
  created_at  INTEGER NOT NULL,
  updated_at  INTEGER NOT NULL,
  contracts   INTEGER NOT NULL DEFAULT 0,
  started     INTEGER NOT NULL DEFAULT 0,
  implemented INTEGER NOT NULL DEFAULT 0,
  verified    INTEGER NOT NULL DEFAULT 0,
  packets     INTEGER NOT NULL DEFAULT 0,
  bytes       INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS contracts (
  project              TEXT NOT NULL,
  id                   TEXT NOT NULL,
  type                 TEXT NOT NULL
                       CHECK (type IN ('api_endpoint','event_schema','data_model','config_spec','rpc_interface','custom')),
  name                 TEXT NOT NULL,
  version              INTEGER NOT NULL,
  status               TEXT NOT NULL CHECK (status IN ('proposed','negotiating','agreed','implemented','verified')),
  proposed_by          TEXT NOT NULL,
  created_at           INTEGER NOT NULL,
  updated_at           INTEGER NOT NULL,
  reopened_at          INTEGER,
  conflicted           INTEGER NOT NULL DEFAULT 0,
  implementations_json TEXT,
  agreements_json      TEXT,
  content_json         TEXT NOT NULL,
  PRIMARY KEY (project, id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS contracts_conflicted ON contracts(project, id) WHERE conflicted = 1;

-- Contents that contracts had: history, or lost against another one of their
-- version; superseded ones lost after a later version had replaced them.
CREATE TABLE IF NOT EXISTS contract_versions (
  project      TEXT NOT NULL,
  contract     TEXT NOT NULL,
  version      INTEGER NOT NULL,
  sha256       TEXT NOT NULL,              -- of the content, in canonical form
  standing     TEXT NOT NULL CHECK (standing IN ('history','superseded','lost')),
  proposed_by  TEXT NOT NULL,
  at           INTEGER NOT NULL,
  change_notes TEXT,
  content_json TEXT NOT NULL,
  PRIMARY KEY (project, contract, version, sha256)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS packets (
  project      TEXT NOT NULL,
  id           TEXT NOT NULL,
  from_repo    TEXT NOT NULL,
  from_agent   TEXT NOT NULL,
  at           INTEGER NOT NULL,
  type         TEXT NOT NULL
               CHECK (type IN ('code_snippet','type_definition','api_spec','error_catalog','env_config','test_case',
                               'dependency_info','implementation_status','question','decision')),
  reply_to     TEXT,
  related_json TEXT,
  content_json TEXT NOT NULL,
  PRIMARY KEY (project, id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS packets_at ON packets(project, at, id);
CREATE INDEX IF NOT EXISTS packets_reply ON packets(project, reply_to, at, id) WHERE reply_to IS NOT NULL;

-- What is not as it was, in order. The newest row is never removed, so that no
-- number is given twice.
CREATE TABLE IF NOT EXISTS changes (
  seq     INTEGER PRIMARY KEY,
  project TEXT NOT NULL,
  kind    TEXT NOT NULL CHECK (kind IN ('project','repo','contract','context')),
  object  TEXT NOT NULL,
  version INTEGER NOT NULL,
  at      TEXT NOT NULL,
  origin  TEXT                             -- the peer that it came from
);

CREATE TABLE IF NOT EXISTS file_requests (
  project      TEXT NOT NULL,
  id           TEXT NOT NULL,
  from_repo    TEXT NOT NULL,
  from_agent   TEXT NOT NULL,
  description  TEXT NOT NULL,
  format       TEXT,
  at           INTEGER NOT NULL,
  fulfilled_at INTEGER,
  file         TEXT,
  PRIMARY KEY (project, id)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS peers (
  aid      TEXT PRIMARY KEY,
  endpoint TEXT NOT NULL,
  repo     TEXT,
  state    TEXT NOT NULL CHECK (state IN ('pending','approved','removed')),
  trust    TEXT NOT NULL CHECK (trust IN ('verified','known','unknown')),
  legacy   TEXT,                           -- the address that it may come from without a key
  native   INTEGER NOT NULL,
  key_hash TEXT,                           -- of what it sends
  sealed   TEXT,                           -- what is sent to it, encrypted
  health   TEXT NOT NULL CHECK (health IN ('','up','down')),
  fails    INTEGER NOT NULL,
  fault    TEXT,
  seen     INTEGER,
  added_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE UNIQUE INDEX IF NOT EXISTS peers_key ON peers(key_hash) WHERE key_hash IS NOT NULL;

-- How far each peer has come in the log of changes.
CREATE TABLE IF NOT EXISTS outboxes (
  peer     TEXT PRIMARY KEY REFERENCES peers(aid),
  sent     INTEGER NOT NULL,
  catch_up INTEGER NOT NULL,
  tries    INTEGER NOT NULL,
  next_try INTEGER,
  fault    TEXT
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS dead_letters (
  id          INTEGER PRIMARY KEY,
  peer        TEXT NOT NULL REFERENCES peers(aid),
  change_json TEXT NOT NULL,
  fault       TEXT NOT NULL,
  at          INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS dead_letters_peer ON dead_letters(peer, id);

CREATE TABLE IF NOT EXISTS invites (
  id               TEXT PRIMARY KEY,
  hash             TEXT NOT NULL UNIQUE,   -- of the text, which is nowhere
  hint             TEXT NOT NULL,
  project          TEXT NOT NULL,
  repo             TEXT NOT NULL,
  permissions_json TEXT NOT NULL,
  created_by       TEXT NOT NULL,
  created_at       INTEGER NOT NULL,
  expires_at       INTEGER NOT NULL,
  redeemed_at      INTEGER,
  redeemed_by      TEXT,
  revoked_at       INTEGER
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS invites_project ON invites(project, id);

-- The tables after all migrations, for a new store.
-- Written by go test ./internal/engine/sqlite -run TestWholeSchema -update-schema; do not edit.

CREATE TABLE messages (
  id                TEXT PRIMARY KEY,
  protocol          TEXT NOT NULL DEFAULT 'acp',
  version           TEXT NOT NULL DEFAULT '1.0.0',
  from_agent        TEXT NOT NULL,
  to_agents_json    TEXT NOT NULL,           -- normalized recipient array
  team              TEXT,
  reply_to          TEXT,
  thread_id         TEXT,
  type              TEXT NOT NULL,
  topic             TEXT,
  priority          TEXT NOT NULL DEFAULT 'normal',
  status            TEXT NOT NULL DEFAULT 'pending',
  payload_json      TEXT NOT NULL,
  policy_json       TEXT NOT NULL,
  context_json      TEXT,
  external_refs_json TEXT,
  sequence          INTEGER,
  expires_at        TEXT,
  payload_bytes     INTEGER NOT NULL,
  created_at        TEXT NOT NULL DEFAULT (datetime('now','utc')),
  updated_at        TEXT
);

CREATE INDEX idx_messages_from ON messages(from_agent, created_at DESC);

CREATE INDEX idx_messages_thread ON messages(thread_id, created_at);

CREATE INDEX idx_messages_type ON messages(type, created_at DESC);

CREATE INDEX idx_messages_status ON messages(status, created_at DESC);

CREATE TABLE delivery_log (
  id            INTEGER PRIMARY KEY AUTOINCREMENT,
  message_id    TEXT NOT NULL,
  recipient     TEXT NOT NULL,
  channel       TEXT NOT NULL,               -- session|inbox|channel|wake
  status        TEXT NOT NULL DEFAULT 'pending',
  delivered_at  TEXT,
  read_at       TEXT,
  error         TEXT,
  FOREIGN KEY (message_id) REFERENCES messages(id) ON DELETE CASCADE
);

CREATE TABLE handoffs (
  id                 TEXT PRIMARY KEY,
  thread_id          TEXT NOT NULL,
  task_id            TEXT NOT NULL,
  from_agent         TEXT NOT NULL,
  to_agent           TEXT NOT NULL,
  title              TEXT NOT NULL,
  reason             TEXT NOT NULL,
  package_json       TEXT NOT NULL,
  status             TEXT NOT NULL DEFAULT 'proposed',
  provenance_json    TEXT NOT NULL,
  verification_json  TEXT NOT NULL,
  initiated_at       TEXT NOT NULL DEFAULT (datetime('now','utc')),
  resolved_at        TEXT,
  resolution_notes   TEXT
);

CREATE UNIQUE INDEX idx_handoffs_task_active
ON handoffs(task_id)
WHERE status IN ('proposed','validating','accepted','activated');

CREATE TABLE acp_meta (
  key   TEXT PRIMARY KEY,
  value TEXT NOT NULL
);

CREATE TABLE message_meta (
  seq        INTEGER PRIMARY KEY,
  message_id TEXT NOT NULL UNIQUE REFERENCES messages(id) ON DELETE CASCADE,
  hop        INTEGER NOT NULL DEFAULT 0,
  cause_id   TEXT,
  extra_json TEXT                            -- members this version does not know
);

CREATE TABLE message_party (
  agent  TEXT NOT NULL,
  seq    INTEGER NOT NULL REFERENCES message_meta(seq) ON DELETE CASCADE,
  state  TEXT NOT NULL
         CHECK (state IN ('sender','held','unread','delivered','read','expired','failed')),
  rank   INTEGER NOT NULL,                   -- 0 is the most pressing priority
  type   TEXT NOT NULL,
  hidden INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (agent, seq)
) WITHOUT ROWID;

CREATE INDEX message_party_inbox ON message_party(agent, state, rank, seq)
WHERE state IN ('unread','delivered');

CREATE INDEX message_party_held ON message_party(seq) WHERE state = 'held';

CREATE INDEX message_party_seq ON message_party(seq);

CREATE TRIGGER message_meta_deleted AFTER DELETE ON message_meta
BEGIN
  DELETE FROM message_text WHERE rowid = OLD.seq;
END;

CREATE INDEX message_expires ON messages(expires_at)
WHERE expires_at IS NOT NULL AND status IN ('pending','delivered');

CREATE INDEX message_broadcasts ON messages(from_agent, created_at)
WHERE to_agents_json = '["*"]';

CREATE INDEX message_sequences ON messages(thread_id, sequence)
WHERE sequence IS NOT NULL;

CREATE INDEX delivery_log_message ON delivery_log(message_id);

CREATE TABLE agents (
  id         TEXT PRIMARY KEY,
  role       TEXT NOT NULL,
  auditor    INTEGER NOT NULL,
  state      TEXT NOT NULL CHECK (state IN ('active','paused')),
  created_at TEXT NOT NULL
, can TEXT) WITHOUT ROWID;

CREATE TABLE agent_keys (
  id         TEXT PRIMARY KEY,
  agent      TEXT NOT NULL REFERENCES agents(id),
  label      TEXT NOT NULL,
  hash       TEXT NOT NULL UNIQUE,           -- of the secret, which is nowhere
  hint       TEXT NOT NULL,
  created_at TEXT NOT NULL,
  expires_at TEXT,
  revoked_at TEXT,
  UNIQUE (agent, label)
);

CREATE TABLE receipts (
  actor      TEXT NOT NULL,
  key        TEXT NOT NULL,
  request    TEXT NOT NULL,
  message_id TEXT NOT NULL,
  at         TEXT NOT NULL,
  PRIMARY KEY (actor, key)
) WITHOUT ROWID;

CREATE INDEX receipts_at ON receipts(at);

CREATE TABLE session_marks (
  agent      TEXT NOT NULL,
  session    TEXT NOT NULL,
  message_id TEXT NOT NULL,
  hop        INTEGER NOT NULL,
  at         TEXT NOT NULL,
  PRIMARY KEY (agent, session)
) WITHOUT ROWID;

CREATE INDEX session_marks_at ON session_marks(at);

CREATE TABLE processed (
  message_id TEXT NOT NULL REFERENCES messages(id) ON DELETE CASCADE,
  recipient  TEXT NOT NULL,
  at         TEXT NOT NULL,
  PRIMARY KEY (message_id, recipient)
) WITHOUT ROWID;

CREATE TABLE journal (
  seq        INTEGER PRIMARY KEY,
  at         TEXT NOT NULL,
  actor      TEXT NOT NULL,
  action     TEXT NOT NULL,
  subject    TEXT NOT NULL,
  outcome    TEXT NOT NULL,
  facts_json TEXT NOT NULL,
  hash       TEXT NOT NULL
);

CREATE INDEX journal_subject ON journal(subject) WHERE subject <> '';

CREATE TRIGGER journal_no_update BEFORE UPDATE ON journal
BEGIN
  SELECT RAISE(ABORT, 'the journal is append-only');
END;

CREATE TABLE cursors (
  consumer TEXT PRIMARY KEY,
  seq      INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TRIGGER messages_status_update BEFORE UPDATE OF status ON messages
WHEN NEW.status NOT IN ('pending','delivered','read','expired','failed')
BEGIN
  SELECT RAISE(ABORT, 'unknown message status');
END;

CREATE TRIGGER delivery_log_status_update BEFORE UPDATE OF status ON delivery_log
WHEN NEW.status NOT IN ('pending','stored','offered','accepted','read','failed','skipped','held')
BEGIN
  SELECT RAISE(ABORT, 'unknown delivery status');
END;

CREATE TABLE handoff_history (
  handoff_id  TEXT NOT NULL REFERENCES handoffs(id),
  n           INTEGER NOT NULL,
  state       TEXT NOT NULL
              CHECK (state IN ('draft','proposed','validating','accepted','rejected','activated','completed','closed')),
  at          TEXT NOT NULL,
  actor       TEXT NOT NULL,
  note        TEXT,
  checks_json TEXT,
  PRIMARY KEY (handoff_id, n)
) WITHOUT ROWID;

CREATE INDEX handoffs_task ON handoffs(task_id, id);

CREATE INDEX handoffs_from ON handoffs(from_agent, id);

CREATE INDEX handoffs_to ON handoffs(to_agent, id);

CREATE INDEX handoffs_open ON handoffs(status, id) WHERE status IN ('accepted','activated');

CREATE TRIGGER handoff_history_no_update BEFORE UPDATE ON handoff_history
BEGIN
  SELECT RAISE(ABORT, 'the history of a handoff is append-only');
END;

CREATE TRIGGER handoff_history_no_delete BEFORE DELETE ON handoff_history
BEGIN
  SELECT RAISE(ABORT, 'the history of a handoff is append-only');
END;

CREATE TRIGGER handoffs_no_delete BEFORE DELETE ON handoffs
BEGIN
  SELECT RAISE(ABORT, 'handoffs are kept for ever');
END;

CREATE TRIGGER handoff_history_no_replace BEFORE INSERT ON handoff_history
WHEN EXISTS (SELECT 1 FROM handoff_history WHERE handoff_id = NEW.handoff_id AND n = NEW.n)
BEGIN
  SELECT RAISE(ABORT, 'the history of a handoff is append-only');
END;

CREATE TRIGGER handoffs_no_replace BEFORE INSERT ON handoffs
WHEN EXISTS (SELECT 1 FROM handoffs WHERE id = NEW.id)
BEGIN
  SELECT RAISE(FAIL, 'handoffs.id is taken: handoffs are kept for ever');
END;

CREATE TRIGGER handoffs_fixed BEFORE UPDATE ON handoffs
WHEN NEW.id <> OLD.id OR NEW.thread_id <> OLD.thread_id OR NEW.task_id <> OLD.task_id OR NEW.from_agent <> OLD.from_agent
  OR NEW.to_agent <> OLD.to_agent OR NEW.title <> OLD.title OR NEW.reason <> OLD.reason OR NEW.package_json <> OLD.package_json
  OR NEW.provenance_json <> OLD.provenance_json OR NEW.verification_json <> OLD.verification_json OR NEW.initiated_at <> OLD.initiated_at
BEGIN
  SELECT RAISE(ABORT, 'what was handed over does not change');
END;

CREATE TABLE journal_archives (
  seq      INTEGER PRIMARY KEY,            -- of the last entry in the archive
  hash     TEXT NOT NULL,                  -- of that entry
  cutoff   TEXT NOT NULL,                  -- messages created before are in it
  file     TEXT NOT NULL,
  sha256   TEXT NOT NULL,                  -- of the file
  entries  INTEGER NOT NULL,
  messages INTEGER NOT NULL,
  at       TEXT NOT NULL
);

CREATE TRIGGER journal_archives_no_update BEFORE UPDATE ON journal_archives
BEGIN
  SELECT RAISE(ABORT, 'the list of archives is append-only');
END;

CREATE TRIGGER journal_archives_no_delete BEFORE DELETE ON journal_archives
BEGIN
  SELECT RAISE(ABORT, 'the list of archives is append-only');
END;

CREATE TRIGGER journal_archives_no_replace BEFORE INSERT ON journal_archives
WHEN EXISTS (SELECT 1 FROM journal_archives WHERE seq = NEW.seq)
BEGIN
  SELECT RAISE(ABORT, 'the list of archives is append-only');
END;

CREATE TRIGGER journal_no_delete BEFORE DELETE ON journal
WHEN OLD.seq > coalesce((SELECT max(seq) FROM journal_archives), 0)
BEGIN
  SELECT RAISE(ABORT, 'the journal is append-only');
END;

CREATE TABLE runs (
  id                  TEXT PRIMARY KEY,
  agent               TEXT NOT NULL REFERENCES agents(id),
  by_agent            TEXT NOT NULL REFERENCES agents(id),
  task                TEXT NOT NULL,
  dir                 TEXT NOT NULL,
  thread_id           TEXT NOT NULL,
  handoff_id          TEXT REFERENCES handoffs(id),
  key_id              TEXT NOT NULL,
  state               TEXT NOT NULL
                      CHECK (state IN ('starting','running','checking','done','failed','interrupted')),
  session_id          TEXT,
  stop_reason         TEXT,
  reason              TEXT,
  report_json         TEXT,
  verdict             TEXT CHECK (verdict IN ('confirmed','contradicted','unverified')),
  contradictions_json TEXT,
  evidence_json       TEXT,
  message_id          TEXT,
  started_at          TEXT NOT NULL,
  expires_at          TEXT NOT NULL,
  ended_at            TEXT
, verdict_by TEXT, claimed_verdict TEXT) WITHOUT ROWID;

CREATE INDEX runs_agent ON runs(agent, id);

CREATE INDEX runs_by ON runs(by_agent, id);

CREATE INDEX runs_handoff ON runs(handoff_id, id) WHERE handoff_id IS NOT NULL;

CREATE INDEX runs_open ON runs(id) WHERE state IN ('starting','running','checking');

CREATE TRIGGER runs_fixed BEFORE UPDATE ON runs
WHEN NEW.id <> OLD.id OR NEW.agent <> OLD.agent OR NEW.by_agent <> OLD.by_agent OR NEW.task <> OLD.task OR NEW.dir <> OLD.dir
  OR NEW.thread_id <> OLD.thread_id OR NEW.handoff_id IS NOT OLD.handoff_id OR NEW.key_id <> OLD.key_id
  OR NEW.started_at <> OLD.started_at OR NEW.expires_at <> OLD.expires_at
BEGIN
  SELECT RAISE(ABORT, 'what a run is about does not change');
END;

CREATE TRIGGER runs_moves BEFORE UPDATE ON runs
WHEN (OLD.state || '>' || NEW.state) NOT IN (
  'starting>running', 'starting>failed', 'starting>interrupted', 'running>checking', 'running>failed', 'running>interrupted',
  'checking>done', 'checking>failed', 'checking>interrupted')
BEGIN
  SELECT RAISE(ABORT, 'no such move of a run');
END;

CREATE TRIGGER runs_no_delete BEFORE DELETE ON runs
BEGIN
  SELECT RAISE(ABORT, 'runs are kept for ever');
END;

CREATE TRIGGER runs_no_replace BEFORE INSERT ON runs
WHEN EXISTS (SELECT 1 FROM runs WHERE id = NEW.id)
BEGIN
  SELECT RAISE(FAIL, 'runs.id is taken: runs are kept for ever');
END;

CREATE TABLE projects (
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
, owner TEXT, stamps_json TEXT, breaking TEXT, environments_json TEXT) WITHOUT ROWID;

CREATE TABLE contracts (
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
  content_json         TEXT NOT NULL, stamps_json TEXT, terms_json TEXT,
  PRIMARY KEY (project, id)
) WITHOUT ROWID;

CREATE INDEX contracts_conflicted ON contracts(project, id) WHERE conflicted = 1;

CREATE TABLE contract_versions (
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

CREATE TABLE packets (
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

CREATE INDEX packets_at ON packets(project, at, id);

CREATE INDEX packets_reply ON packets(project, reply_to, at, id) WHERE reply_to IS NOT NULL;

CREATE TABLE changes (
  seq     INTEGER PRIMARY KEY,
  project TEXT NOT NULL,
  kind    TEXT NOT NULL CHECK (kind IN ('project','repo','contract','context')),
  object  TEXT NOT NULL,
  version INTEGER NOT NULL,
  at      TEXT NOT NULL,
  origin  TEXT                             -- the peer that it came from
);

CREATE TABLE file_requests (
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

CREATE TABLE peers (
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
, grants_json TEXT, acts_for_json TEXT) WITHOUT ROWID;

CREATE UNIQUE INDEX peers_key ON peers(key_hash) WHERE key_hash IS NOT NULL;

CREATE TABLE outboxes (
  peer     TEXT PRIMARY KEY REFERENCES peers(aid),
  sent     INTEGER NOT NULL,
  catch_up INTEGER NOT NULL,
  tries    INTEGER NOT NULL,
  next_try INTEGER,
  fault    TEXT
) WITHOUT ROWID;

CREATE TABLE dead_letters (
  id          INTEGER PRIMARY KEY,
  peer        TEXT NOT NULL REFERENCES peers(aid),
  change_json TEXT NOT NULL,
  fault       TEXT NOT NULL,
  at          INTEGER NOT NULL
);

CREATE INDEX dead_letters_peer ON dead_letters(peer, id);

CREATE TABLE invites (
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
, acts_for_json TEXT) WITHOUT ROWID;

CREATE INDEX invites_project ON invites(project, id);

CREATE TABLE leases (
  name   TEXT PRIMARY KEY,
  number INTEGER NOT NULL
) WITHOUT ROWID;

CREATE VIRTUAL TABLE message_text USING fts5(
  words, content='', contentless_delete=1, detail='none', tokenize="ascii tokenchars '_'"
);

CREATE TABLE roots (
  path     TEXT PRIMARY KEY,               -- absolute
  added_by TEXT NOT NULL,
  added_at TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE short_ids (
  kind TEXT NOT NULL CHECK (kind IN ('m','h')),
  n    INTEGER NOT NULL,
  id   TEXT NOT NULL UNIQUE,
  PRIMARY KEY (kind, n)
) WITHOUT ROWID;

CREATE TRIGGER messages_deleted AFTER DELETE ON messages
BEGIN
  DELETE FROM short_ids WHERE id = OLD.id AND n < (SELECT max(n) FROM short_ids WHERE kind = 'm');
END;

CREATE TABLE artifact_readers (
  sha256 TEXT NOT NULL,
  agent  TEXT NOT NULL,
  PRIMARY KEY (sha256, agent)
) WITHOUT ROWID;

CREATE TABLE tokens (
  id               TEXT PRIMARY KEY,       -- jti
  agent            TEXT NOT NULL,
  project          TEXT NOT NULL,
  permissions_json TEXT NOT NULL,
  created_by       TEXT NOT NULL,
  created_at       TEXT NOT NULL,
  expires_at       TEXT NOT NULL,
  revoked_at       TEXT
, bounds_json TEXT) WITHOUT ROWID;

CREATE INDEX tokens_agent ON tokens(agent);

CREATE INDEX tokens_expiry ON tokens(expires_at);

CREATE INDEX tokens_project ON tokens(project, created_at);

CREATE TABLE contract_sums (
  project TEXT NOT NULL,
  id      TEXT NOT NULL,
  sum     TEXT NOT NULL,
  PRIMARY KEY (project, id)
) WITHOUT ROWID;

CREATE TABLE project_sums (
  project TEXT NOT NULL,
  part    INTEGER NOT NULL,
  count   INTEGER NOT NULL,
  sum     TEXT NOT NULL,
  PRIMARY KEY (project, part)
) WITHOUT ROWID;

CREATE TABLE deliberations (
  id           TEXT PRIMARY KEY,           -- the thread
  kind         TEXT NOT NULL CHECK (kind IN ('negotiation','disagreement')),
  state        TEXT NOT NULL
               CHECK (state IN ('offered','countered','conditional','accepted','declined','expired','open','challenged','conceded','decided','lapsed','escalated')),
  team         TEXT,
  parties_json TEXT NOT NULL,              -- the agents that take part or decide
  due_at       TEXT,
  untold       INTEGER NOT NULL,
  revision     INTEGER NOT NULL,
  body_json    TEXT NOT NULL
) WITHOUT ROWID;

CREATE INDEX deliberations_due ON deliberations(due_at) WHERE due_at IS NOT NULL;

CREATE INDEX deliberations_untold ON deliberations(id) WHERE untold = 1;

CREATE INDEX deliberations_kind ON deliberations(kind, id);

CREATE TRIGGER deliberations_fixed BEFORE UPDATE ON deliberations
WHEN OLD.state IN ('accepted','declined','expired','conceded','decided','lapsed') OR NEW.id <> OLD.id OR NEW.kind <> OLD.kind
BEGIN
  SELECT RAISE(ABORT, 'a deliberation that is over does not change');
END;

CREATE TABLE decisions (
  id        TEXT PRIMARY KEY,
  team      TEXT,
  body_json TEXT NOT NULL
) WITHOUT ROWID;

CREATE INDEX decisions_team ON decisions(team, id) WHERE team IS NOT NULL;

CREATE TRIGGER decisions_no_delete BEFORE DELETE ON decisions
BEGIN
  SELECT RAISE(ABORT, 'decisions are kept for ever');
END;

CREATE TABLE teams (
  id        TEXT PRIMARY KEY,
  lifecycle TEXT NOT NULL CHECK (lifecycle IN ('forming','active','incident','stabilizing','closed','archived')),
  revision  INTEGER NOT NULL,
  body_json TEXT NOT NULL
) WITHOUT ROWID;

CREATE TRIGGER teams_fixed BEFORE UPDATE ON teams WHEN OLD.lifecycle = 'archived' OR NEW.id <> OLD.id
BEGIN
  SELECT RAISE(ABORT, 'an archived team does not change');
END;

CREATE TABLE team_members (
  team   TEXT NOT NULL REFERENCES teams(id),
  n      INTEGER NOT NULL,
  agent  TEXT NOT NULL REFERENCES agents(id),
  role   TEXT NOT NULL CHECK (role IN ('coordinator','researcher','executor','reviewer','integrator')),
  since  TEXT NOT NULL,
  by     TEXT NOT NULL,
  reason TEXT NOT NULL,
  until  TEXT,
  ending TEXT,
  PRIMARY KEY (team, n)
) WITHOUT ROWID;

CREATE UNIQUE INDEX team_members_now ON team_members(team, agent) WHERE until IS NULL;

CREATE INDEX team_members_agent ON team_members(agent, team);

CREATE TRIGGER team_members_fixed BEFORE UPDATE ON team_members
WHEN OLD.until IS NOT NULL OR NEW.agent <> OLD.agent OR NEW.role <> OLD.role OR NEW.since <> OLD.since
BEGIN
  SELECT RAISE(ABORT, 'a line of the ledger of roles does not change');
END;

CREATE TRIGGER team_members_no_delete BEFORE DELETE ON team_members
BEGIN
  SELECT RAISE(ABORT, 'the ledger of roles is kept for ever');
END;

CREATE TABLE team_held (
  id        TEXT PRIMARY KEY,
  team      TEXT NOT NULL REFERENCES teams(id),
  verdict   TEXT CHECK (verdict IN ('approved','denied')),
  body_json TEXT NOT NULL
) WITHOUT ROWID;

CREATE INDEX team_held_waiting ON team_held(id) WHERE verdict IS NULL;

CREATE INDEX message_teams ON messages(team, created_at) WHERE team IS NOT NULL;

CREATE TABLE "handoff_meta" (
  handoff_id    TEXT PRIMARY KEY REFERENCES handoffs(id),
  previous_id   TEXT,
  restricted    INTEGER NOT NULL DEFAULT 0,
  needs_human   INTEGER NOT NULL DEFAULT 0,
  approved_at   TEXT,
  ownership     TEXT NOT NULL DEFAULT '' CHECK (ownership IN ('', 'transferred', 'degraded', 'manual_required', 'confirmed')),
  deadline      TEXT,
  accepted_at   TEXT,
  escalated_at  TEXT,
  reject_reason TEXT,
  ending        TEXT CHECK (ending IN ('done','handed_on','released','rejected','withdrawn')),
  team             TEXT,
  team_approved_by TEXT
) WITHOUT ROWID;

CREATE TABLE team_artifacts (
  team      TEXT NOT NULL REFERENCES teams(id),
  name      TEXT NOT NULL,
  revision  INTEGER NOT NULL,
  body_json TEXT NOT NULL,
  PRIMARY KEY (team, name)
) WITHOUT ROWID;

CREATE TABLE team_versions (
  team      TEXT NOT NULL,
  name      TEXT NOT NULL,
  n         INTEGER NOT NULL,
  sha256    TEXT NOT NULL,
  body_json TEXT NOT NULL,
  PRIMARY KEY (team, name, n),
  FOREIGN KEY (team, name) REFERENCES team_artifacts(team, name)
) WITHOUT ROWID;

CREATE INDEX team_versions_content ON team_versions(sha256);

CREATE TRIGGER team_versions_fixed BEFORE UPDATE ON team_versions
BEGIN
  SELECT RAISE(ABORT, 'a version of an artifact does not change');
END;

CREATE TRIGGER team_versions_no_delete BEFORE DELETE ON team_versions
BEGIN
  SELECT RAISE(ABORT, 'the versions of artifacts are kept for ever');
END;

CREATE TABLE team_conflicts (
  team      TEXT NOT NULL,
  name      TEXT NOT NULL,
  n         INTEGER NOT NULL,              -- the version beside the newest
  state     TEXT NOT NULL CHECK (state IN ('diverged','auto_merged','manual_merge','escalated','resolved')),
  due       TEXT,
  revision  INTEGER NOT NULL,
  body_json TEXT NOT NULL,
  PRIMARY KEY (team, name, n),
  FOREIGN KEY (team, name, n) REFERENCES team_versions(team, name, n)
) WITHOUT ROWID;

CREATE INDEX team_conflicts_open ON team_conflicts(team, name, n) WHERE state <> 'resolved';

CREATE INDEX team_conflicts_due ON team_conflicts(due) WHERE due IS NOT NULL;

CREATE TRIGGER team_conflicts_fixed BEFORE UPDATE ON team_conflicts WHEN OLD.state = 'resolved'
BEGIN
  SELECT RAISE(ABORT, 'a resolved conflict does not change');
END;

CREATE TABLE subscriptions (
  agent       TEXT NOT NULL,
  id          TEXT NOT NULL UNIQUE,
  created_at  TEXT NOT NULL,
  filter_json TEXT NOT NULL,
  PRIMARY KEY (agent, id)
) WITHOUT ROWID;

CREATE TABLE copies (
  agent      TEXT NOT NULL,
  message_id TEXT NOT NULL,
  made_by    TEXT NOT NULL,
  status     TEXT,
  at         TEXT NOT NULL,
  due_at     TEXT NOT NULL,
  copy_id    TEXT,
  PRIMARY KEY (agent, message_id)
) WITHOUT ROWID;

CREATE INDEX copies_waiting ON copies(due_at, agent) WHERE copy_id IS NULL;

CREATE INDEX copies_message ON copies(message_id);

CREATE INDEX copies_status ON copies(agent, status, at) WHERE status IS NOT NULL;

CREATE TABLE wakes (
  agent         TEXT NOT NULL,
  id            TEXT NOT NULL,
  state         TEXT NOT NULL CHECK (state IN ('reserved','waiting','taken','handed','offered','turn_started','shown','accepted','turn_ended','read','held','refused','failed')),
  n             INTEGER NOT NULL,
  channel       TEXT NOT NULL,
  mechanism     TEXT,
  detail        TEXT,
  machine       TEXT,
  sessions_json TEXT,
  made_at       TEXT NOT NULL,
  until_at      TEXT,
  taken_at      TEXT,
  handed_at     TEXT,
  proven_at     TEXT,
  messages_json TEXT,
  senders_json  TEXT,
  roots_json    TEXT,
  cost          INTEGER NOT NULL DEFAULT 0,
  interrupts    INTEGER NOT NULL DEFAULT 0,
  repeats       INTEGER NOT NULL DEFAULT 0,
  probe         INTEGER NOT NULL DEFAULT 0,
  hook          INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (agent, id)
) WITHOUT ROWID;

CREATE TABLE tasks (
  n         INTEGER PRIMARY KEY,           -- T-n
  team      TEXT REFERENCES teams(id),     -- NULL for an item
  state     TEXT NOT NULL CHECK (state IN ('backlog','assigned','in_progress','in_review','rework','blocked','done','dropped')),
  owner     TEXT,
  revision  INTEGER NOT NULL,
  body_json TEXT NOT NULL,
  item      TEXT,                          -- the name of an item that is not over, else NULL
  CHECK ((item IS NOT NULL) = (team IS NULL AND state NOT IN ('done','dropped')))
);

CREATE INDEX tasks_team ON tasks(team, n);

CREATE INDEX tasks_state ON tasks(team, state, n);

CREATE INDEX tasks_owner ON tasks(owner, n) WHERE team IS NOT NULL;

CREATE UNIQUE INDEX tasks_item ON tasks(item);

CREATE INDEX tasks_claims ON tasks(owner, item) WHERE item IS NOT NULL;

CREATE TABLE file_waits (
  tree     TEXT NOT NULL,
  path     TEXT NOT NULL,
  agent    TEXT NOT NULL,
  since_at TEXT NOT NULL,
  told_at  TEXT,
  warned   INTEGER NOT NULL,
  PRIMARY KEY (tree, path, agent)
) WITHOUT ROWID;

CREATE TABLE file_views (
  tree   TEXT NOT NULL,
  path   TEXT NOT NULL,
  agent  TEXT NOT NULL,
  digest TEXT,
  stale  TEXT,
  wrote  INTEGER NOT NULL,
  at     TEXT NOT NULL,
  PRIMARY KEY (tree, path, agent)
) WITHOUT ROWID;

CREATE INDEX file_views_at ON file_views (at);

CREATE TABLE file_notes (
  agent TEXT NOT NULL,
  n     INTEGER NOT NULL,
  kind  TEXT NOT NULL,
  path  TEXT NOT NULL,
  other TEXT,
  text  TEXT NOT NULL,
  PRIMARY KEY (agent, n)
) WITHOUT ROWID;

CREATE TABLE repository_checks (
  machine    TEXT NOT NULL,
  repository TEXT NOT NULL,
  name       TEXT NOT NULL,
  body_json  TEXT NOT NULL,
  PRIMARY KEY (machine, repository, name)
) WITHOUT ROWID;

CREATE TABLE check_policies (
  machine    TEXT NOT NULL,
  repository TEXT NOT NULL,
  body_json  TEXT NOT NULL,
  PRIMARY KEY (machine, repository)
) WITHOUT ROWID;

CREATE TABLE check_tails (
  n    INTEGER PRIMARY KEY,
  tail TEXT NOT NULL
);

CREATE TABLE progress (
  subject   TEXT NOT NULL PRIMARY KEY,
  checks    TEXT NOT NULL CHECK (checks IN ('none','running','passed','failed')),
  review    TEXT NOT NULL CHECK (review IN ('none','waiting','approved','changes')),
  landing   TEXT NOT NULL CHECK (landing IN ('none','queued','trying','landed','returned')),
  revision  INTEGER NOT NULL,
  body_json TEXT NOT NULL
) WITHOUT ROWID;

CREATE INDEX progress_checking ON progress (subject) WHERE checks = 'running';

CREATE TABLE landing_policies (
  id        TEXT PRIMARY KEY,
  body_json TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE reviews (
  n         INTEGER PRIMARY KEY,           -- vn
  handoff   TEXT,
  entry     TEXT,
  state     TEXT NOT NULL CHECK (state IN ('waiting','approved','changes','replaced')),
  revision  INTEGER NOT NULL,
  body_json TEXT NOT NULL
);

CREATE INDEX reviews_state ON reviews(state, n);

CREATE INDEX reviews_handoff ON reviews(handoff, n) WHERE handoff IS NOT NULL;

CREATE INDEX reviews_entry ON reviews(entry, n) WHERE entry IS NOT NULL;

CREATE TRIGGER reviews_fixed BEFORE UPDATE ON reviews WHEN OLD.state = 'replaced' OR NEW.n <> OLD.n
BEGIN
  SELECT RAISE(ABORT, 'a review that is over does not change');
END;

CREATE TRIGGER handoffs_moves BEFORE UPDATE OF status ON handoffs
WHEN OLD.status <> NEW.status AND (OLD.status || '>' || NEW.status) NOT IN (
  'draft>proposed', 'proposed>validating', 'validating>accepted', 'validating>rejected', 'accepted>activated',
  'rejected>closed', 'activated>completed', 'completed>closed', 'closed>activated')
BEGIN
  SELECT RAISE(ABORT, 'no such move of a handoff');
END;

CREATE TRIGGER tasks_fixed BEFORE UPDATE ON tasks
WHEN (OLD.state IN ('done','dropped') AND (OLD.team IS NULL OR (OLD.state || '>' || NEW.state) <> 'done>rework')) OR NEW.n <> OLD.n OR NEW.team IS NOT OLD.team
BEGIN
  SELECT RAISE(ABORT, 'a task that is over does not change');
END;

CREATE TABLE contract_verdicts (
  project   TEXT NOT NULL,
  contract  TEXT NOT NULL,
  pair      TEXT NOT NULL,
  rules     INTEGER NOT NULL,
  body_json TEXT NOT NULL,
  PRIMARY KEY (project, contract, pair)
) WITHOUT ROWID;

CREATE TABLE contract_results (
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

CREATE INDEX contract_results_project ON contract_results (project, n);

CREATE INDEX contract_results_contract ON contract_results (project, contract, repo, n);

CREATE INDEX contract_results_commit ON contract_results (project, repo, commit_id, n);

CREATE INDEX contract_results_tree ON contract_results (project, repo, tree, n) WHERE tree IS NOT NULL;

CREATE TABLE deployments (
  n         INTEGER PRIMARY KEY,
  project   TEXT NOT NULL,
  repo      TEXT NOT NULL,
  env       TEXT NOT NULL,
  body_json TEXT NOT NULL
);

CREATE INDEX deployments_project ON deployments (project, n);

CREATE INDEX deployments_env ON deployments (project, env, repo, n);

CREATE INDEX deployments_repo ON deployments (project, repo, n);

CREATE INDEX contracts_name ON contracts (project, name);

CREATE TABLE budgets (
  n         INTEGER PRIMARY KEY,
  of_name   TEXT NOT NULL,
  most      INTEGER NOT NULL CHECK (most > 0),
  unit      TEXT NOT NULL CHECK (unit IN ('tokens','money','turns')),
  currency  TEXT,
  per       TEXT NOT NULL CHECK (per IN ('hour','day','total')),
  hard      INTEGER NOT NULL,
  set_at    TEXT NOT NULL,
  set_by    TEXT NOT NULL,
  told_for  TEXT,
  spent_for TEXT
, unpriced TEXT);

CREATE TABLE continuations (
  n            INTEGER PRIMARY KEY,           -- kn
  handoff      TEXT NOT NULL,
  next_handoff TEXT,
  task         TEXT NOT NULL,
  of_agent     TEXT NOT NULL,
  state        TEXT NOT NULL CHECK (state IN ('waiting','offered','taken','refused')),
  revision     INTEGER NOT NULL,
  body_json    TEXT NOT NULL
);

CREATE INDEX continuations_handoff ON continuations(handoff, n);

CREATE INDEX continuations_next ON continuations(next_handoff) WHERE next_handoff IS NOT NULL;

CREATE INDEX continuations_task ON continuations(task, n);

CREATE INDEX continuations_agent ON continuations(of_agent, n);

CREATE TRIGGER continuations_fixed BEFORE UPDATE ON continuations WHEN OLD.state = 'taken' OR NEW.n <> OLD.n OR NEW.handoff <> OLD.handoff OR NEW.of_agent <> OLD.of_agent
BEGIN
  SELECT RAISE(ABORT, 'a continuation that was taken does not change');
END;

CREATE TABLE rescues (
  n         INTEGER PRIMARY KEY,              -- sn
  agent     TEXT NOT NULL,
  body_json TEXT NOT NULL
);

CREATE TABLE event_deliveries (
  source TEXT NOT NULL,
  id     TEXT NOT NULL,
  at     TEXT NOT NULL,
  PRIMARY KEY (source, id)
) WITHOUT ROWID;

CREATE INDEX event_deliveries_at ON event_deliveries(at);

CREATE TABLE event_counts (
  source  TEXT NOT NULL,
  outcome TEXT NOT NULL,
  n       INTEGER NOT NULL,
  PRIMARY KEY (source, outcome)
) WITHOUT ROWID;

CREATE TABLE schedules (
  n         INTEGER PRIMARY KEY,              -- en
  agent     TEXT NOT NULL,
  revision  INTEGER NOT NULL,
  body_json TEXT NOT NULL
);

CREATE TABLE "reservations" (
  fence       INTEGER PRIMARY KEY,
  machine     TEXT,
  tree        TEXT NOT NULL,
  repository  TEXT,
  path        TEXT NOT NULL,
  is_pattern  INTEGER NOT NULL,
  holder      TEXT NOT NULL,
  session     TEXT,
  shared      INTEGER NOT NULL,
  task        TEXT,
  handoff     TEXT,
  why         TEXT,
  state       TEXT NOT NULL CHECK (state IN ('held','waiting','orphan')),
  since_at    TEXT NOT NULL,
  active_at   TEXT NOT NULL,
  until_at    TEXT,
  asked_at    TEXT,
  base        TEXT,
  digest      TEXT,
  object      TEXT,
  changed     INTEGER NOT NULL,
  left_sha256 TEXT,
  left_lines  INTEGER NOT NULL DEFAULT 0,
  found       TEXT,
  head        TEXT
);

CREATE INDEX reservations_tree ON reservations (tree, fence);

CREATE INDEX reservations_held ON reservations (state, is_pattern, holder);

CREATE TABLE "landings" (
  n         INTEGER PRIMARY KEY,           -- ln
  queue     TEXT NOT NULL,
  state     TEXT NOT NULL CHECK (state IN ('queued','trying','waiting','landed','returned','cancelled','undone')),
  owner     TEXT NOT NULL,
  subject   TEXT,                          -- a handoff or a task
  undoes    TEXT,
  revision  INTEGER NOT NULL,
  body_json TEXT NOT NULL
);

CREATE INDEX landings_queue ON landings(queue, state, n);

CREATE INDEX landings_state ON landings(state, n);

CREATE INDEX landings_subject ON landings(subject, n) WHERE subject IS NOT NULL;

CREATE TRIGGER landings_fixed BEFORE UPDATE ON landings
WHEN OLD.state = 'cancelled' OR (OLD.state = 'landed' AND NEW.state <> 'undone') OR (OLD.state = 'undone' AND NEW.state <> 'landed')
  OR NEW.n <> OLD.n OR NEW.queue <> OLD.queue
BEGIN
  SELECT RAISE(ABORT, 'a landing that is over does not change');
END;

CREATE TABLE "check_results" (
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

CREATE INDEX check_results_tree ON check_results (tree, digest, n);

CREATE INDEX check_results_repository ON check_results (repository, n);

CREATE INDEX check_results_handoff ON check_results (handoff, n) WHERE handoff IS NOT NULL;

CREATE INDEX check_results_open ON check_results (state, n) WHERE state IN ('queued','running');

CREATE TABLE "usages" (
  cli          TEXT NOT NULL,
  id           TEXT NOT NULL,
  record       INTEGER NOT NULL,
  source       TEXT NOT NULL CHECK (source IN ('acp','transcript','plugin','hook')),
  agent        TEXT NOT NULL,
  session      TEXT,
  model        TEXT,
  input        INTEGER NOT NULL CHECK (input >= 0),
  output       INTEGER NOT NULL CHECK (output >= 0),
  cached_read  INTEGER NOT NULL CHECK (cached_read >= 0),
  cached_write INTEGER NOT NULL CHECK (cached_write >= 0),
  reasoning    INTEGER NOT NULL CHECK (reasoning >= 0),
  cost         INTEGER NOT NULL CHECK (cost >= 0),
  currency     TEXT,
  run          TEXT,
  handoff      TEXT,
  task         TEXT,
  team         TEXT,
  wake         TEXT,
  thread       TEXT,
  at           TEXT NOT NULL,
  known        INTEGER NOT NULL,
  PRIMARY KEY (agent, id)
) WITHOUT ROWID;

CREATE INDEX usages_at ON usages (at);

CREATE INDEX usages_agent ON usages (agent, at);

CREATE INDEX usages_record ON usages (record);

CREATE INDEX usages_handoff ON usages (handoff) WHERE handoff IS NOT NULL;

CREATE INDEX usages_task ON usages (task) WHERE task IS NOT NULL;

CREATE INDEX usages_team ON usages (team, at) WHERE team IS NOT NULL;

CREATE INDEX usages_run ON usages (run) WHERE run IS NOT NULL;

CREATE INDEX usages_id ON usages (id);

CREATE TABLE "event_sources" (
  name      TEXT PRIMARY KEY,
  vendor    TEXT NOT NULL,
  revision  INTEGER NOT NULL,
  body_json TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE tree_tiles (
  level  INTEGER NOT NULL,
  n      INTEGER NOT NULL,
  hashes TEXT NOT NULL,
  PRIMARY KEY (level, n)
) WITHOUT ROWID;

CREATE TABLE tree_checkpoints (
  size INTEGER PRIMARY KEY,
  at   TEXT NOT NULL,
  note TEXT NOT NULL
);

CREATE TABLE kept_works (
  n          INTEGER PRIMARY KEY,             -- sn
  tree       TEXT NOT NULL,
  repository TEXT,
  agent      TEXT,
  revision   INTEGER NOT NULL,
  body_json  TEXT NOT NULL
);

CREATE INDEX kept_works_tree ON kept_works(tree, n);

CREATE INDEX kept_works_repository ON kept_works(repository, n) WHERE repository IS NOT NULL;

INSERT INTO message_text (message_text, rank) VALUES ('automerge', 16);
INSERT INTO acp_meta (key, value) VALUES ('package_hash', 'sha256 of RFC 8785 without verification.package_hash');
INSERT INTO acp_meta (key, value) VALUES ('protocol_version', '1.0.0');
INSERT INTO acp_meta (key, value) VALUES ('schema_version', '1');

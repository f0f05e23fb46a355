CREATE TABLE IF NOT EXISTS messages (
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

CREATE INDEX IF NOT EXISTS idx_messages_from ON messages(from_agent, created_at DESC);
CREATE INDEX IF NOT EXISTS idx_messages_thread ON messages(thread_id, created_at);
CREATE INDEX IF NOT EXISTS idx_messages_type ON messages(type, created_at DESC);
CREATE INDEX IF NOT EXISTS idx_messages_status ON messages(status, created_at DESC);

CREATE TABLE IF NOT EXISTS delivery_log (
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

CREATE TABLE IF NOT EXISTS handoffs (
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

-- Prevent multiple active handoffs on the same task
CREATE UNIQUE INDEX IF NOT EXISTS idx_handoffs_task_active
ON handoffs(task_id)
WHERE status IN ('proposed','validating','accepted','activated');

CREATE TABLE IF NOT EXISTS acp_meta (
  key   TEXT PRIMARY KEY,
  value TEXT NOT NULL
);

INSERT OR IGNORE INTO acp_meta (key, value) VALUES ('schema_version', '1');
INSERT OR IGNORE INTO acp_meta (key, value) VALUES ('protocol_version', '1.0.0');

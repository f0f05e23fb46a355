-- What the hub keeps beside the protocol's own tables (0001_protocol.sql).
-- Those are used as they are: their text must not change, so that triggers
-- stand in for CHECKs on their enumerated columns. They guard changes only: a
-- trigger on every insert would make a send cost half as much again, and rows
-- are inserted in one place, which looks by itself.

-- One row per message. seq is milliseconds of created_at << 12 plus a counter,
-- so its order is the order of creation and a span of time is a span of seq.
-- It is not the implicit rowid of messages, which VACUUM may renumber.
CREATE TABLE IF NOT EXISTS message_meta (
  seq        INTEGER PRIMARY KEY,
  message_id TEXT NOT NULL UNIQUE REFERENCES messages(id) ON DELETE CASCADE,
  hop        INTEGER NOT NULL DEFAULT 0,
  cause_id   TEXT,
  extra_json TEXT                            -- members this version does not know
);

-- One row per message and agent it concerns. hidden is 1 while, and for ever
-- if, a human has not let the message pass to this agent.
CREATE TABLE IF NOT EXISTS message_party (
  agent  TEXT NOT NULL,
  seq    INTEGER NOT NULL REFERENCES message_meta(seq) ON DELETE CASCADE,
  state  TEXT NOT NULL
         CHECK (state IN ('sender','held','unread','delivered','read','expired','failed')),
  rank   INTEGER NOT NULL,                   -- 0 is the most pressing priority
  type   TEXT NOT NULL,
  hidden INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (agent, seq)
) WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS message_party_inbox ON message_party(agent, state, rank, seq)
WHERE state IN ('unread','delivered');
CREATE INDEX IF NOT EXISTS message_party_held ON message_party(seq) WHERE state = 'held';
CREATE INDEX IF NOT EXISTS message_party_type ON message_party(agent, type, seq) WHERE hidden = 0;
CREATE INDEX IF NOT EXISTS message_party_seq ON message_party(seq);

-- Words of messages, under rowid = seq. Text is cut into words before it gets
-- here, so that the tokenizer has nothing left to decide. tags holds a word for
-- each agent concerned and one for the topic, body the words of the text, mine
-- the same words joined with each agent's prefix. Rows come in later than their
-- messages; see texts.go.
CREATE VIRTUAL TABLE IF NOT EXISTS message_text USING fts5(
  tags, body, mine, content='', contentless_delete=1, detail='column', tokenize='ascii'
);

INSERT INTO message_text (message_text, rank) VALUES ('automerge', 8);

CREATE TRIGGER IF NOT EXISTS message_meta_deleted AFTER DELETE ON message_meta
BEGIN
  DELETE FROM message_text WHERE rowid = OLD.seq;
END;

CREATE INDEX IF NOT EXISTS message_expires ON messages(expires_at)
WHERE expires_at IS NOT NULL AND status IN ('pending','delivered');
CREATE INDEX IF NOT EXISTS message_broadcasts ON messages(from_agent, created_at)
WHERE to_agents_json = '["*"]';
CREATE INDEX IF NOT EXISTS message_sequences ON messages(thread_id, sequence)
WHERE sequence IS NOT NULL;
CREATE INDEX IF NOT EXISTS delivery_log_message ON delivery_log(message_id);

CREATE TABLE IF NOT EXISTS agents (
  id         TEXT PRIMARY KEY,
  role       TEXT NOT NULL,
  auditor    INTEGER NOT NULL,
  state      TEXT NOT NULL CHECK (state IN ('active','paused')),
  created_at TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS agent_keys (
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

-- Answers to sends that carried an idempotency key.
CREATE TABLE IF NOT EXISTS receipts (
  actor      TEXT NOT NULL,
  key        TEXT NOT NULL,
  request    TEXT NOT NULL,
  message_id TEXT NOT NULL,
  at         TEXT NOT NULL,
  PRIMARY KEY (actor, key)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS receipts_at ON receipts(at);

-- What each session read last.
CREATE TABLE IF NOT EXISTS session_marks (
  agent      TEXT NOT NULL,
  session    TEXT NOT NULL,
  message_id TEXT NOT NULL,
  hop        INTEGER NOT NULL,
  at         TEXT NOT NULL,
  PRIMARY KEY (agent, session)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS session_marks_at ON session_marks(at);

-- Which recipient has processed which message.
CREATE TABLE IF NOT EXISTS processed (
  message_id TEXT NOT NULL REFERENCES messages(id) ON DELETE CASCADE,
  recipient  TEXT NOT NULL,
  at         TEXT NOT NULL,
  PRIMARY KEY (message_id, recipient)
) WITHOUT ROWID;

-- The journal: rows are only ever added, numbered 1, 2, 3, and each hash
-- covers the one before it.
CREATE TABLE IF NOT EXISTS journal (
  seq        INTEGER PRIMARY KEY,
  at         TEXT NOT NULL,
  actor      TEXT NOT NULL,
  action     TEXT NOT NULL,
  subject    TEXT NOT NULL,
  outcome    TEXT NOT NULL,
  facts_json TEXT NOT NULL,
  hash       TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS journal_subject ON journal(subject) WHERE subject <> '';

CREATE TRIGGER IF NOT EXISTS journal_no_update BEFORE UPDATE ON journal
BEGIN
  SELECT RAISE(ABORT, 'the journal is append-only');
END;
CREATE TRIGGER IF NOT EXISTS journal_no_delete BEFORE DELETE ON journal
BEGIN
  SELECT RAISE(ABORT, 'the journal is append-only');
END;

-- How far each consumer of the journal has come.
CREATE TABLE IF NOT EXISTS cursors (
  consumer TEXT PRIMARY KEY,
  seq      INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TRIGGER IF NOT EXISTS messages_status_update BEFORE UPDATE OF status ON messages
WHEN NEW.status NOT IN ('pending','delivered','read','expired','failed')
BEGIN
  SELECT RAISE(ABORT, 'unknown message status');
END;
CREATE TRIGGER IF NOT EXISTS delivery_log_status_update BEFORE UPDATE OF status ON delivery_log
WHEN NEW.status NOT IN ('pending','stored','offered','accepted','read','failed','skipped','held')
BEGIN
  SELECT RAISE(ABORT, 'unknown delivery status');
END;

-- Messages of others that agents have copied to their inboxes.
CREATE TABLE subscriptions (
  agent       TEXT NOT NULL,
  id          TEXT NOT NULL UNIQUE,
  created_at  TEXT NOT NULL,
  filter_json TEXT NOT NULL,
  PRIMARY KEY (agent, id)
);
-- A copy waits until its window ends; then copy_id is the message that was made.
CREATE TABLE copies (
  agent      TEXT NOT NULL,
  message_id TEXT NOT NULL,
  made_by    TEXT NOT NULL,
  status     TEXT,
  at         TEXT NOT NULL,
  due_at     TEXT NOT NULL,
  copy_id    TEXT,
  PRIMARY KEY (agent, message_id)
);
CREATE INDEX copies_waiting ON copies(due_at, agent) WHERE copy_id IS NULL;
CREATE INDEX copies_message ON copies(message_id);
CREATE INDEX copies_status ON copies(agent, status, at) WHERE status IS NOT NULL;

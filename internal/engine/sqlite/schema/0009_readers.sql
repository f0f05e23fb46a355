-- column agents.can

-- Short names of messages (m17) and handoffs (h3) on this hub. They are given in
-- order of arrival and never again: the row with the greatest number of a kind is
-- not removed.
CREATE TABLE IF NOT EXISTS short_ids (
  kind TEXT NOT NULL CHECK (kind IN ('m','h')),
  n    INTEGER NOT NULL,
  id   TEXT NOT NULL UNIQUE,
  PRIMARY KEY (kind, n)
) WITHOUT ROWID;

INSERT OR IGNORE INTO short_ids SELECT 'm', row_number() OVER (ORDER BY created_at, id), id FROM messages;
INSERT OR IGNORE INTO short_ids SELECT 'h', row_number() OVER (ORDER BY id), id FROM handoffs;

CREATE TRIGGER IF NOT EXISTS messages_deleted AFTER DELETE ON messages
BEGIN
  DELETE FROM short_ids WHERE id = OLD.id AND n < (SELECT max(n) FROM short_ids WHERE kind = 'm');
END;

-- The agents that may read an artifact: those that stored it, and those that got a
-- message or a handoff that names it from one that may read it.
CREATE TABLE IF NOT EXISTS artifact_readers (
  sha256 TEXT NOT NULL,
  agent  TEXT NOT NULL,
  PRIMARY KEY (sha256, agent)
) WITHOUT ROWID;

INSERT OR IGNORE INTO artifact_readers SELECT subject, actor FROM journal WHERE action = 'artifact.put';
INSERT OR IGNORE INTO artifact_readers
  SELECT a.value ->> 'sha256', p.agent FROM messages AS m
  JOIN json_each(m.context_json, '$.artifacts') AS a
  JOIN message_meta AS d ON d.message_id = m.id
  JOIN message_party AS p ON p.seq = d.seq
  WHERE p.hidden = 0 AND a.value ->> 'sha256' IS NOT NULL;
INSERT OR IGNORE INTO artifact_readers
  SELECT a.value ->> '$.ref.sha256', p.agent FROM handoffs AS h
  JOIN json_each(h.package_json, '$.artifacts') AS a
  JOIN (SELECT id, from_agent AS agent FROM handoffs UNION SELECT id, to_agent FROM handoffs) AS p ON p.id = h.id
  WHERE a.value ->> '$.ref.sha256' IS NOT NULL;

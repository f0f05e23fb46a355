-- column peers.grants_json
-- column peers.acts_for_json
-- column invites.acts_for_json
-- column projects.owner

-- Project tokens. The tokens themselves are nowhere.
CREATE TABLE IF NOT EXISTS tokens (
  id               TEXT PRIMARY KEY,       -- jti
  agent            TEXT NOT NULL,
  project          TEXT NOT NULL,
  permissions_json TEXT NOT NULL,
  created_by       TEXT NOT NULL,
  created_at       TEXT NOT NULL,
  expires_at       TEXT NOT NULL,
  revoked_at       TEXT
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS tokens_agent ON tokens(agent);
CREATE INDEX IF NOT EXISTS tokens_expiry ON tokens(expires_at);
CREATE INDEX IF NOT EXISTS tokens_project ON tokens(project, created_at);

INSERT OR IGNORE INTO tokens (id, agent, project, permissions_json, created_by, created_at, expires_at, revoked_at)
  SELECT facts_json ->> 'jti', facts_json ->> 'agent', subject, facts_json -> 'permissions', actor, at, replace(facts_json ->> 'expires', 'Z', '.000Z'), NULL
  FROM journal WHERE action = 'token.minted' AND facts_json ->> 'jti' IS NOT NULL;

-- A peer that was invited takes part in the projects of its invites. It has the
-- permissions of the invite that it redeemed; a peer without one invited this hub.
UPDATE peers SET grants_json = (
  SELECT json_group_array(json_object('projectId', s.value,
    'repos', (SELECT json_group_array(i.repo) FROM invites AS i WHERE i.redeemed_by = peers.aid AND i.project = s.value),
    'permissions', json(coalesce((SELECT i.permissions_json FROM invites AS i WHERE i.redeemed_by = peers.aid AND i.project = s.value ORDER BY i.redeemed_at DESC LIMIT 1),
      '["project:read","project:write","contract:propose","contract:respond","context:share","implementation:update","file:share"]')),
    'host', json(iif(EXISTS (SELECT 1 FROM invites AS i WHERE i.redeemed_by = peers.aid AND i.project = s.value), 'false', 'true'))))
  FROM acp_meta AS m JOIN json_each(m.value) AS s WHERE m.key = 'peer.scope/' || peers.aid)
WHERE grants_json IS NULL AND EXISTS (SELECT 1 FROM acp_meta AS m WHERE m.key = 'peer.scope/' || peers.aid AND m.value <> '');
DELETE FROM acp_meta WHERE key GLOB 'peer.scope/*';

-- A proposer could agree to its own contract wherever nobody had chosen a policy.
-- Where the policy was set to any, it stays.
UPDATE projects SET policy = 'counterparty' WHERE policy IN ('', 'any') AND owner IS NULL AND id NOT IN (
  SELECT subject FROM journal WHERE action = 'project.changed' AND facts_json ->> 'action' = 'contract.SetPolicy' AND facts_json ->> 'status' = 'any');
UPDATE projects SET owner = '' WHERE owner IS NULL;

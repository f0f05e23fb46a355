-- The owners of items of the hub's own queue.
CREATE TABLE claims (
  item       TEXT PRIMARY KEY,
  owner      TEXT NOT NULL,
  claimed_at TEXT NOT NULL
);
CREATE INDEX claims_owner ON claims(owner, item);

-- Two more words about an item of a queue elsewhere: transferred and degraded.
ALTER TABLE handoff_meta DROP CONSTRAINT handoff_meta_ownership_check;
ALTER TABLE handoff_meta ADD CONSTRAINT handoff_meta_ownership_check
  CHECK (ownership IN ('', 'transferred', 'degraded', 'manual_required', 'confirmed'));

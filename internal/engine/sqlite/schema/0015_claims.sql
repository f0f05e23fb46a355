-- The owners of items of the hub's own queue.
CREATE TABLE IF NOT EXISTS claims (
  item       TEXT PRIMARY KEY,
  owner      TEXT NOT NULL,
  claimed_at TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS claims_owner ON claims(owner, item);

-- Two more words about an item of a queue elsewhere: transferred and degraded.
DROP TABLE IF EXISTS handoff_meta_15;
CREATE TABLE handoff_meta_15 (
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
INSERT INTO handoff_meta_15 (handoff_id, previous_id, restricted, needs_human, approved_at, ownership, deadline, accepted_at, escalated_at, reject_reason, ending, team, team_approved_by)
SELECT handoff_id, previous_id, restricted, needs_human, approved_at, ownership, deadline, accepted_at, escalated_at, reject_reason, ending, team, team_approved_by FROM handoff_meta;
DROP TABLE handoff_meta;
ALTER TABLE handoff_meta_15 RENAME TO handoff_meta;

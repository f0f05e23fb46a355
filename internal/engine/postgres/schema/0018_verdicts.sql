-- The author of the verdict on a run and, if it is an agent that speaks about its own
-- work, the verdict that it claims.
ALTER TABLE runs ADD COLUMN verdict_by TEXT;
ALTER TABLE runs ADD COLUMN claimed_verdict TEXT CHECK (claimed_verdict IN ('confirmed','contradicted','unverified'));

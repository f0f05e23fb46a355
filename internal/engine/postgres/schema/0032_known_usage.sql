-- A call belongs to its agent: a report of one agent hides no call of another. What the hub read itself
-- is known; the rest is the word of the agent.
UPDATE usages AS u SET id = u.id || '@' || u.cli
  WHERE EXISTS (SELECT 1 FROM usages AS o WHERE o.agent = u.agent AND o.id = u.id AND o.cli < u.cli);
ALTER TABLE usages DROP CONSTRAINT usages_pkey, ADD PRIMARY KEY (agent, id), ADD COLUMN known BIGINT NOT NULL DEFAULT 0;
UPDATE usages SET known = 1 WHERE source IN ('acp', 'transcript');
CREATE INDEX usages_id ON usages (id);

-- A budget of money may be opened for models without a price.
ALTER TABLE budgets ADD COLUMN unpriced TEXT;

-- Uncommitted work of working trees, whose content is in the hub's store of kept work. Numbers are
-- given together with those of rescues.
CREATE TABLE kept_works (
  n          BIGINT PRIMARY KEY,             -- sn
  tree       TEXT NOT NULL,
  repository TEXT,
  agent      TEXT,
  revision   BIGINT NOT NULL,
  body_json  TEXT NOT NULL
);
CREATE INDEX kept_works_tree ON kept_works(tree, n);
CREATE INDEX kept_works_repository ON kept_works(repository, n) WHERE repository IS NOT NULL;

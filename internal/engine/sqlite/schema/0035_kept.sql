-- Uncommitted work of working trees, whose content is in the hub's store of kept work. Numbers are
-- given together with those of rescues.
CREATE TABLE IF NOT EXISTS kept_works (
  n          INTEGER PRIMARY KEY,             -- sn
  tree       TEXT NOT NULL,
  repository TEXT,
  agent      TEXT,
  revision   INTEGER NOT NULL,
  body_json  TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS kept_works_tree ON kept_works(tree, n);
CREATE INDEX IF NOT EXISTS kept_works_repository ON kept_works(repository, n) WHERE repository IS NOT NULL;

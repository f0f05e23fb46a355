-- Artifacts of teams with their versions and conflicts. name is the name of the artifact
-- in lower case: no two differ in case alone.
CREATE TABLE IF NOT EXISTS team_artifacts (
  team      TEXT NOT NULL REFERENCES teams(id),
  name      TEXT NOT NULL,
  revision  INTEGER NOT NULL,
  body_json TEXT NOT NULL,
  PRIMARY KEY (team, name)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS team_versions (
  team      TEXT NOT NULL,
  name      TEXT NOT NULL,
  n         INTEGER NOT NULL,
  sha256    TEXT NOT NULL,
  body_json TEXT NOT NULL,
  PRIMARY KEY (team, name, n),
  FOREIGN KEY (team, name) REFERENCES team_artifacts(team, name)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS team_versions_content ON team_versions(sha256);
CREATE TRIGGER IF NOT EXISTS team_versions_fixed BEFORE UPDATE ON team_versions
BEGIN
  SELECT RAISE(ABORT, 'a version of an artifact does not change');
END;
CREATE TRIGGER IF NOT EXISTS team_versions_no_delete BEFORE DELETE ON team_versions
BEGIN
  SELECT RAISE(ABORT, 'the versions of artifacts are kept for ever');
END;

CREATE TABLE IF NOT EXISTS team_conflicts (
  team      TEXT NOT NULL,
  name      TEXT NOT NULL,
  n         INTEGER NOT NULL,              -- the version beside the newest
  state     TEXT NOT NULL CHECK (state IN ('diverged','auto_merged','manual_merge','escalated','resolved')),
  due       TEXT,
  revision  INTEGER NOT NULL,
  body_json TEXT NOT NULL,
  PRIMARY KEY (team, name, n),
  FOREIGN KEY (team, name, n) REFERENCES team_versions(team, name, n)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS team_conflicts_open ON team_conflicts(team, name, n) WHERE state <> 'resolved';
CREATE INDEX IF NOT EXISTS team_conflicts_due ON team_conflicts(due) WHERE due IS NOT NULL;
CREATE TRIGGER IF NOT EXISTS team_conflicts_fixed BEFORE UPDATE ON team_conflicts WHEN OLD.state = 'resolved'
BEGIN
  SELECT RAISE(ABORT, 'a resolved conflict does not change');
END;

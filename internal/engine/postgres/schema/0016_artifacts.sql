-- Artifacts of teams with their versions and conflicts. name is the name of the artifact
-- in lower case: no two differ in case alone.
CREATE TABLE team_artifacts (
  team      TEXT NOT NULL REFERENCES teams(id),
  name      TEXT NOT NULL,
  revision  BIGINT NOT NULL,
  body_json TEXT NOT NULL,
  PRIMARY KEY (team, name)
);

CREATE TABLE team_versions (
  team      TEXT NOT NULL,
  name      TEXT NOT NULL,
  n         BIGINT NOT NULL,
  sha256    TEXT NOT NULL,
  body_json TEXT NOT NULL,
  PRIMARY KEY (team, name, n),
  FOREIGN KEY (team, name) REFERENCES team_artifacts(team, name)
);
CREATE INDEX team_versions_content ON team_versions(sha256);
CREATE TRIGGER team_versions_fixed BEFORE UPDATE ON team_versions FOR EACH ROW EXECUTE FUNCTION refuse('a version of an artifact does not change');
CREATE TRIGGER team_versions_no_delete BEFORE DELETE ON team_versions FOR EACH ROW EXECUTE FUNCTION refuse('the versions of artifacts are kept for ever');

CREATE TABLE team_conflicts (
  team      TEXT NOT NULL,
  name      TEXT NOT NULL,
  n         BIGINT NOT NULL,              -- the version beside the newest
  state     TEXT NOT NULL CHECK (state IN ('diverged','auto_merged','manual_merge','escalated','resolved')),
  due       TEXT,
  revision  BIGINT NOT NULL,
  body_json TEXT NOT NULL,
  PRIMARY KEY (team, name, n),
  FOREIGN KEY (team, name, n) REFERENCES team_versions(team, name, n)
);
CREATE INDEX team_conflicts_open ON team_conflicts(team, name, n) WHERE state <> 'resolved';
CREATE INDEX team_conflicts_due ON team_conflicts(due) WHERE due IS NOT NULL;
CREATE TRIGGER team_conflicts_fixed BEFORE UPDATE ON team_conflicts FOR EACH ROW
  WHEN (OLD.state = 'resolved')
  EXECUTE FUNCTION refuse('a resolved conflict does not change');

-- The vendors of event sources are a table of the program: a new one needs no new schema.
DROP TABLE IF EXISTS event_sources_next;
CREATE TABLE event_sources_next (
  name      TEXT PRIMARY KEY,
  vendor    TEXT NOT NULL,
  revision  INTEGER NOT NULL,
  body_json TEXT NOT NULL
) WITHOUT ROWID;
INSERT INTO event_sources_next SELECT name, vendor, revision, body_json FROM event_sources;
DROP TABLE event_sources;
ALTER TABLE event_sources_next RENAME TO event_sources;

-- The environments of a project, and the bounds of a token that sends evidence.
ALTER TABLE projects ADD COLUMN environments_json TEXT;
ALTER TABLE tokens ADD COLUMN bounds_json TEXT;

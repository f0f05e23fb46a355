-- Triggers that refuse to empty tables whose rows are not deleted. SQLite has no such
-- statement, so that they belong to no version of the schema: each start makes those that
-- are missing. The lock is that of changes: no hub is in the middle of one meanwhile.
DO $$
DECLARE
  guarded name;
BEGIN
  FOREACH guarded IN ARRAY ARRAY['journal', 'journal_archives', 'handoffs', 'handoff_history', 'runs', 'decisions', 'team_members', 'team_versions'] LOOP
    IF NOT EXISTS (SELECT 1 FROM pg_trigger WHERE tgrelid = to_regclass(guarded) AND tgname = guarded || '_no_truncate') THEN
      PERFORM pg_advisory_xact_lock(1886546028, hashtext(current_schema()));
      EXECUTE format('CREATE TRIGGER %I BEFORE TRUNCATE ON %I FOR EACH STATEMENT EXECUTE FUNCTION refuse(%L)', guarded || '_no_truncate', guarded, guarded || ' is append-only');
    END IF;
  END LOOP;
END $$

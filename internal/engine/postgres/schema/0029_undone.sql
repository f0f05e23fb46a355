-- A change that landed can be taken back.
ALTER TABLE landings DROP CONSTRAINT landings_state_check;
ALTER TABLE landings ADD CONSTRAINT landings_state_check CHECK (state IN ('queued','trying','waiting','landed','returned','cancelled','undone'));
DROP TRIGGER landings_fixed ON landings;
CREATE TRIGGER landings_fixed BEFORE UPDATE ON landings FOR EACH ROW
  WHEN (OLD.state = 'cancelled' OR (OLD.state = 'landed' AND NEW.state <> 'undone') OR (OLD.state = 'undone' AND NEW.state <> 'landed')
    OR NEW.n <> OLD.n OR NEW.queue <> OLD.queue)
  EXECUTE FUNCTION refuse('a landing that is over does not change');

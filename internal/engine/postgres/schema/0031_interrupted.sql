-- One more word about a run of a check: interrupted.
ALTER TABLE check_results DROP CONSTRAINT check_results_state_check;
ALTER TABLE check_results ADD CONSTRAINT check_results_state_check
  CHECK (state IN ('queued','running','passed','failed','timed_out','not_started','cancelled','interrupted'));

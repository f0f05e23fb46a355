-- A reservation can wait for another one of the same path, and knows the content that the hub
-- found last beside the one that it saw of the holder, and the file in the checked-out commit.
ALTER TABLE reservations DROP CONSTRAINT reservations_state_check;
ALTER TABLE reservations ADD CONSTRAINT reservations_state_check CHECK (state IN ('held','waiting','orphan'));
ALTER TABLE reservations ADD COLUMN found TEXT;
ALTER TABLE reservations ADD COLUMN head TEXT;
UPDATE reservations SET found = digest;

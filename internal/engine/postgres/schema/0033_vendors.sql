-- The vendors of event sources are a table of the program: a new one needs no new schema.
ALTER TABLE event_sources DROP CONSTRAINT event_sources_vendor_check;

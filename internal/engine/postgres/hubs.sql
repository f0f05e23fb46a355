-- Tables for the hubs that run. They hold no data that outlives them, so that they belong
-- to no version of the schema: each start makes those that are missing.

-- The hubs that run. Each renews its row every few seconds. waiting is a list of the
-- agents that wait for messages there, as JSON.
CREATE TABLE IF NOT EXISTS hubs (
  id      TEXT PRIMARY KEY,
  machine TEXT NOT NULL,
  waiting TEXT NOT NULL,
  at      TIMESTAMPTZ NOT NULL
);

-- Inquiries to the hubs of a machine, and their answers. holder is the hub that answers.
CREATE TABLE IF NOT EXISTS inquiries (
  id       TEXT PRIMARY KEY,
  machine  TEXT NOT NULL,
  inquiry  TEXT NOT NULL,
  holder   TEXT,
  answer   TEXT,
  at       TIMESTAMPTZ NOT NULL
);

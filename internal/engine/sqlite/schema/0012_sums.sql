-- Hashes of contracts and packets, with which two hubs find their differences. They
-- follow what the other tables hold; see sum.go in package rows.
CREATE TABLE IF NOT EXISTS contract_sums (
  project TEXT NOT NULL,
  id      TEXT NOT NULL,
  sum     TEXT NOT NULL,
  PRIMARY KEY (project, id)
) WITHOUT ROWID;

-- A part is a bucket of packets, 0 to 255, or the contracts, 256.
CREATE TABLE IF NOT EXISTS project_sums (
  project TEXT NOT NULL,
  part    INTEGER NOT NULL,
  count   INTEGER NOT NULL,
  sum     TEXT NOT NULL,
  PRIMARY KEY (project, part)
) WITHOUT ROWID;

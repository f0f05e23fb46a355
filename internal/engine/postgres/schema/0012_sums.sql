-- Hashes of contracts and packets, with which two hubs find their differences. They
-- follow what the other tables hold; see sum.go in package rows.
CREATE TABLE contract_sums (
  project TEXT NOT NULL,
  id      TEXT NOT NULL,
  sum     TEXT NOT NULL,
  PRIMARY KEY (project, id)
);

-- A part is a bucket of packets, 0 to 255, or the contracts, 256.
CREATE TABLE project_sums (
  project TEXT NOT NULL,
  part    BIGINT NOT NULL,
  count   BIGINT NOT NULL,
  sum     TEXT NOT NULL,
  PRIMARY KEY (project, part)
);

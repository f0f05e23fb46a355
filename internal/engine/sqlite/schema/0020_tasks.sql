-- The tasks of teams and the items of the hub's own queue. An item is a task without a team;
-- its title is its name. Before, items were rows of claims and a document of acp_meta.
CREATE TABLE IF NOT EXISTS tasks (
  n         INTEGER PRIMARY KEY,           -- T-n
  team      TEXT REFERENCES teams(id),     -- NULL for an item
  state     TEXT NOT NULL CHECK (state IN ('backlog','assigned','in_progress','in_review','rework','blocked','done','dropped')),
  owner     TEXT,
  revision  INTEGER NOT NULL,
  body_json TEXT NOT NULL,
  item      TEXT,                          -- the name of an item that is not over, else NULL
  CHECK ((item IS NOT NULL) = (team IS NULL AND state NOT IN ('done','dropped')))
);
CREATE INDEX IF NOT EXISTS tasks_team ON tasks(team, n);
CREATE INDEX IF NOT EXISTS tasks_state ON tasks(team, state, n);
CREATE INDEX IF NOT EXISTS tasks_owner ON tasks(owner, n) WHERE team IS NOT NULL;
CREATE UNIQUE INDEX IF NOT EXISTS tasks_item ON tasks(item);
CREATE INDEX IF NOT EXISTS tasks_claims ON tasks(owner, item) WHERE item IS NOT NULL;
CREATE TRIGGER IF NOT EXISTS tasks_fixed BEFORE UPDATE ON tasks WHEN OLD.state IN ('done','dropped') OR NEW.n <> OLD.n OR NEW.team IS NOT OLD.team
BEGIN
  SELECT RAISE(ABORT, 'a task that is over does not change');
END;

-- If this migration ran before, the former tables are gone, and there is nothing to move.
CREATE TABLE IF NOT EXISTS team_tasks (n, team, state, owner, revision, body_json);
CREATE TABLE IF NOT EXISTS claims (item, owner, claimed_at);

INSERT INTO tasks (n, team, state, owner, revision, body_json)
SELECT n, team, state, owner, revision, body_json FROM team_tasks;

-- The items that were added come first, in the order of the queue; then those that were only
-- claimed. json_patch leaves out the members that are NULL.
INSERT INTO tasks (n, state, owner, revision, body_json, item)
WITH
  queued AS (
    SELECT j.key AS place, j.value ->> 'item' AS item, j.value ->> 'by' AS added_by, j.value ->> 'at' AS added_at
    FROM acp_meta AS m, json_each(m.value) AS j WHERE m.key = 'workq'
  ),
  items AS (
    SELECT q.place, q.item, q.added_by, q.added_at, c.owner, c.claimed_at
    FROM queued AS q LEFT JOIN claims AS c ON c.item = q.item
    UNION ALL
    SELECT NULL, c.item, NULL, NULL, c.owner, c.claimed_at
    FROM claims AS c WHERE c.item NOT IN (SELECT item FROM queued)
  ),
  numbered AS (
    SELECT items.*, (SELECT coalesce(max(n), 0) FROM tasks) + row_number() OVER (ORDER BY place IS NULL, place, claimed_at, item) AS n,
      CASE WHEN owner IS NULL THEN 'backlog' ELSE 'in_progress' END AS state
    FROM items
  )
SELECT n, state, owner, 1, json_patch('{}', json_object('task_id', 'T-' || n, 'team', '', 'title', item, 'class', 'normal', 'state', state, 'owner', owner,
    'executors', CASE WHEN owner IS NOT NULL THEN json_array(owner) END, 'queue', 'not_applicable', 'created_by', coalesce(added_by, ''), 'created_at', added_at,
    'started_at', claimed_at, 'updated_at', coalesce(claimed_at, added_at))), item
FROM numbered;

DELETE FROM acp_meta WHERE key = 'workq';
DROP TABLE claims;
DROP TABLE team_tasks;

-- The tasks of teams and the items of the hub's own queue. An item is a task without a team;
-- its title is its name. Before, items were rows of claims and a document of acp_meta.
CREATE TABLE tasks (
  n         BIGINT PRIMARY KEY,            -- T-n
  team      TEXT REFERENCES teams(id),     -- NULL for an item
  state     TEXT NOT NULL CHECK (state IN ('backlog','assigned','in_progress','in_review','rework','blocked','done','dropped')),
  owner     TEXT,
  revision  BIGINT NOT NULL,
  body_json TEXT NOT NULL,
  item      TEXT,                          -- the name of an item that is not over, else NULL
  CHECK ((item IS NOT NULL) = (team IS NULL AND state NOT IN ('done','dropped')))
);
CREATE INDEX tasks_team ON tasks(team, n);
CREATE INDEX tasks_state ON tasks(team, state, n);
CREATE INDEX tasks_owner ON tasks(owner, n) WHERE team IS NOT NULL;
CREATE UNIQUE INDEX tasks_item ON tasks(item);
CREATE INDEX tasks_claims ON tasks(owner, item) WHERE item IS NOT NULL;
CREATE TRIGGER tasks_fixed BEFORE UPDATE ON tasks FOR EACH ROW
  WHEN (OLD.state IN ('done','dropped') OR NEW.n <> OLD.n OR NEW.team IS DISTINCT FROM OLD.team)
  EXECUTE FUNCTION refuse('a task that is over does not change');

INSERT INTO tasks (n, team, state, owner, revision, body_json)
SELECT n, team, state, owner, revision, body_json FROM team_tasks;

-- The items that were added come first, in the order of the queue; then those that were only
-- claimed. json_strip_nulls leaves out the members that are NULL.
INSERT INTO tasks (n, state, owner, revision, body_json, item)
WITH
  document AS MATERIALIZED (SELECT value::json AS list FROM acp_meta WHERE key = 'workq'),
  queued AS (
    SELECT j.place, j.value ->> 'item' AS item, j.value ->> 'by' AS added_by, j.value ->> 'at' AS added_at
    FROM document, json_array_elements(list) WITH ORDINALITY AS j(value, place)
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
SELECT n, state, owner, 1, json_strip_nulls(json_build_object('task_id', 'T-' || n, 'team', '', 'title', item, 'class', 'normal', 'state', state, 'owner', owner,
    'executors', CASE WHEN owner IS NOT NULL THEN json_build_array(owner) END, 'queue', 'not_applicable', 'created_by', coalesce(added_by, ''), 'created_at', added_at,
    'started_at', claimed_at, 'updated_at', coalesce(claimed_at, added_at)))::text, item
FROM numbered;

DELETE FROM acp_meta WHERE key = 'workq';
DROP TABLE claims;
DROP TABLE team_tasks;

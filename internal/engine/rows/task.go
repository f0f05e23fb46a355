package rows

import (
	"strconv"
	"strings"

	"github.com/parley-agents/parley/hub"
)

// tasks has the tasks of teams and the items of the hub's queue. The column item has the
// name of an item that is not over, so that its index keeps names unique.
var tasks = newTable("tasks", "task", "n, team, state, owner, revision, body_json, item", func(c *codec, t *hub.Task) {
	n := taskNumber(t.ID)
	c.int64(&n)
	c.optional((*string)(&t.Team))
	c.text((*string)(&t.State))
	c.optional((*string)(&t.Owner))
	c.int64(&t.Revision)
	c.encoded(t, false)
	item := ""
	if t.Team == "" && !t.State.Over() {
		item = t.Title
	}
	c.optional(&item)
})

var (
	taskByNumber = tasks.query(`WHERE n = ?1 AND team IS NOT NULL`)
	lastTask     = statement(`SELECT n FROM tasks WHERE n > 0 ORDER BY n DESC LIMIT 1`)
	putTask      = tasks.update(1, "team", ` AND revision = ?8`)
	countTasks   = statement(`WITH s(state) AS (VALUES ` + taskStates() + `) SELECT state, (SELECT count(*) FROM tasks t WHERE t.team = ?1 AND t.state = s.state) FROM s`)
)

// taskStates returns the states as rows of VALUES: to count each of them in the index
// takes two thirds of the time of grouping the tasks of a large team.
func taskStates() string {
	var rows []string
	for _, s := range hub.TaskStates {
		rows = append(rows, `('`+string(s)+`')`)
	}
	return strings.Join(rows, `, `)
}

// taskNumber returns the number in the name of a task, or 0 for a text that is no such
// name: every task has one name.
func taskNumber(id hub.TaskID) int64 {
	n, _ := strconv.ParseInt(strings.TrimPrefix(string(id), "T-"), 10, 64)
	if taskName(n) != id {
		return 0
	}
	return n
}

// taskName returns the name of the task with a number.
func taskName(n int64) hub.TaskID { return hub.TaskID("T-" + strconv.FormatInt(n, 10)) }

func (r *reader) Task(id hub.TaskID) (hub.Task, error) {
	return tasks.one(r, string(id), taskByNumber, taskNumber(id))
}

func (r *reader) Tasks(q hub.TaskQuery) ([]hub.Task, error) {
	var w filter
	switch {
	case q.Item != "":
		w.add(`item = ?`, q.Item)
	case q.ByName:
		w.add(`item IS NOT NULL`)
	case q.Queue:
		w.add(`team IS NULL AND item IS NOT NULL`)
	case q.Team != "":
		w.add(`team = ?`, string(q.Team))
	default:
		w.add(`team IS NOT NULL`)
	}
	w.equal("owner", string(q.Owner))
	if len(q.States) > 0 {
		var states []any
		for _, s := range q.States {
			states = append(states, string(s))
		}
		w.add(`state IN (?`+strings.Repeat(`, ?`, len(states)-1)+`)`, states...)
	}
	if q.ByName {
		return tasks.filtered(r, w, `ORDER BY item`, q.Limit)
	}
	if q.Newest {
		return tasks.filtered(r, w, `ORDER BY n DESC`, q.Limit)
	}
	w.add(`n > ?`, taskNumber(q.Cursor))
	return tasks.filtered(r, w, `ORDER BY n`, q.Limit)
}

func (r *reader) CountTasks(team hub.TeamID) (map[hub.TaskState]int, error) {
	q := r.query(countTasks)
	q.text(string(team))
	out := map[hub.TaskState]int{}
	for q.next() {
		if n := q.s.ColumnInt64(1); n > 0 {
			out[hub.TaskState(q.s.ColumnText(0))] = int(n)
		}
	}
	return out, engineError("store.CountTasks", q.done())
}

func (t *tx) PutTask(task hub.Task) (hub.TaskID, error) {
	was := task.Revision
	task.Revision++
	if was != 0 {
		return task.ID, tasks.put(t, string(task.ID), putTask, &task, was)
	}
	n, err := t.number(tasks.op(), lastTask)
	if err != nil {
		return "", err
	}
	for taken := true; taken; { // by a task that was handed over outside of a team
		n++
		handoffs, err := t.Handoffs(hub.HandoffQuery{Task: string(taskName(n)), Limit: 1})
		if err != nil {
			return "", err
		}
		taken = len(handoffs) > 0
	}
	task.ID = taskName(n)
	return task.ID, tasks.add(t, string(task.ID), &task)
}

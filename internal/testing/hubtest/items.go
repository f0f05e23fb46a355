package hubtest

import (
	"reflect"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
)

// addItem stores an item of the hub's queue and returns it as it is stored.
func (w *world) addItem(name string, state hub.TaskState, owner hub.AgentID) (t hub.Task) {
	w.Helper()
	t = hub.Task{Title: name, Class: hub.ClassNormal, State: state, Owner: owner, Queue: hub.QueueNone, CreatedBy: "ada", CreatedAt: epoch, UpdatedAt: epoch.Add(time.Minute)}
	w.update(func(tx hub.Tx) (err error) {
		t.ID, err = tx.WriteTeamspaces().PutTask(t)
		return err
	})
	t.Revision = 1
	return t
}

// putItem stores an item again and returns it as it is stored.
func (w *world) putItem(t hub.Task) hub.Task {
	w.Helper()
	w.update(func(tx hub.Tx) error { _, err := tx.WriteTeamspaces().PutTask(t); return err })
	t.Revision++
	return t
}

var itemTests = []storeTest{
	{"an item is found by its name until it is over", func(w *world) {
		find := func(want ...hub.Task) {
			w.Helper()
			w.view(func(r hub.Reader) error {
				got, err := r.Teamspaces().Tasks(hub.TaskQuery{Item: "say \"hello\" #1", Limit: 9})
				w.equal("item", got, want)
				return err
			})
		}
		find()
		t := w.addItem("say \"hello\" #1", hub.TaskBacklog, "")
		w.store = w.reopen()
		find(t)
		t.State, t.Owner = hub.TaskInProgress, "bob"
		t = w.putItem(t)
		find(t)
		t.State = hub.TaskDone
		t = w.putItem(t)
		find()
		w.refuse(hub.CodeInvalid, func(tx hub.Tx) error { _, err := tx.WriteTeamspaces().PutTask(t); return err })
	}},
	{"of two items with one name one is over", func(w *world) {
		t := w.addItem("a", hub.TaskInProgress, "ada")
		again := func(tx hub.Tx) error {
			_, err := tx.WriteTeamspaces().PutTask(hub.Task{Title: "a", State: hub.TaskBacklog, CreatedAt: epoch, UpdatedAt: epoch})
			return err
		}
		w.refuse(hub.CodeConflict, again)
		t.State = hub.TaskDropped
		w.putItem(t)
		w.update(again)
		w.refuse(hub.CodeConflict, again)
	}},
	{"an item changes only as its writer knows it", func(w *world) {
		first := w.addItem("a", hub.TaskBacklog, "")
		second := first
		first.State, first.Owner = hub.TaskInProgress, "ada"
		w.putItem(first)
		second.State, second.Owner = hub.TaskInProgress, "bob"
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { _, err := tx.WriteTeamspaces().PutTask(second); return err })
	}},
	{"items are listed oldest first or by name, and apart from the tasks of teams", func(w *world) {
		w.addTeam("core")
		w.addTask("core", hub.TaskInProgress, "ada")
		w.addItem("c", hub.TaskInProgress, "ada")
		w.addItem("b", hub.TaskBacklog, "")
		w.addItem("done", hub.TaskDone, "ada")
		w.addItem("a", hub.TaskInProgress, "ada")
		w.addItem("B", hub.TaskInProgress, "bob")
		owned := []hub.TaskState{hub.TaskInProgress}
		for _, test := range []struct {
			name string
			q    hub.TaskQuery
			want []string
		}{
			{"all", hub.TaskQuery{Queue: true, Limit: 9}, []string{"c", "b", "a", "B"}},
			{"a page", hub.TaskQuery{Queue: true, Cursor: "T-2", Limit: 2}, []string{"b", "a"}},
			{"free ones", hub.TaskQuery{Queue: true, States: []hub.TaskState{hub.TaskBacklog}, Limit: 9}, []string{"b"}},
			{"owned ones by name", hub.TaskQuery{Queue: true, States: owned, ByName: true, Limit: 9}, []string{"B", "a", "c"}},
			{"of an owner by name", hub.TaskQuery{Queue: true, Owner: "ada", States: owned, ByName: true, Limit: 9}, []string{"a", "c"}},
			{"a few by name", hub.TaskQuery{Queue: true, ByName: true, Limit: 2}, []string{"B", "a"}},
			{"tasks of teams", hub.TaskQuery{Limit: 9}, []string{"t"}},
			{"tasks of an owner", hub.TaskQuery{Owner: "ada", Limit: 9}, []string{"t"}},
			{"tasks of a team", hub.TaskQuery{Team: "core", Limit: 9}, []string{"t"}},
		} {
			w.view(func(r hub.Reader) error {
				all, err := r.Teamspaces().Tasks(test.q)
				names := []string{}
				for _, t := range all {
					names = append(names, t.Title)
				}
				w.equal(test.name, names, test.want)
				return err
			})
		}
		w.miss(hub.CodeNotFound, func(r hub.Reader) error { _, err := r.Teamspaces().Task("T-2"); return err })
	}},
}

// QueueBefore20 is SQL that fills a database of schema 19 with the queue of that version, its
// claims and the tasks of a team. CheckQueue finds them after the migration.
const QueueBefore20 = `
	INSERT INTO teams (id, lifecycle, revision, body_json) VALUES ('core', 'active', 1, '{"teamspace_id":"core","lifecycle":"active"}');
	INSERT INTO team_tasks (n, team, state, owner, revision, body_json) VALUES
		(1, 'core', 'done', 'ada', 4, '{"task_id":"T-1","team":"core","title":"old","state":"done","owner":"ada"}'),
		(3, 'core', 'in_progress', 'bob', 2, '{"task_id":"T-3","team":"core","title":"new","state":"in_progress","owner":"bob"}');
	INSERT INTO acp_meta (key, value) VALUES ('workq', '[
		{"item":"z#1","by":"ada","at":"2026-01-01T00:00:01.000Z"}, {"item":"say \"é\" <b>","by":"bob","at":"2026-01-01T00:00:02.000Z"},
		{"item":"a#1","by":"ada","at":"2026-01-01T00:00:03.000Z"}]');
	INSERT INTO claims (item, owner, claimed_at) VALUES ('a#1', 'bob', '2026-01-01T00:00:09.000Z'), ('alone', 'ada', '2026-01-01T00:00:08.000Z');`

// CheckQueue checks that a store has the items, owners, times and order of QueueBefore20,
// and that the queue goes on.
func CheckQueue(t *testing.T, store hub.Store) {
	t.Helper()
	at := func(second int) hub.Time { return hub.At(time.Date(2026, 1, 1, 0, 0, second, 0, time.UTC)) }
	item := func(id hub.TaskID, name string, by hub.AgentID, added int) hub.Task {
		return hub.Task{ID: id, Title: name, Class: hub.ClassNormal, State: hub.TaskBacklog, Queue: hub.QueueNone, CreatedBy: by, CreatedAt: at(added), UpdatedAt: at(added), Revision: 1}
	}
	owned := func(x hub.Task, owner hub.AgentID, claimed int) hub.Task {
		x.State = hub.TaskInProgress
		x.Owner = owner
		x.Executors = []hub.AgentID{owner}
		x.StartedAt = at(claimed)
		x.UpdatedAt = at(claimed)
		return x
	}
	alone := item("T-7", "alone", "", 0)
	alone.CreatedAt = hub.Time{}
	want := []hub.Task{item("T-4", "z#1", "ada", 1), item("T-5", "say \"é\" <b>", "bob", 2), owned(item("T-6", "a#1", "ada", 3), "bob", 9), owned(alone, "ada", 8)}

	err := store.Update(t.Context(), hub.SurvivesKill, func(tx hub.Tx) error {
		got, err := tx.Teamspaces().Tasks(hub.TaskQuery{Queue: true, Limit: 9})
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("items: got %+v (%v), want %+v", got, err, want)
		}
		teams, err := tx.Teamspaces().Tasks(hub.TaskQuery{Limit: 9})
		if err != nil || len(teams) != 2 || teams[0].Title != "old" || teams[0].Revision != 4 || teams[1].ID != "T-3" || teams[1].Owner != "bob" {
			t.Errorf("tasks of teams: got %+v (%v)", teams, err)
		}
		if text, err := tx.Meta("workq"); hub.CodeOf(err) != hub.CodeNotFound {
			t.Errorf("the document of the queue: got %s (%v), want none", text, err)
		}
		moved, err := want[0].Advance(hub.TaskDropped, at(10))
		if err == nil {
			_, err = tx.WriteTeamspaces().PutTask(moved)
		}
		if err != nil {
			return err
		}
		again := item("", "z#1", "ada", 10)
		again.Revision = 0
		id, err := tx.WriteTeamspaces().PutTask(again)
		if err == nil && id != "T-8" {
			t.Errorf("the next task is %s, want T-8", id)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

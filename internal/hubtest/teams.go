package hubtest

import (
	"encoding/json"

	"github.com/parley-agents/parley/hub"
)

// newTeam returns a team that is ready to be stored.
func newTeam(id hub.TeamID) hub.Team {
	return hub.Team{
		ID: id, Name: "say \"hello\"", Objective: "o", Lifecycle: hub.TeamForming, Policy: hub.DefaultTeamPolicy, CreatedBy: "ada", CreatedAt: epoch, UpdatedAt: epoch,
	}
}

// addTeam stores a team.
func (w *world) addTeam(id hub.TeamID) {
	w.Helper()
	w.update(func(tx hub.Tx) error { return tx.PutTeam(newTeam(id)) })
}

// addTask stores a task and returns it as it is stored.
func (w *world) addTask(team hub.TeamID, state hub.TaskState, owner hub.AgentID) (t hub.Task) {
	w.Helper()
	t = hub.Task{Team: team, Title: "t", Class: hub.ClassNormal, State: state, Owner: owner, Queue: hub.QueueNone, CreatedBy: "ada", CreatedAt: epoch, UpdatedAt: epoch}
	w.update(func(tx hub.Tx) (err error) {
		t.ID, err = tx.PutTask(t)
		return err
	})
	t.Revision = 1
	return t
}

var teamTests = []storeTest{
	{"a team is found as it was added, and changes only as its writer knows it", func(w *world) {
		t := newTeam("core")
		t.Overrides = hub.Matrix{hub.MayBlock: {hub.RoleReviewer: hub.PermitDeny}}
		t.Proposals = []hub.RoleProposal{{Agent: "bob", Role: hub.RoleReviewer, By: "ada", Needs: []hub.AgentID{"bob"}, At: epoch}}
		w.update(func(tx hub.Tx) error { return tx.PutTeam(t) })
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.PutTeam(t) })
		w.store = w.reopen()
		t.Revision = 1
		w.view(func(r hub.Reader) error {
			got, err := r.Team("core")
			w.equal("team", got, t)
			return err
		})
		w.miss(hub.CodeNotFound, func(r hub.Reader) error { _, err := r.Team("nothing"); return err })
		t.Lifecycle = hub.TeamArchived
		w.update(func(tx hub.Tx) error { return tx.PutTeam(t) })
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.PutTeam(t) })
		t.Revision = 2
		w.refuse(hub.CodeInvalid, func(tx hub.Tx) error { return tx.PutTeam(t) })
	}},
	{"teams are listed by name, those of a member and those that are not archived", func(w *world) {
		w.people("ada", "bob")
		for _, id := range []hub.TeamID{"a", "b", "c"} {
			w.addTeam(id)
		}
		w.update(func(tx hub.Tx) error {
			if err := tx.PutMember(hub.Member{Team: "b", Agent: "ada", Role: hub.RoleExecutor, Since: epoch, By: "bob", Reason: "joined"}); err != nil {
				return err
			}
			t, err := tx.Team("c")
			if err != nil {
				return err
			}
			t.Lifecycle = hub.TeamArchived
			return tx.PutTeam(t)
		})
		for _, test := range []struct {
			name string
			q    hub.TeamQuery
			want []hub.TeamID
		}{
			{"all but archived ones", hub.TeamQuery{Limit: 9}, []hub.TeamID{"a", "b"}},
			{"all", hub.TeamQuery{Limit: 9, All: true}, []hub.TeamID{"a", "b", "c"}},
			{"archived ones", hub.TeamQuery{Limit: 9, Lifecycle: hub.TeamArchived}, []hub.TeamID{"c"}},
			{"a page", hub.TeamQuery{Limit: 1, Cursor: "a"}, []hub.TeamID{"b"}},
			{"those of ada", hub.TeamQuery{Limit: 9, Member: "ada"}, []hub.TeamID{"b"}},
			{"none of bob", hub.TeamQuery{Limit: 9, Member: "bob"}, []hub.TeamID{}},
		} {
			w.view(func(r hub.Reader) error {
				all, err := r.Teams(test.q)
				ids := []hub.TeamID{}
				for _, t := range all {
					ids = append(ids, t.ID)
				}
				w.equal(test.name, ids, test.want)
				return err
			})
		}
	}},
	{"an agent has one role in a team at a time, and the ledger keeps the earlier ones", func(w *world) {
		w.people("ada", "bob")
		w.addTeam("core")
		first := hub.Member{Team: "core", Agent: "ada", Role: hub.RoleExecutor, Since: epoch, By: "bob", Reason: "joined"}
		w.update(func(tx hub.Tx) error { return tx.PutMember(first) })
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.PutMember(first) })
		ended := first
		ended.N, ended.Until, ended.Ending = 1, epoch, "coverage"
		second := first
		second.Role, second.Reason, second.N = hub.RoleReviewer, "coverage", 2
		w.update(func(tx hub.Tx) error {
			if err := tx.PutMember(ended); err != nil {
				return err
			}
			next := second
			next.N = 0
			return tx.PutMember(next)
		})
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.PutMember(ended) })
		w.store = w.reopen()
		for _, test := range []struct {
			name string
			q    hub.MemberQuery
			want []hub.Member
		}{
			{"now", hub.MemberQuery{Team: "core", Limit: 9}, []hub.Member{second}},
			{"the ledger", hub.MemberQuery{Team: "core", Ended: true, Limit: 9}, []hub.Member{ended, second}},
			{"a page of it", hub.MemberQuery{Team: "core", Ended: true, After: 1, Limit: 9}, []hub.Member{second}},
			{"of ada", hub.MemberQuery{Agent: "ada", Limit: 9}, []hub.Member{second}},
			{"of bob", hub.MemberQuery{Agent: "bob", Limit: 9}, nil},
		} {
			w.view(func(r hub.Reader) error {
				got, err := r.Members(test.q)
				w.equal(test.name, got, test.want)
				return err
			})
		}
	}},
	{"a task has an id of the hub, changes only as its writer knows it, and not when it is over", func(w *world) {
		w.addTeam("a")
		w.addTeam("b")
		t := w.addTask("a", hub.TaskBacklog, "")
		w.equal("ids", []hub.TaskID{t.ID, w.addTask("b", hub.TaskBacklog, "").ID}, []hub.TaskID{"T-1", "T-2"})
		w.store = w.reopen()
		w.view(func(r hub.Reader) error {
			got, err := r.Task("T-1")
			w.equal("task", got, t)
			return err
		})
		w.miss(hub.CodeNotFound, func(r hub.Reader) error { _, err := r.Task("T-9"); return err })
		t.State = hub.TaskDropped
		put := func(tx hub.Tx) error { _, err := tx.PutTask(t); return err }
		w.update(put)
		w.refuse(hub.CodeConflict, put)
		t.Revision = 2
		w.refuse(hub.CodeInvalid, put)
	}},
	{"tasks are listed oldest first, and counted by state", func(w *world) {
		w.addTeam("a")
		w.addTeam("b")
		w.addTask("a", hub.TaskBacklog, "")
		w.addTask("a", hub.TaskInProgress, "ada")
		w.addTask("b", hub.TaskInProgress, "ada")
		w.addTask("a", hub.TaskInProgress, "bob")
		for _, test := range []struct {
			name string
			q    hub.TaskQuery
			want []hub.TaskID
		}{
			{"of a team", hub.TaskQuery{Team: "a", Limit: 9}, []hub.TaskID{"T-1", "T-2", "T-4"}},
			{"a page", hub.TaskQuery{Team: "a", Cursor: "T-1", Limit: 1}, []hub.TaskID{"T-2"}},
			{"in a state", hub.TaskQuery{Team: "a", States: []hub.TaskState{hub.TaskInProgress, hub.TaskDone}, Limit: 9}, []hub.TaskID{"T-2", "T-4"}},
			{"of an owner", hub.TaskQuery{Owner: "ada", Limit: 9}, []hub.TaskID{"T-2", "T-3"}},
		} {
			w.view(func(r hub.Reader) error {
				all, err := r.Tasks(test.q)
				ids := []hub.TaskID{}
				for _, t := range all {
					ids = append(ids, t.ID)
				}
				w.equal(test.name, ids, test.want)
				return err
			})
		}
		w.view(func(r hub.Reader) error {
			got, err := r.CountTasks("a")
			w.equal("counts", got, map[hub.TaskState]int{hub.TaskBacklog: 1, hub.TaskInProgress: 2})
			return err
		})
	}},
	{"messages of a team are found by its members, and by those who were members when they were sent", func(w *world) {
		w.people("ada", "bob", "cyd", "dan")
		w.addTeam("core")
		for _, id := range []hub.AgentID{"ada", "cyd"} {
			w.update(func(tx hub.Tx) error {
				return tx.PutMember(hub.Member{Team: "core", Agent: id, Role: hub.RoleExecutor, Since: epoch, By: "bob", Reason: "joined"})
			})
		}
		send := func(v hub.Visibility) hub.Message {
			m := w.message("ada", "bob")
			m.Team, m.Policy.Visibility = "core", v
			return w.add(m)
		}
		first, private := send(hub.VisibilityTeam), send(hub.VisibilityPrivate)
		w.update(func(tx hub.Tx) error {
			all, err := tx.Members(hub.MemberQuery{Team: "core", Agent: "cyd", Limit: 1})
			if err != nil {
				return err
			}
			all[0].Until, all[0].Ending = w.ids.Next().Time(), "left"
			return tx.PutMember(all[0])
		})
		last := send(hub.VisibilityTeam)
		w.indexText()
		for _, test := range []struct {
			viewer hub.AgentID
			change func(*hub.Query)
			want   []hub.EnvelopeID
		}{
			{"ada", nil, []hub.EnvelopeID{last.ID, private.ID, first.ID}},
			{"bob", nil, []hub.EnvelopeID{last.ID, private.ID, first.ID}},
			{"cyd", nil, []hub.EnvelopeID{first.ID}},
			{"cyd", func(q *hub.Query) { q.Text = "done" }, []hub.EnvelopeID{first.ID}},
			{"cyd", func(q *hub.Query) { q.Team, q.Thread = "", first.ThreadID }, []hub.EnvelopeID{first.ID}},
			{"dan", nil, []hub.EnvelopeID{}},
			{"dan", func(q *hub.Query) { q.Text = "done" }, []hub.EnvelopeID{}},
		} {
			q := hub.Query{Viewer: test.viewer, Team: "core", Limit: 9}
			if test.change != nil {
				test.change(&q)
			}
			w.view(func(r hub.Reader) error {
				got, err := r.Query(q)
				w.equal(string(test.viewer), idsOf(got.Messages), test.want)
				return err
			})
		}
	}},
	{"a held action waits until its verdict, which is given once", func(w *world) {
		w.addTeam("a")
		h := hub.HeldAction{ID: string(w.ids.Next()), Team: "a", Actor: "ada", Action: "close", Request: json.RawMessage(`{"action":"close"}`), At: epoch}
		w.update(func(tx hub.Tx) error { return tx.PutHeldAction(h) })
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.PutHeldAction(h) })
		w.view(func(r hub.Reader) error {
			got, err := r.HeldActions(9)
			w.equal("waiting", got, []hub.HeldAction{h})
			return err
		})
		h.Verdict, h.By, h.EndedAt = "denied", hub.Operator, epoch
		w.update(func(tx hub.Tx) error { return tx.PutHeldAction(h) })
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.PutHeldAction(h) })
		w.view(func(r hub.Reader) error {
			got, err := r.HeldActions(9)
			w.equal("none waits", len(got), 0)
			if err == nil {
				h2, err2 := r.HeldAction(h.ID)
				w.equal("kept", h2, h)
				err = err2
			}
			return err
		})
	}},
}

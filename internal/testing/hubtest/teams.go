package hubtest

import (
	"encoding/json"
	"time"

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
	w.update(func(tx hub.Tx) error { return tx.WriteTeamspaces().PutTeam(newTeam(id)) })
}

// addTask stores a task and returns it as it is stored.
func (w *world) addTask(team hub.TeamID, state hub.TaskState, owner hub.AgentID) (t hub.Task) {
	w.Helper()
	t = hub.Task{Team: team, Title: "t", Class: hub.ClassNormal, State: state, Owner: owner, Queue: hub.QueueNone, CreatedBy: "ada", CreatedAt: epoch, UpdatedAt: epoch}
	w.update(func(tx hub.Tx) (err error) {
		t.ID, err = tx.WriteTeamspaces().PutTask(t)
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
		w.update(func(tx hub.Tx) error { return tx.WriteTeamspaces().PutTeam(t) })
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.WriteTeamspaces().PutTeam(t) })
		w.store = w.reopen()
		t.Revision = 1
		w.view(func(r hub.Reader) error {
			got, err := r.Teamspaces().Team("core")
			w.equal("team", got, t)
			return err
		})
		w.miss(hub.CodeNotFound, func(r hub.Reader) error { _, err := r.Teamspaces().Team("nothing"); return err })
		t.Lifecycle = hub.TeamArchived
		w.update(func(tx hub.Tx) error { return tx.WriteTeamspaces().PutTeam(t) })
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.WriteTeamspaces().PutTeam(t) })
		t.Revision = 2
		w.refuse(hub.CodeInvalid, func(tx hub.Tx) error { return tx.WriteTeamspaces().PutTeam(t) })
	}},
	{"teams are listed by name, those of a member and those that are not archived", func(w *world) {
		w.people("ada", "bob")
		for _, id := range []hub.TeamID{"a", "b", "c"} {
			w.addTeam(id)
		}
		w.update(func(tx hub.Tx) error {
			if err := tx.WriteTeamspaces().PutMember(hub.Member{Team: "b", Agent: "ada", Role: hub.RoleExecutor, Since: epoch, By: "bob", Reason: "joined"}); err != nil {
				return err
			}
			t, err := tx.Teamspaces().Team("c")
			if err != nil {
				return err
			}
			t.Lifecycle = hub.TeamArchived
			return tx.WriteTeamspaces().PutTeam(t)
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
				all, err := r.Teamspaces().Teams(test.q)
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
		w.update(func(tx hub.Tx) error { return tx.WriteTeamspaces().PutMember(first) })
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.WriteTeamspaces().PutMember(first) })
		ended := first
		ended.N = 1
		ended.Until = epoch
		ended.Ending = "coverage"
		second := first
		second.Role = hub.RoleReviewer
		second.Reason = "coverage"
		second.N = 2
		w.update(func(tx hub.Tx) error {
			if err := tx.WriteTeamspaces().PutMember(ended); err != nil {
				return err
			}
			next := second
			next.N = 0
			return tx.WriteTeamspaces().PutMember(next)
		})
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.WriteTeamspaces().PutMember(ended) })
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
				got, err := r.Teamspaces().Members(test.q)
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
			got, err := r.Teamspaces().Task("T-1")
			w.equal("task", got, t)
			return err
		})
		w.miss(hub.CodeNotFound, func(r hub.Reader) error { _, err := r.Teamspaces().Task("T-9"); return err })
		t.State = hub.TaskDropped
		put := func(tx hub.Tx) error { _, err := tx.WriteTeamspaces().PutTask(t); return err }
		w.update(put)
		w.refuse(hub.CodeConflict, put)
		t.Revision = 2
		w.refuse(hub.CodeInvalid, put)
	}},
	{"a task has one name, and one that no handoff has", func(w *world) {
		w.addTeam("a")
		w.addTask("a", hub.TaskBacklog, "")
		w.hand("T-2", "ada", "bob")
		w.hand("T-3", "ada", "bob")
		w.equal("next id", w.addTask("a", hub.TaskBacklog, "").ID, hub.TaskID("T-4"))
		for _, id := range []hub.TaskID{"1", "T-01", "T-+1", "t-1"} {
			w.miss(hub.CodeNotFound, func(r hub.Reader) error { _, err := r.Teamspaces().Task(id); return err })
		}
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
				all, err := r.Teamspaces().Tasks(test.q)
				ids := []hub.TaskID{}
				for _, t := range all {
					ids = append(ids, t.ID)
				}
				w.equal(test.name, ids, test.want)
				return err
			})
		}
		w.view(func(r hub.Reader) error {
			got, err := r.Teamspaces().CountTasks("a")
			w.equal("counts", got, map[hub.TaskState]int{hub.TaskBacklog: 1, hub.TaskInProgress: 2})
			return err
		})
	}},
	{"messages of a team are found by its members, and by those who were members when they were sent", func(w *world) {
		w.people("ada", "bob", "cyd", "dan")
		w.addTeam("core")
		for _, id := range []hub.AgentID{"ada", "cyd"} {
			w.update(func(tx hub.Tx) error {
				return tx.WriteTeamspaces().PutMember(hub.Member{Team: "core", Agent: id, Role: hub.RoleExecutor, Since: epoch, By: "bob", Reason: "joined"})
			})
		}
		send := func(v hub.Visibility) hub.Message {
			m := w.message("ada", "bob")
			m.Team, m.Policy.Visibility = "core", v
			return w.add(m)
		}
		first, private := send(hub.VisibilityTeam), send(hub.VisibilityPrivate)
		w.update(func(tx hub.Tx) error {
			all, err := tx.Teamspaces().Members(hub.MemberQuery{Team: "core", Agent: "cyd", Limit: 1})
			if err != nil {
				return err
			}
			all[0].Until, all[0].Ending = w.ids.Next().Time(), "left"
			return tx.WriteTeamspaces().PutMember(all[0])
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
		w.update(func(tx hub.Tx) error { return tx.WriteTeamspaces().PutHeldAction(h) })
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.WriteTeamspaces().PutHeldAction(h) })
		w.view(func(r hub.Reader) error {
			got, err := r.Teamspaces().HeldActions(9)
			w.equal("waiting", got, []hub.HeldAction{h})
			return err
		})
		h.Verdict = "denied"
		h.By = hub.Operator
		h.EndedAt = epoch
		w.update(func(tx hub.Tx) error { return tx.WriteTeamspaces().PutHeldAction(h) })
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.WriteTeamspaces().PutHeldAction(h) })
		w.view(func(r hub.Reader) error {
			got, err := r.Teamspaces().HeldActions(9)
			w.equal("none waits", len(got), 0)
			if err == nil {
				h2, err2 := r.Teamspaces().HeldAction(h.ID)
				w.equal("kept", h2, h)
				err = err2
			}
			return err
		})
	}},
}

// addArtifact stores an artifact with its first version.
func (w *world) addArtifact(team hub.TeamID, id string) (hub.TeamArtifact, hub.ArtifactVersion) {
	w.Helper()
	a := hub.TeamArtifact{Team: team, ID: id, Version: 1, Versions: 1, SHA256: "aa", Size: 2, Author: "ada", At: epoch, Sensitivity: hub.SensitivityLow, State: hub.MergeClean}
	v := hub.ArtifactVersion{Team: team, Artifact: id, Version: 1, SHA256: "aa", Size: 2, Author: "ada", At: epoch, Note: "n"}
	w.update(func(tx hub.Tx) error {
		if err := tx.WriteTeamspaces().PutTeamArtifact(a); err != nil {
			return err
		}
		return tx.WriteTeamspaces().AddArtifactVersion(v)
	})
	a.Revision = 1
	return a, v
}

var artifactTests = []storeTest{
	{"an artifact is found in every case of its name, and changes only as its writer knows it", func(w *world) {
		w.addTeam("core")
		w.addTeam("other")
		a, _ := w.addArtifact("core", "docs/Plan.md")
		w.addArtifact("other", "docs/plan.md")
		twin := a
		twin.ID, twin.Revision = "DOCS/plan.md", 0
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.WriteTeamspaces().PutTeamArtifact(twin) })
		w.store = w.reopen()
		w.view(func(r hub.Reader) error {
			got, err := r.Teamspaces().TeamArtifact("core", "docs/plan.MD")
			w.equal("artifact", got, a)
			return err
		})
		w.miss(hub.CodeNotFound, func(r hub.Reader) error { _, err := r.Teamspaces().TeamArtifact("core", "docs"); return err })
		a.Version, a.Beside = 2, []int64{3}
		w.update(func(tx hub.Tx) error { return tx.WriteTeamspaces().PutTeamArtifact(a) })
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.WriteTeamspaces().PutTeamArtifact(a) })
	}},
	{"artifacts are listed by name, and those of a folder", func(w *world) {
		w.addTeam("core")
		for _, id := range []string{"docs/b", "docs.md", "docs/a/x", "Zed", "docs0"} {
			w.addArtifact("core", id)
		}
		for _, test := range []struct {
			name string
			q    hub.ArtifactQuery
			want []string
		}{
			{"all", hub.ArtifactQuery{Team: "core", Limit: 9}, []string{"docs.md", "docs/a/x", "docs/b", "docs0", "Zed"}},
			{"a page", hub.ArtifactQuery{Team: "core", Cursor: "docs/b", Limit: 1}, []string{"docs0"}},
			{"a folder", hub.ArtifactQuery{Team: "core", Under: "Docs", Limit: 9}, []string{"docs/a/x", "docs/b"}},
			{"no folder", hub.ArtifactQuery{Team: "core", Under: "docs/b", Limit: 9}, nil},
		} {
			w.view(func(r hub.Reader) error {
				all, err := r.Teamspaces().TeamArtifacts(test.q)
				var ids []string
				for _, a := range all {
					ids = append(ids, a.ID)
				}
				w.equal(test.name, ids, test.want)
				return err
			})
		}
	}},
	{"R3-154 a version is stored once and never changes, and its content stays", func(w *world) {
		w.addTeam("core")
		_, first := w.addArtifact("core", "Plan")
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.WriteTeamspaces().AddArtifactVersion(first) })
		second := first
		second.Version = 2
		second.SHA256 = "bb"
		second.Parent = 1
		second.Parents = []int64{1, 1}
		w.update(func(tx hub.Tx) error { return tx.WriteTeamspaces().AddArtifactVersion(second) })
		w.store = w.reopen()
		w.view(func(r hub.Reader) error {
			got, err := r.Teamspaces().ArtifactVersion("core", "plan", 2)
			w.equal("version", got, second)
			return err
		})
		w.miss(hub.CodeNotFound, func(r hub.Reader) error { _, err := r.Teamspaces().ArtifactVersion("core", "plan", 3); return err })
		for before, want := range map[int64][]hub.ArtifactVersion{0: {second, first}, 2: {first}, 1: nil} {
			w.view(func(r hub.Reader) error {
				got, err := r.Teamspaces().ArtifactVersions(hub.VersionQuery{Team: "core", Artifact: "plan", Before: before, Limit: 9})
				w.equal("versions", got, want)
				return err
			})
		}
		w.view(func(r hub.Reader) error {
			named, err := r.NamesArtifact("bb")
			w.equal("named", named, true)
			return err
		})
	}},
	{"R3-161 a conflict is found while it is open and when it is due, and a resolved one does not change", func(w *world) {
		w.addTeam("core")
		w.addArtifact("core", "Plan")
		later := epoch.Add(time.Hour)
		c := hub.Conflict{Team: "core", Artifact: "Plan", Version: 1, Newest: 1, State: hub.MergeManual, Author: "ada", At: epoch, DueAt: later}
		w.update(func(tx hub.Tx) error { return tx.WriteTeamspaces().PutConflict(c) })
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.WriteTeamspaces().PutConflict(c) })
		w.store = w.reopen()
		c.Revision = 1
		find := func(name string, q hub.ConflictQuery, want ...hub.Conflict) {
			w.Helper()
			q.Limit = 9
			w.view(func(r hub.Reader) error {
				got, err := r.Teamspaces().Conflicts(q)
				w.equal(name, got, want)
				return err
			})
		}
		find("open", hub.ConflictQuery{Team: "core", Artifact: "plan", Open: true}, c)
		find("of a version", hub.ConflictQuery{Team: "core", Artifact: "plan", Version: 1}, c)
		find("of another version", hub.ConflictQuery{Team: "core", Artifact: "plan", Version: 2})
		find("in a state", hub.ConflictQuery{Open: true, State: hub.MergeManual}, c)
		find("in another state", hub.ConflictQuery{Open: true, State: hub.MergeEscalated})
		find("due", hub.ConflictQuery{Due: later}, c)
		find("not due", hub.ConflictQuery{Due: epoch})
		c.State, c.DueAt = hub.MergeResolved, hub.Time{}
		w.update(func(tx hub.Tx) error { return tx.WriteTeamspaces().PutConflict(c) })
		c.Revision = 2
		w.refuse(hub.CodeInvalid, func(tx hub.Tx) error { return tx.WriteTeamspaces().PutConflict(c) })
		find("open after the end", hub.ConflictQuery{Open: true})
		find("all", hub.ConflictQuery{}, c)
	}},
}

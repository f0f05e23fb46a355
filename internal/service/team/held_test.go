package team_test

import (
	"encoding/json"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/team"
)

// hold stores a held operation as an earlier release did.
func (r *room) hold(by hub.AgentID, action, request string) string {
	r.Helper()
	id := string(hub.NewIDs(r.clock).Next())
	h := hub.HeldAction{ID: id, Team: "auth", Actor: by, Action: action, Request: json.RawMessage(request), At: r.clock.Now()}
	if err := r.store.Update(r.Context(), hub.SurvivesKill, func(tx hub.Tx) error { return tx.WriteTeamspaces().PutHeldAction(h) }); err != nil {
		r.Fatal(err)
	}
	return id
}

// stored returns the request of a held operation.
func (r *room) stored(id string) string {
	r.Helper()
	h, err := hub.Read(r.Context(), r.store, func(rd hub.Reader) (hub.HeldAction, error) { return rd.Teamspaces().HeldAction(id) })
	if err != nil {
		r.Fatal(err)
	}
	return string(h.Request)
}

func TestHeldRequests(t *testing.T) {
	t.Run("operations that an earlier release held are performed", func(t *testing.T) {
		r := open(t)
		r.work(nil)
		r.newTask("", false)
		approve := func(by hub.AgentID, action, request string) {
			t.Helper()
			if _, err := r.teams.Approve(t.Context(), operator, r.hold(by, action, request)); err != nil {
				t.Errorf("%s: %v", request, err)
			}
		}
		task := func(id hub.TaskID) hub.Task { return *r.must(ana, team.ReadTask{Task: id}).Task }

		// Members of other actions were stored as they came.
		approve("ana", "task", `{"action":"task","team":"auth","title":"rotate","class":"guarded","owner":"bo","depends_on":["T-1"],"limit":7}`)
		if got := task("T-2"); got.Owner != "bo" || got.Class != hub.ClassGuarded || len(got.DependsOn) != 1 {
			t.Errorf("create a task: got %+v", got)
		}
		approve("ana", "task", `{"action":"task","team":"auth","task":"T-2","reviewer":"cy","depends_on":[]}`)
		if got := task("T-2"); got.Reviewer != "cy" || len(got.DependsOn) != 0 {
			t.Errorf("change a task: got %+v", got)
		}
		approve("ana", "task", `{"action":"task","team":"auth","reason":"not needed","task":"T-1","state":"dropped"}`)
		if got := task("T-1"); got.State != hub.TaskDropped || got.Reason != "not needed" {
			t.Errorf("move a task: got %+v", got)
		}

		approve("ana", "add", `{"action":"add","team":"auth","agent":"eve","role":"researcher"}`)
		approve("ana", "role", `{"action":"role","team":"auth","agent":"eve","role":"reviewer","reason":"coverage"}`)
		approve("ana", "role", `{"action":"role","team":"auth","agent":"eve","role":"integrator"}`)
		approve("eve", "role", `{"action":"role","team":"auth","agent":"eve","accept":true}`)
		if got := r.must(eve, team.Show{}).Team.You; got != hub.RoleIntegrator {
			t.Errorf("add and role: eve is %q", got)
		}
		approve("ana", "remove", `{"action":"remove","team":"auth","agent":"eve","reason":"done"}`)
		r.refuse(eve, team.Show{}, hub.CodeNotFound, "no team")

		approve("bo", "artifact", `{"action":"artifact","team":"auth","artifact":"a","parent_version":0,"content":"one","sensitivity":"high"}`)
		approve("bo", "artifact", `{"action":"artifact","team":"auth","artifact":"a","parent_version":1,"content":"dHdv","encoding":"base64","note":"n"}`)
		approve("bo", "artifact", `{"action":"artifact","team":"auth","artifact":"a","parent_version":1,"content":"three"}`)
		approve("di", "merge", `{"action":"merge","team":"auth","artifact":"a","content":"two three","parents":[2,3]}`)
		approve("cy", "merge", `{"action":"merge","team":"auth","artifact":"a","sign_off":true}`)
		if got := r.must(ana, team.ReadArtifact{Artifact: "a"}); *got.Content != "two three" || got.Artifact.State != hub.MergeResolved {
			t.Errorf("put, merge and sign: got %+v", got.Artifact)
		}

		approve("ana", "decide", `{"action":"decide","team":"auth","title":"t","decision":"d","rationale":"r"}`)
		if got := r.must(ana, team.ListDecisions{}).Decisions; len(got) != 1 || got[0].Title != "t" {
			t.Errorf("decide: got %+v", got)
		}

		approve("ana", "task", `{"action":"task","team":"auth","reason":"x","task":"T-2","state":"dropped"}`)
		approve("ana", "status", `{"action":"status","team":"auth","lifecycle":"stabilizing"}`)
		approve("ana", "status", `{"action":"status","team":"auth","lifecycle":"closed","anyway":true}`)
		approve("ana", "archive", `{"action":"archive","team":"auth"}`)
		if got := r.must(ana, team.Show{}).Team.Lifecycle; got != hub.TeamArchived {
			t.Errorf("status, close and archive: got %s", got)
		}
	})
	t.Run("a held operation is stored with its action, its team and its members", func(t *testing.T) {
		r := open(t)
		r.work(nil)
		r.must(bo, team.PutArtifact{Artifact: "a", Content: team.Text("one"), Sensitivity: hub.SensitivityHigh})
		r.must(bo, team.PutArtifact{Artifact: "a", Parent: 1, Content: team.Text("two")})
		r.must(bo, team.PutArtifact{Artifact: "a", Parent: 1, Content: team.Text("three")})
		merged := team.Merge{Artifact: "a", Content: team.Text("two three"), Parents: []int64{2, 3}}
		r.must(ana, team.ChangeRole{Agent: "bo", Role: hub.RoleResearcher})
		r.newTask("", false)
		for _, test := range []struct {
			as   hub.Caller
			q    team.Request
			want string
		}{
			{ana, team.AddMember{Agent: "eve", Role: hub.RoleResearcher}, `{"action":"add","team":"auth","agent":"eve","role":"researcher"}`},
			{ana, team.RemoveMember{Agent: "bo"}, `{"action":"remove","team":"auth","agent":"bo"}`},
			{ana, team.ChangeRole{Agent: "bo", Role: hub.RoleReviewer, SwapWith: "cy", Reason: "coverage"}, `{"action":"role","team":"auth","agent":"bo","role":"reviewer","swap_with":"cy","reason":"coverage"}`},
			{bo, team.AnswerRole{Agent: "bo"}, `{"action":"role","team":"auth","agent":"bo","accept":false}`},
			{ana, team.CreateTask{Title: "t", Owner: "bo"}, `{"action":"task","team":"auth","title":"t","owner":"bo"}`},
			{ana, team.ChangeTask{Task: "T-1", DependsOn: new([]hub.TaskID{})}, `{"action":"task","team":"auth","task":"T-1","depends_on":[]}`},
			{ana, team.MoveTask{Task: "T-1", State: hub.TaskDropped, Reason: "x"}, `{"action":"task","team":"auth","task":"T-1","state":"dropped","reason":"x"}`},
			{ana, team.Decide{Decision: "d", Rationale: "r"}, `{"action":"decide","team":"auth","decision":"d","rationale":"r"}`},
			{bo, team.PutArtifact{Artifact: "b", Content: team.Text(""), Note: "n"}, `{"action":"artifact","team":"auth","artifact":"b","parent_version":0,"content":"","note":"n"}`},
			{di, merged, `{"action":"merge","team":"auth","artifact":"a","content":"two three","parents":[2,3]}`},
			{ana, team.Move{Lifecycle: hub.TeamStabilizing}, `{"action":"status","team":"auth","lifecycle":"stabilizing"}`},
		} {
			r.gate(team.Gateable...)
			held := r.must(test.as, test.q)
			if got := r.stored(held.ID); held.Status != "held" || got != test.want {
				t.Errorf("%T: got %s %s, want %s", test.q, held.Status, got, test.want)
			}
		}

		// Actions that need what the gate keeps from happening.
		r.gate()
		r.must(di, merged)
		r.move(ana, "T-1", hub.TaskDropped, "x")
		r.gate(team.Gateable...)
		for want, got := range map[string]team.Answer{
			`{"action":"merge","team":"auth","artifact":"a","sign_off":true}`: r.must(cy, team.SignMerge{Artifact: "a"}),
			`{"action":"close","team":"auth","anyway":true}`:                  r.must(ana, team.Close{Anyway: true}),
		} {
			if raw := r.stored(got.ID); raw != want {
				t.Errorf("got %s, want %s", raw, want)
			}
		}
	})
}

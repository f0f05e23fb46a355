package server_test

import (
	"encoding/json"
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/team"
)

// A toolbox is an agent that has nothing but the tools of the hub.
type toolbox struct {
	at      *running
	key     string
	session string
}

// tools opens an MCP session with the key of an agent.
func (r *running) tools(t *testing.T, key string) *toolbox {
	t.Helper()
	b := &toolbox{at: r, key: key}
	began := b.post(t, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
	b.session = began.header.Get("Mcp-Session-Id")
	b.post(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return b
}

func (b *toolbox) post(t *testing.T, body string) answer {
	t.Helper()
	return b.at.do(t, http.MethodPost, "/mcp", b.key, strings.NewReader(body), func(r *http.Request) {
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		if b.session != "" {
			r.Header.Set("Mcp-Session-Id", b.session)
		}
	})
}

// use calls a tool and returns the text that the agent reads.
func (b *toolbox) use(t *testing.T, tool string, args m) string {
	t.Helper()
	text, _ := b.try(t, tool, args)
	return text
}

// try is use that reports whether the tool succeeded.
func (b *toolbox) try(t *testing.T, tool string, args m) (string, bool) {
	t.Helper()
	a := b.post(t, object(t, m{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": m{"name": tool, "arguments": args}}))
	var got struct {
		Content []struct{ Text string }
		IsError bool
	}
	if err := json.Unmarshal(a.Result, &got); err != nil || len(got.Content) == 0 {
		t.Fatalf("%s: %s", tool, a.body)
	}
	return got.Content[0].Text, !got.IsError
}

// has fails the test unless a text has all parts.
func has(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in %q", part, text)
		}
	}
}

// team makes an active team of agents that are added with their roles, and returns their keys.
func (r *running) team(t *testing.T, id hub.TeamID, policy *team.Policy, seats ...team.Seat) map[hub.AgentID]string {
	t.Helper()
	keys := map[hub.AgentID]string{}
	for _, s := range seats {
		keys[s.Agent] = r.add(t, s.Agent)[0]
	}
	r.teamDo(t, r.operator, api.TeamParams{Action: "create", Team: id, Objective: "work", Policy: policy, Members: seats})
	r.teamDo(t, r.operator, api.TeamParams{Action: "status", Team: id, Lifecycle: hub.TeamActive})
	return keys
}

func (r *running) teamDo(t *testing.T, key string, q api.TeamParams) team.Answer {
	t.Helper()
	return must(rpc.Call(t.Context(), r.as(key), api.Team, q))(t)
}

func TestHandoffIntoATeamIsAskedFor(t *testing.T) {
	t.Parallel()
	r := start(t, quiet())
	keys := r.team(t, "auth", nil, team.Seat{Agent: "ana", Role: hub.RoleCoordinator}, team.Seat{Agent: "bo", Role: hub.RoleExecutor}, team.Seat{Agent: "di", Role: hub.RoleExecutor})
	ana, bo, di := r.tools(t, keys["ana"]), r.tools(t, keys["bo"]), r.tools(t, keys["di"])
	task := r.teamDo(t, r.operator, api.TeamParams{Action: "task", Team: "auth", Title: "rotate the keys", Owner: "bo"}).Task.ID
	propose := func(t *testing.T) string {
		t.Helper()
		return bo.use(t, "acp_handoff", m{"action": "initiate", "to": "di", "task_id": task, "team": "auth", "title": "rotate the keys", "summary": "s", "next_step": "n", "success_criteria": []string{"c"}})
	}

	// unasked fails the test if an inbox still asks to approve a handoff.
	unasked := func(t *testing.T, id string) {
		t.Helper()
		for _, key := range []string{keys["ana"], r.operator} {
			var inbox struct{ Messages []hub.Envelope }
			r.call(t, key, "acp/inbox", `{"peek":true}`).wantOK(t, &inbox)
			if text := object(t, inbox.Messages); strings.Contains(text, "handoff "+id+" of ") {
				t.Errorf("still asked for %s: %s", id, text)
			}
		}
	}

	t.Run("R3-159 the answer to the sender says that it waits, and who was asked", func(t *testing.T) {
		has(t, propose(t), "is proposed (waits for approval in the team auth)", "di cannot accept it before it is approved; asked: ana or the operator")
	})
	t.Run("the receiver is told that it has to wait", func(t *testing.T) {
		has(t, di.use(t, "acp_inbox", m{}), "waits for: the approval of ana or the operator; you will be notified")
		text, ok := di.try(t, "acp_handoff", m{"action": "accept", "handoff_id": "h1"})
		if ok {
			t.Errorf("accepted: %s", text)
		}
		has(t, text, "cannot be accepted before ana or the operator approves it", "you get a message when it is approved")
		if strings.Contains(text, "to approve it") {
			t.Errorf("it is advised to approve its own handoff: %s", text)
		}
	})
	t.Run("approval_required is true, and approved is false", func(t *testing.T) {
		var got struct {
			Required bool `json:"approval_required"`
			Approved bool
			Waits    []string `json:"waits_for"`
		}
		r.call(t, keys["bo"], "acp/handoff", `{"action":"show","handoff_id":"h1"}`).wantOK(t, &got)
		if !got.Required || got.Approved || len(got.Waits) != 1 || got.Waits[0] != "team" {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("the operator is asked, by a message, in the list of what waits, and on the page", func(t *testing.T) {
		var inbox struct{ Messages []hub.Envelope }
		r.call(t, r.operator, "acp/inbox", `{}`).wantOK(t, &inbox)
		has(t, object(t, inbox.Messages), "handoff h1 of "+string(task)+" from bo to di waits for your approval", "parley approve h1")
		waiting := must(rpc.Call(t.Context(), r.as(r.operator), api.ListHeld, api.None{}))(t)
		if len(waiting.Handoffs) != 1 {
			t.Errorf("got %+v", waiting.Handoffs)
		}
		browser := r.signIn(t)
		for path, words := range map[string]string{"/": "wants to hand a task to di", "/handoffs": "needs your approval"} {
			has(t, html.UnescapeString(string(r.do(t, "GET", path, "", nil, browser).body)), words)
		}
		has(t, string(r.do(t, "GET", "/handoffs/h1", "", nil, browser).body), `aria-label="Decide"`)
	})
	t.Run("a coordinator that has nothing but tools reads of it, finds it in its list, and approves it", func(t *testing.T) {
		inbox := ana.use(t, "acp_inbox", m{})
		found := regexp.MustCompile(`→ acp_handoff approve (h\d+)`).FindStringSubmatch(inbox)
		if found == nil {
			t.Fatalf("got %q", inbox)
		}
		has(t, ana.use(t, "acp_handoff", m{"action": "list"}), found[1]+" proposed (waits for approval in the team auth)")
		ana.use(t, "acp_handoff", m{"action": "approve", "handoff_id": found[1]})
		unasked(t, "h1")
		approval := di.use(t, "acp_inbox", m{})
		has(t, approval, "ana has approved the handoff of "+string(task))
		if n := strings.Count(approval, "→ acp_handoff accept h1,"); n != 2 {
			t.Errorf("%d of the offer and the approval name accept:\n%s", n, approval)
		}
		if text, ok := di.try(t, "acp_handoff", m{"action": "accept", "handoff_id": found[1]}); !ok {
			t.Errorf("not accepted: %s", text)
		}
		if text := ana.use(t, "acp_handoff", m{"action": "list"}); strings.Contains(text, "h1") {
			t.Errorf("it is still in the list: %s", text)
		}
	})
	t.Run("the operator approves with parley approve, and denies", func(t *testing.T) {
		other := r.teamDo(t, r.operator, api.TeamParams{Action: "task", Team: "auth", Title: "b", Owner: "bo"}).Task.ID
		initiate := func() {
			t.Helper()
			r.call(t, keys["bo"], "acp/handoff", object(t, m{"action": "initiate", "to": "di", "task_id": other, "team": "auth", "title": "b", "summary": "s", "next_step": "n", "success_criteria": []string{"c"}})).wantOK(t, nil)
		}
		initiate()
		r.call(t, r.operator, "parley/deny", `{"id":"h2","reason":"not now"}`).wantOK(t, nil)
		unasked(t, "h2")
		r.call(t, keys["di"], "acp/handoff", `{"action":"accept","handoff_id":"h2"}`).wantError(t, -32602, hub.CodeConflict)
		initiate()
		r.call(t, r.operator, "parley/approve", `{"id":"h3"}`).wantOK(t, nil)
		unasked(t, "h3")
		r.call(t, r.operator, "parley/approve", `{"id":"h3"}`).wantError(t, -32602, hub.CodeConflict)
		r.call(t, keys["di"], "acp/handoff", `{"action":"accept","handoff_id":"h3"}`).wantOK(t, nil)
	})
	t.Run("a handoff that was withdrawn waits for no approval", func(t *testing.T) {
		other := r.teamDo(t, r.operator, api.TeamParams{Action: "task", Team: "auth", Title: "c", Owner: "bo"}).Task.ID
		r.call(t, keys["bo"], "acp/handoff", object(t, m{"action": "initiate", "to": "di", "task_id": other, "team": "auth", "title": "c", "summary": "s", "next_step": "n", "success_criteria": []string{"c"}})).wantOK(t, nil)
		r.call(t, keys["bo"], "acp/handoff", `{"action":"withdraw","handoff_id":"h4"}`).wantOK(t, nil)
		unasked(t, "h4")
	})
}

func TestTasksOfTeamsAndHandoffsHaveOneNumberSpace(t *testing.T) {
	t.Parallel()
	r := start(t, quiet())
	keys := r.team(t, "auth", nil, team.Seat{Agent: "ana", Role: hub.RoleCoordinator}, team.Seat{Agent: "bo", Role: hub.RoleExecutor}, team.Seat{Agent: "di", Role: hub.RoleExecutor})
	newTask := func(t *testing.T) string {
		t.Helper()
		return string(r.teamDo(t, keys["ana"], api.TeamParams{Action: "task", Team: "auth", Title: "rotate", Owner: "bo"}).Task.ID)
	}
	hand := func(t *testing.T, from, to, task, id string) answer {
		t.Helper()
		p := m{"action": "initiate", "to": to, "task_id": task, "title": "t", "summary": "s", "next_step": "n", "success_criteria": []string{"c"}}
		if id != "" {
			p["team"] = id
		}
		return r.call(t, keys[hub.AgentID(from)], "acp/handoff", object(t, p))
	}

	t.Run("the board passes over the id of a task that was handed over", func(t *testing.T) {
		hand(t, "bo", "di", "T-1", "").wantOK(t, nil)
		r.call(t, keys["di"], "acp/handoff", `{"action":"accept","handoff_id":"h1"}`).wantOK(t, nil)
		if got := newTask(t); got != "T-2" {
			t.Errorf("got %s, want T-2", got)
		}
	})
	t.Run("a task of a team has no owners of before", func(t *testing.T) {
		hand(t, "bo", "di", "T-2", "auth").wantOK(t, nil)
		var got struct {
			Package struct {
				Provenance struct {
					Chain []string `json:"ownership_chain"`
				}
			}
		}
		r.call(t, keys["bo"], "acp/handoff", `{"action":"show","handoff_id":"h2"}`).wantOK(t, &got)
		if chain := got.Package.Provenance.Chain; len(chain) > 2 {
			t.Errorf("got %v", chain)
		}
	})
	t.Run("the id of a task of a team cannot be that of another task", func(t *testing.T) {
		id := newTask(t)
		a := hand(t, "di", "ana", id, "")
		a.wantError(t, -32602, hub.CodeConflict)
		if !strings.Contains(a.Error.Data.Hint, "name the team") {
			t.Errorf("got the hint %q", a.Error.Data.Hint)
		}
	})
	t.Run("a task has one name", func(t *testing.T) {
		for _, name := range []string{"3", "T-03", "T-+3"} {
			hand(t, "bo", "di", name, "auth").wantError(t, -32602, hub.CodeNotFound)
		}
	})
}

func TestTeamWithVersionsToMergeIsNotClosed(t *testing.T) {
	t.Parallel()
	r := start(t, quiet())
	keys := r.team(t, "auth", nil, team.Seat{Agent: "ana", Role: hub.RoleCoordinator}, team.Seat{Agent: "bo", Role: hub.RoleExecutor})
	put := func(parent int64, text string) {
		t.Helper()
		r.teamDo(t, keys["bo"], api.TeamParams{Action: "artifact", Team: "auth", Artifact: "docs/plan.md", ParentVersion: &parent, Content: &text})
	}
	put(0, "a\n")
	put(1, "b\n")
	put(1, "c\n") // beside the newest
	ana := r.tools(t, keys["ana"])

	for _, args := range []m{{"action": "close", "team": "auth"}, {"action": "status", "team": "auth", "lifecycle": "closed"}} {
		text, ok := ana.try(t, "acp_team", args)
		if ok {
			t.Errorf("%v: closed: %s", args, text)
		}
		has(t, text, "version 3 of docs/plan.md", "acp_team with action close, anyway true and team auth")
	}
	if text, ok := ana.try(t, "acp_team", m{"action": "close", "team": "auth", "anyway": true}); !ok {
		t.Fatal(text)
	}
	got := r.teamDo(t, keys["ana"], api.TeamParams{Action: "show", Team: "auth"}).Team
	if got.Lifecycle != hub.TeamClosed || len(got.Conflicts) != 0 {
		t.Errorf("got %+v", got)
	}
	if a := r.teamDo(t, keys["ana"], api.TeamParams{Action: "artifact", Team: "auth", Artifact: "docs/plan.md"}).Artifact; a.State != hub.MergeAbandoned || len(a.Beside) != 0 {
		t.Errorf("got %+v", a)
	}
	log := must(rpc.Call(t.Context(), r.as(keys["ana"]), api.TeamLog, api.TeamLogParams{Team: "auth", Limit: 200}))(t)
	has(t, object(t, log.Entries), `"state":"abandoned"`)
}

func TestEscalatedConflictIsCountedOnce(t *testing.T) {
	t.Parallel()
	r := start(t, quiet())
	keys := r.team(t, "auth", nil, team.Seat{Agent: "ana", Role: hub.RoleCoordinator}, team.Seat{Agent: "bo", Role: hub.RoleExecutor}, team.Seat{Agent: "ivo", Role: hub.RoleIntegrator}, team.Seat{Agent: "cy", Role: hub.RoleReviewer})
	put := func(parent int64, text string) {
		t.Helper()
		r.teamDo(t, keys["bo"], api.TeamParams{Action: "artifact", Team: "auth", Artifact: "plan", ParentVersion: &parent, Content: &text, Sensitivity: hub.SensitivityHigh})
	}
	put(0, "a\n")
	put(1, "b\n")
	put(1, "c\n")
	merged := "bc\n"
	r.teamDo(t, keys["ivo"], api.TeamParams{Action: "merge", Team: "auth", Artifact: "plan", Content: &merged})
	r.teamDo(t, keys["cy"], api.TeamParams{Action: "merge", Team: "auth", Artifact: "plan", SignOff: true})
	counted := func() map[string]float64 {
		var got struct {
			Metrics map[string][]struct {
				Labels map[string]string
				Value  float64
			}
		}
		r.call(t, r.operator, "parley/metrics", "{}").wantOK(t, &got)
		out := map[string]float64{}
		for _, f := range got.Metrics["conflicts_total"] {
			for _, state := range f.Labels {
				out[state] = f.Value
			}
		}
		return out
	}
	eventually(t, "the metrics have the end of the conflict", func() bool { return counted()["resolved"] == 1 })
	if got := counted()["escalated"]; got != 1 {
		t.Errorf("escalated: got %g, want 1", got)
	}
}

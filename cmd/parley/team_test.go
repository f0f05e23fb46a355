package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/team"
)

// A council is a hub with one agent for each role, of that name, a coordinator called
// boss that prepares each case, and an executor called hand that owns tasks.
type council struct {
	*house
	ctx    context.Context
	tools  map[hub.Role]*mcp.ClientSession
	client map[string]*rpc.Client
	teams  int
}

func newCouncil(t *testing.T) *council {
	c := &council{house: newHouse(t, "--unsafe-limits"), ctx: t.Context(), tools: map[hub.Role]*mcp.ClientSession{}, client: map[string]*rpc.Client{}}
	for _, name := range append([]string{"boss", "hand", "extra"}, words(hub.Roles)...) {
		role := "executor"
		if name == "boss" {
			role = "coordinator"
		}
		var got struct{ Key string }
		c.ok(c.operator("agent", "add", name, "--role", role, "--json"), &got)
		c.keys[name] = got.Key
		c.client[name] = rpc.NewClient(c.url, got.Key, "", nil)
	}
	for _, role := range hub.Roles {
		c.tools[role] = dial(t, c.ctx, c.env(string(role)))
	}
	return c
}

// do performs a request of an agent, which must succeed.
func (c *council) do(as string, r api.TeamParams) team.Answer {
	c.t.Helper()
	a, err := rpc.Call(c.ctx, c.client[as], api.Team, r)
	if err != nil {
		c.t.Fatalf("%s %+v: %v", as, r, err)
	}
	return a
}

// found creates an active team with everybody in it.
func (c *council) found() hub.TeamID {
	c.teams++
	id := hub.TeamID(fmt.Sprintf("t%d", c.teams))
	members := []team.Seat{{Agent: "hand", Role: hub.RoleExecutor}}
	for _, r := range hub.Roles {
		members = append(members, team.Seat{Agent: hub.AgentID(r), Role: r})
	}
	c.do("boss", api.TeamParams{Action: "create", Team: id, Objective: "o", Members: members, Policy: &team.Policy{MaxParallelTasks: 1000}})
	c.do("boss", api.TeamParams{Action: "status", Team: id, Lifecycle: hub.TeamActive})
	return id
}

// task creates a task, which hand owns if it is owned.
func (c *council) task(id hub.TeamID, class hub.TaskClass, owned bool) hub.TaskID {
	r := api.TeamParams{Action: "task", Team: id, Title: "t", Class: class}
	if owned {
		r.Owner = "hand"
	}
	return c.do("boss", r).Task.ID
}

// An attempt is one operation in the words of each surface.
type attempt struct {
	tool    string
	args    map[string]any
	command []string
}

// ways are the surfaces: each performs an attempt as an agent and returns the code of
// the refusal, or "".
var ways = map[string]func(c *council, as hub.Role, a attempt) string{
	"MCP": func(c *council, as hub.Role, a attempt) string {
		var got struct{ Error struct{ Code string } }
		if _, failed := callTool(c.t, c.ctx, c.tools[as], a.tool, a.args, &got); failed != (got.Error.Code != "") {
			c.t.Errorf("%v: failed is %v, and the error is %q", a.args, failed, got.Error.Code)
		}
		return got.Error.Code
	},
	"JSON-RPC": func(c *council, as hub.Role, a attempt) string {
		delete(a.args, "format")
		raw, err := json.Marshal(a.args)
		if err != nil {
			c.t.Fatal(err)
		}
		if a.tool == "acp_handoff" {
			var p api.HandoffParams
			if err := json.Unmarshal(raw, &p); err != nil {
				c.t.Fatal(err)
			}
			_, err = rpc.Call(c.ctx, c.client[string(as)], api.Handoff, p)
		} else {
			var p api.TeamParams
			if err := json.Unmarshal(raw, &p); err != nil {
				c.t.Fatal(err)
			}
			_, err = rpc.Call(c.ctx, c.client[string(as)], api.Team, p)
		}
		return string(hub.CodeOf(err))
	},
	"command": func(c *council, as hub.Role, a attempt) string {
		got := c.as(string(as), append(a.command, "--json")...)
		if got.code == exitDone {
			return ""
		}
		var e struct{ Error struct{ Code string } }
		if err := json.Unmarshal([]byte(got.err), &e); err != nil || got.code != exitRefused {
			c.t.Errorf("%v: exit %d, %q", a.command, got.code, got.err)
		}
		return e.Error.Code
	},
}

// The table of the protocol, cell by cell: the roles that may do each action.
func TestTeamAuthority(t *testing.T) {
	c := newCouncil(t)
	id := c.found()
	const coordinator, executor, reviewer, integrator = hub.RoleCoordinator, hub.RoleExecutor, hub.RoleReviewer, hub.RoleIntegrator
	about := func(task hub.TaskID, more ...string) attempt {
		a := attempt{"acp_team", map[string]any{"action": "task", "team": id, "task": task}, []string{"team", "task", string(id), string(task)}}
		for i := 0; i < len(more); i += 2 {
			a.args[more[i]] = more[i+1]
			a.command = append(a.command, "--"+more[i], more[i+1])
		}
		return a
	}
	for _, row := range []struct {
		id, action string
		may        []hub.Role
		prepare    func(role hub.Role) attempt
	}{
		{"R3-068", "create a task", []hub.Role{coordinator}, func(hub.Role) attempt {
			return attempt{"acp_team", map[string]any{"action": "task", "team": id, "title": "x"}, []string{"team", "task", string(id), "x"}}
		}},
		{"R3-069", "assign a task", []hub.Role{coordinator}, func(hub.Role) attempt { return about(c.task(id, "", false), "owner", "hand") }},
		{"R3-069", "assign a merge task", []hub.Role{coordinator, integrator}, func(hub.Role) attempt { return about(c.task(id, hub.ClassMerge, false), "owner", "hand") }},
		{"R3-070", "approve a handoff", []hub.Role{coordinator, integrator}, func(hub.Role) attempt { return c.handoff(id, hub.ClassNormal) }},
		{"R3-070", "approve the handoff of a guarded task", []hub.Role{coordinator, integrator, reviewer}, func(hub.Role) attempt { return c.handoff(id, hub.ClassGuarded) }},
		{"R3-071", "accept an execution task", []hub.Role{executor, integrator}, func(role hub.Role) attempt {
			task := c.task(id, "", false)
			if role != executor { // it owns the task from a time when it was an executor
				c.do("boss", api.TeamParams{Action: "role", Team: id, Agent: hub.AgentID(role), Role: executor, Reason: "coverage"})
			}
			c.do("boss", api.TeamParams{Action: "task", Team: id, Task: task, Owner: hub.AgentID(role)})
			if role != executor {
				c.do("boss", api.TeamParams{Action: "role", Team: id, Agent: hub.AgentID(role), Role: role, Reason: "coverage"})
			}
			return about(task, "state", "in_progress")
		}},
		{"R3-072", "finish a high-risk task", []hub.Role{coordinator, reviewer, integrator}, func(hub.Role) attempt {
			task := c.task(id, hub.ClassHighRisk, true)
			c.do("hand", api.TeamParams{Action: "task", Team: id, Task: task, State: hub.TaskInProgress})
			c.do("hand", api.TeamParams{Action: "task", Team: id, Task: task, State: hub.TaskInReview})
			return about(task, "state", "done")
		}},
		{"R3-073", "block a task", []hub.Role{coordinator, reviewer, integrator}, func(hub.Role) attempt {
			return about(c.task(id, "", true), "state", "blocked", "reason", "access")
		}},
		{"R3-074", "add a member", []hub.Role{coordinator}, func(hub.Role) attempt {
			other := c.found()
			return attempt{"acp_team", map[string]any{"action": "add", "team": other, "agent": "extra", "role": "executor"}, []string{"team", "add", string(other), "extra"}}
		}},
		{"R3-074", "remove a member", []hub.Role{coordinator}, func(hub.Role) attempt {
			other := c.found()
			return attempt{"acp_team", map[string]any{"action": "remove", "team": other, "agent": "hand"}, []string{"team", "remove", string(other), "hand"}}
		}},
		{"R3-075", "close a team", []hub.Role{coordinator}, func(hub.Role) attempt {
			other := c.found()
			return attempt{"acp_team", map[string]any{"action": "close", "team": other}, []string{"team", "close", string(other)}}
		}},
		{"R3-075", "archive a team", []hub.Role{coordinator}, func(hub.Role) attempt {
			other := c.found()
			c.do("boss", api.TeamParams{Action: "close", Team: other})
			return attempt{"acp_team", map[string]any{"action": "archive", "team": other}, []string{"team", "archive", string(other)}}
		}},
	} {
		t.Run(row.id+" R3-067 who may "+row.action, func(t *testing.T) {
			for name, way := range ways {
				for _, role := range rolesOf(name, row.may) {
					want := string(hub.CodeDenied)
					if slices.Contains(row.may, role) {
						want = ""
					}
					if got := way(c, role, row.prepare(role)); got != want {
						t.Errorf("%s over %s: got %q, want %q", role, name, got, want)
					}
				}
			}
		})
	}
	t.Run("R3-076 the operator overrides a cell, an agent cannot, and other words are mistakes of usage", func(t *testing.T) {
		if got := c.as("coordinator", "team", "policy", string(id), "--set", "reviewer:block=deny"); got.code != exitRefused {
			t.Errorf("an agent: exit %d, %s", got.code, got.err)
		}
		for _, bad := range []string{"king:block=deny", "reviewer:dance=deny", "reviewer:block=maybe", "reviewer"} {
			if got := c.operator("team", "policy", string(id), "--set", bad); got.code != exitUsage {
				t.Errorf("%s: exit %d, %s", bad, got.code, got.err)
			}
		}
		if got := c.operator("team", "policy", string(id), "--set", "reviewer:block=deny", "--set", "executor:block=allow"); got.code != 0 || !strings.Contains(got.out, "deny*") {
			t.Errorf("the operator: exit %d, %s%s", got.code, got.out, got.err)
		}
		for role, want := range map[hub.Role]string{reviewer: string(hub.CodeDenied), executor: ""} {
			for name, way := range ways {
				if got := way(c, role, about(c.task(id, "", true), "state", "blocked", "reason", "access")); got != want {
					t.Errorf("%s over %s: got %q, want %q", role, name, got, want)
				}
			}
		}
	})
}

// rolesOf returns the roles whose cells are tried on a surface. The service decides: all cells are tried at
// its own method, and one that it allows and one that it refuses by tools and commands, which start
// processes.
func rolesOf(way string, may []hub.Role) []hub.Role {
	if way == "JSON-RPC" {
		return hub.Roles
	}
	refused := slices.IndexFunc(hub.Roles, func(r hub.Role) bool { return !slices.Contains(may, r) })
	return []hub.Role{may[0], hub.Roles[refused]}
}

// handoff proposes a handoff into a team from boss to hand, and returns its approval.
func (c *council) handoff(id hub.TeamID, class hub.TaskClass) attempt {
	c.t.Helper()
	got, err := rpc.Call(c.ctx, c.client["boss"], api.Handoff, api.HandoffParams{
		Action: "initiate", To: "hand", Team: id, TaskID: string(c.task(id, class, false)), Title: "t", Summary: "s", NextStep: "n", Criteria: api.Criteria{"c"},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return attempt{"acp_handoff", map[string]any{"action": "approve", "handoff_id": got.Report.ID}, []string{"approve", string(got.Report.ID)}}
}

func TestRunTask(t *testing.T) {
	h := newHouse(t)
	dir := newRepository(t)
	h.ok(h.operator("agent", "add", "worker", "--json"), &struct{}{})
	h.ok(h.operator("team", "new", "auth", "--goal", "g", "--members", "planner:coordinator,worker:executor,tester:reviewer", "--json"), &team.Answer{})
	h.ok(h.operator("team", "status", "auth", "active", "--json"), &team.Answer{})
	runTask := func(mode, task string) result {
		args := append([]string{"run", "--as-operator", "--task", task, "--name", "worker", "--repo", dir, "--json", "--"}, worker(t, mode)...)
		return h.as("", args...)
	}
	state := func(id string) hub.Task {
		var got team.Answer
		h.ok(h.operator("team", "task", "auth", id, "--json"), &got)
		return *got.Task
	}
	h.ok(h.operator("team", "task", "auth", "say hello", "--json"), &team.Answer{})
	t.Run("R3-158 a run is refused for a task that the agent does not own", func(t *testing.T) {
		if got := runTask("polite", "T-1"); got.code != exitMissing || !strings.Contains(got.err, "belongs to") {
			t.Errorf("exit %d, %s", got.code, got.err)
		}
		if got := runTask("polite", "T-9"); got.code != exitMissing {
			t.Errorf("exit %d, %s", got.code, got.err)
		}
	})
	h.ok(h.operator("team", "task", "auth", "T-1", "--owner", "worker", "--json"), &team.Answer{})
	t.Run("R3-158 a run that contradicts its report blocks the task, and one that is confirmed submits it", func(t *testing.T) {
		if got := runTask("lying about files", "T-1"); got.code != exitCheck {
			t.Errorf("exit %d, %s", got.code, got.err)
		}
		if got := state("T-1"); got.State != hub.TaskBlocked || got.Reason != "failing_checks" {
			t.Errorf("after a lie: got %+v", got)
		}
		if got := runTask("polite", "T-1"); got.code != exitDone {
			t.Errorf("exit %d, %s", got.code, got.err)
		}
		if got := state("T-1"); got.State != hub.TaskInReview {
			t.Errorf("after good work: got %+v", got)
		}
	})
	t.Run("the title of a task hides no words from the person who runs it", func(t *testing.T) {
		h.ok(h.operator("team", "task", "auth", "say \u202e\u00ad\U000e0041hello", "--owner", "worker", "--json"), &team.Answer{})
		if got := runTask("polite", "T-2"); !strings.Contains(got.out, `"task":"T-2: say hello"`) {
			t.Errorf("exit %d, %s%s", got.code, got.out, got.err)
		}
	})
}

func TestTeamArtifacts(t *testing.T) {
	h := newHouse(t)
	h.ok(h.operator("team", "new", "auth", "--goal", "g", "--members", "planner:coordinator,builder:executor,tester:reviewer", "--json"), &team.Answer{})
	put := func(who, text, parent string) (got team.Answer) {
		t.Helper()
		h.ok(h.stdin(who, text, "team", "document", "put", "auth", "docs/plan.md", "-", "--parent", parent, "--json"), &got)
		return got
	}
	t.Run("R3-154 R3-161 versions are put, merged by the hub or by a coordinator, and read", func(t *testing.T) {
		put("builder", "1\n2\n3\n", "0")
		put("builder", "one\n2\n3\n", "1")
		if got := put("tester", "1\n2\nthree\n", "1"); got.Version.Version != 3 || got.Artifact.Version != 4 || got.Artifact.State != hub.MergeResolved {
			t.Errorf("got %+v of %+v", got.Version, got.Artifact)
		}
		if got := h.as("tester", "team", "document", "get", "auth", "docs/plan.md"); got.out != "one\n2\nthree\n" {
			t.Errorf("got %q, %s", got.out, got.err)
		}
		if got := put("tester", "eins\n2\n3\n", "1"); got.Artifact.State != hub.MergeManual {
			t.Errorf("got %+v", got.Artifact)
		}
		if got := h.stdin("tester", "x", "team", "document", "merge", "auth", "docs/plan.md", "-"); got.code != exitRefused || !strings.Contains(got.err, "cannot merge") {
			t.Errorf("a reviewer merges: exit %d, %s", got.code, got.err)
		}
		h.contains(h.stdin("planner", "both\n", "team", "document", "merge", "auth", "docs/plan.md", "-"), "docs/plan.md version 6, 5 bytes, resolved")
		h.contains(h.as("builder", "team", "document", "log", "auth", "docs/plan.md"), "4+5", "hub", "tester")
		h.contains(h.as("builder", "team", "document", "auth"), "docs/plan.md", "resolved")
		if got := h.as("builder", "team", "document", "get", "auth", "docs/plan.md", "--version", "5"); got.out != "eins\n2\n3\n" {
			t.Errorf("version 5: got %q", got.out)
		}
	})
	t.Run("R3-154 a file without a parent is a mistake of usage, and bytes and large files come back as they were", func(t *testing.T) {
		if got := h.stdin("builder", "x", "team", "document", "put", "auth", "a", "-"); got.code != exitUsage {
			t.Errorf("exit %d, %s", got.code, got.err)
		}
		for name, content := range map[string]string{"bytes": "\x00\xff\n", "large": strings.Repeat("x", 300<<10), "empty": ""} {
			h.ok(h.stdin("builder", content, "team", "document", "put", "auth", name, "-", "--parent", "0", "--json"), &team.Answer{})
			if got := h.as("tester", "team", "document", "get", "auth", name); got.out != content {
				t.Errorf("%s: got %d bytes, %s", name, len(got.out), got.err)
			}
		}
	})
	t.Run("R3-006 the folder of a team is _shared/teamspaces/ID in the home", func(t *testing.T) {
		dir := filepath.Join(h.home, "_shared", "teamspaces", "auth")
		h.awaitFile(filepath.Join(dir, "artifacts", "large"))
		for _, name := range []string{"teamspace.manifest.json", "TEAM.md", "STATUS.md", "DECISIONS.md", "artifacts/registry.jsonl", "artifacts/docs/plan.md"} {
			h.awaitFile(filepath.Join(dir, filepath.FromSlash(name)))
		}
		manifest := filepath.Join(dir, "teamspace.manifest.json")
		h.ok(h.operator("schema", "check", "--schema", "teamspace", manifest), nil)
		var document, published map[string]any
		raw, err := os.ReadFile(manifest)
		if err == nil {
			err = json.Unmarshal(raw, &document)
		}
		if err == nil {
			err = json.Unmarshal([]byte(h.operator("schema", "print", "teamspace").out), &published)
		}
		if err != nil {
			t.Fatal(err)
		}
		if unknown := undescribed("", document, published); len(unknown) > 0 {
			t.Errorf("the schema of the manifest does not know %v", unknown)
		}
		if got := h.operator("team", "new", "../evil", "--goal", "g", "--members", "planner:coordinator"); got.code == exitDone {
			t.Error("a name that leads out of the folder was taken")
		}
	})
}

// undescribed returns the members of a document that its schema does not have.
func undescribed(path string, document, schema any) (out []string) {
	described, _ := schema.(map[string]any)
	switch v := document.(type) {
	case map[string]any:
		members, _ := described["properties"].(map[string]any)
		for name, value := range v {
			if members[name] == nil {
				out = append(out, path+"/"+name)
				continue
			}
			out = append(out, undescribed(path+"/"+name, value, members[name])...)
		}
	case []any:
		for _, value := range v {
			out = append(out, undescribed(path, value, described["items"])...)
		}
	}
	return out
}

package up

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/service/team"
	"github.com/parley-agents/parley/internal/work/keeper"
	"github.com/parley-agents/parley/protocol/sandbox"
)

// folder makes a folder with a program for agents, which is on the PATH.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"my-agent", "my-agent.exe"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
	return dir
}

func TestParse(t *testing.T) {
	dir := folder(t)
	file, err := Parse(filepath.Join(dir, Name), []byte(`
agents:
  helper: {command: [my-agent, --acp], budget: 20/h, idle: 5m, memory: 512}
teams:
  auth: {goal: log in, members: {helper: executor}}
`))
	if err != nil {
		t.Fatal(err)
	}
	a := file.Agents["helper"]
	if a.Dir != dir || a.Policy != sandbox.PolicyRead || a.Idle != 5*time.Minute || a.Memory != 512 {
		t.Errorf("got %+v, want the folder of the file and the policy read", a)
	}
	p, err := a.params("helper")
	if err != nil {
		t.Fatal(err)
	}
	if p.PerHour != 20 || p.Idle != 300 || len(p.Command) != 2 || !filepath.IsAbs(p.Command[0]) {
		t.Errorf("got %+v", p)
	}
}

func TestParseRefuses(t *testing.T) {
	dir := folder(t)
	for _, tt := range []struct{ name, text, message, hint string }{
		{"an empty file", "", "declares no agents", "--example"},
		{"a member of an agent that is not known", "agents: {a: {comand: [x]}}", "unknown member comand", "command"},
		{"a second document", "agents: {a: {cli: claude}}\n---\n", "more than one document", ""},
		{"a name that no hub takes", "agents: {A b: {command: [my-agent]}}", "line 1: agent A b: invalid name", ""},
		{"neither cli nor command", "agents:\n  a: {}", "line 2: agent a: either cli or command is required", ""},
		{"cli and command", "agents: {a: {cli: claude, command: [my-agent]}}", "either cli or command is required", ""},
		{"a policy that does not exist", "agents: {a: {command: [my-agent], policy: yolo}}", `policy must be read, write, build or ask, got "yolo"`, ""},
		{"a role that does not exist", "agents: {a: {command: [my-agent], role: boss}}", `unknown role "boss"`, ""},
		{"a budget of another form", "agents: {a: {command: [my-agent], budget: 20}}", `budget: must be turns per hour such as 20/h, got "20"`, ""},
		{"a folder that is not there", "agents: {a: {command: [my-agent], dir: nowhere}}", "is not a folder", ""},
		{"a time that is negative", "agents: {a: {command: [my-agent], hang: -1s}}", "must not be negative", ""},
		{"a program that is not there", "agents: {a: {command: [no-such-agent]}}", "no program named no-such-agent on the PATH", ""},
		{"an agent that is not known", "agents: {a: {cli: claud}}", `unknown agent CLI "claud"`, "parley agent clis"},
		{"a team without a goal", "agents: {a: {command: [my-agent]}}\nteams:\n  t: {members: {a: executor}}", "line 3: team t: a goal is required", ""},
		{"a team without members", "agents: {a: {command: [my-agent]}}\nteams: {t: {goal: x}}", "members are required", ""},
		{"a member with a role that does not exist", "agents: {a: {command: [my-agent]}}\nteams: {t: {goal: x, members: {a: boss}}}", `member a: unknown role "boss"`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse(filepath.Join(dir, Name), []byte(tt.text))
			var e *hub.Error
			if !errors.As(err, &e) || e.Code != hub.CodeInvalid {
				t.Fatalf("got %v, want %s", err, hub.CodeInvalid)
			}
			if !strings.Contains(e.Error(), tt.message) || !strings.Contains(e.Hint, tt.hint) {
				t.Errorf("got %q with the hint %q, want %q and %q", e, e.Hint, tt.message, tt.hint)
			}
		})
	}
}

func TestWriteExample(t *testing.T) {
	path := filepath.Join(folder(t), Name)
	if err := WriteExample(path); err != nil {
		t.Fatal(err)
	}
	if err := WriteExample(path); hub.CodeOf(err) != hub.CodeConflict {
		t.Errorf("a file that exists: %v, want %s", err, hub.CodeConflict)
	}
	if _, err := Parse(path, []byte(Example)); err == nil || !strings.Contains(err.Error(), "is not installed") {
		t.Errorf("got %v, want nothing wrong but agents that are not installed", err)
	}
}

func TestPlanWithoutHub(t *testing.T) {
	dir := folder(t)
	file, err := Parse(filepath.Join(dir, Name), []byte("agents: {b: {command: [my-agent]}, a: {command: [my-agent]}}\nteams: {t: {goal: x, members: {a: executor}}}"))
	if err != nil {
		t.Fatal(err)
	}
	plan, err := file.Plan(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range plan.Steps {
		got = append(got, string(s.Action)+" "+s.Name())
	}
	if want := []string{"keep a", "keep b", "create team:t"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if plan.Idle() || plan.Applied || plan.Steps[0].Asks == nil || plan.Steps[0].Dir() != dir {
		t.Errorf("got %+v, want a plan that asks about the command", plan.Steps[0])
	}
}

func TestAgentStep(t *testing.T) {
	dir := folder(t)
	declared := Agent{Command: []string{"my-agent"}, Dir: dir, Policy: sandbox.PolicyRead, Role: hub.RoleExecutor}
	p, err := declared.params("a")
	if err != nil {
		t.Fatal(err)
	}
	same := keeper.Definition{Agent: "a", Command: p.Command, Dir: p.Dir, Policy: p.Policy}
	kept := func(change func(*api.KeptAgent)) api.KeptAgent {
		k := api.KeptAgent{Definition: same}
		change(&k)
		return k
	}

	for _, tt := range []struct {
		name   string
		now    api.KeptAgent
		known  bool
		role   hub.Role
		action Action
		reason string
		asks   bool
	}{
		{"an agent that is not kept", api.KeptAgent{}, false, "", Keep, "policy read", true},
		{"an agent as the file declares it", kept(func(*api.KeptAgent) {}), true, hub.RoleExecutor, None, "unchanged", false},
		{"another policy", kept(func(k *api.KeptAgent) { k.Policy = sandbox.PolicyWrite }), true, "", Change, "policy write to read", false},
		{"another version of the protocol", kept(func(k *api.KeptAgent) { k.V2 = true }), true, "", Change, "v2 true to false", false},
		{"another command", kept(func(k *api.KeptAgent) { k.Command = []string{"/bin/x"} }), true, "", Change, "command /bin/x to ", true},
		{"another role", kept(func(*api.KeptAgent) {}), true, hub.RoleReviewer, Change, "role reviewer to executor", false},
		{"a worktree that is not wanted", kept(func(k *api.KeptAgent) { k.Branch, k.Dir = "parley/a", "/elsewhere" }), true, "", Change, "worktree true to false", false},
		{"an agent that is stopped", kept(func(k *api.KeptAgent) { k.State, k.Problem = keeper.Stopped, "out of quota" }), true, "", Restart, "out of quota", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := declared.step("a", tt.now, tt.known, tt.role)
			if err != nil {
				t.Fatal(err)
			}
			if got.Action != tt.action || !strings.Contains(got.Reason, tt.reason) || (got.Asks != nil) != tt.asks {
				t.Errorf("got %s: %s, asks %q; want %s: %s, asks %t", got.Action, got.Reason, got.Asks, tt.action, tt.reason, tt.asks)
			}
		})
	}
}

func TestTeamSeats(t *testing.T) {
	want := []team.Seat{{Agent: "a", Role: hub.RoleExecutor}, {Agent: "b", Role: hub.RoleReviewer}}
	s := Step{Team: "t", Action: None}
	s.seat(want, append(slices.Clone(want), team.Seat{Agent: "c", Role: hub.RoleReviewer}))
	if s.Action != None || len(s.team) != 0 {
		t.Errorf("a member that the file does not name stays: got %+v", s)
	}
	s.seat(want, []team.Seat{{Agent: "a", Role: hub.RoleReviewer}})
	if s.Action != Change || len(s.team) != 2 || s.team[0].Action != "role" || s.team[1].Action != "add" {
		t.Errorf("got %+v, want one changed role and one new member", s)
	}
}

func TestStopping(t *testing.T) {
	stopped := api.KeptAgent{State: keeper.Stopped}
	for _, tt := range []struct {
		now           api.KeptAgent
		known, forget bool
		want          Action
	}{
		{api.KeptAgent{}, false, false, None},
		{api.KeptAgent{}, true, false, Stop},
		{stopped, true, false, None},
		{stopped, true, true, Forget},
	} {
		if got := stopping("a", tt.now, tt.known, tt.forget); got.Action != tt.want {
			t.Errorf("known %t, forget %t: %s, want %s", tt.known, tt.forget, got.Action, tt.want)
		}
	}
}

package mcptools_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/testing/hubtest"
	"github.com/parley-agents/parley/server"
)

// names returns the names of the listed tools, in order.
func (a *agent) names(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, tool := range a.tools(t) {
		names = append(names, tool.Name)
	}
	slices.Sort(names)
	return names
}

// join makes a team and a project of which builder is a member.
func (r *running) join(t *testing.T, builderKey string) {
	t.Helper()
	r.joinTeam(t)
	r.joinProject(t, builderKey)
}

func (r *running) joinTeam(t *testing.T) {
	t.Helper()
	r.add(t, "lead")
	r.do(t, r.operator, "acp/team", map[string]any{"action": "create", "team": "web", "objective": "ship it", "members": []map[string]any{
		{"agent": "lead", "role": "coordinator"}, {"agent": "builder", "role": "executor"},
	}})
}

func (r *running) joinProject(t *testing.T, builderKey string) {
	t.Helper()
	r.do(t, builderKey, "parley/coordinate", map[string]any{"action": "project/create", "name": "login", "objective": "log in", "repos": []map[string]any{
		{"name": "api", "role": "backend", "language": "go"},
	}})
}

// do performs a method.
func (r *running) do(t *testing.T, key, method string, params map[string]any) {
	t.Helper()
	raw, err := json.Marshal(params)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.client(key).Raw(t.Context(), method, raw); err != nil {
		t.Fatalf("%s: %v", method, err)
	}
}

func TestListedTools(t *testing.T) {
	hubtest.NoGoroutinesLeft(t)
	for name, connect := range map[string]func(*running, *testing.T, *mcp.Client, string) *mcp.ClientSession{
		"over HTTP": func(r *running, t *testing.T, c *mcp.Client, key string) *mcp.ClientSession {
			return r.connectHTTP(t, c, &bearer{key, &http.Transport{}})
		},
		"over stdio": (*running).connectStdio,
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, server.Options{})
			key := r.add(t, "builder")
			changed := make(chan struct{}, 10)
			client := mcp.NewClient(implementation, &mcp.ClientOptions{ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changed <- struct{}{} }})
			builder := &agent{ClientSession: connect(r, t, client, key)}

			t.Run("R3-157 an agent in no team and no project sees the tools that every agent needs, and can call the others", func(t *testing.T) {
				if got := builder.names(t); !slices.Equal(got, toolNames) {
					t.Errorf("tools: got %v, want %v", got, toolNames)
				}
				for tool, action := range map[string]string{"acp_team": "list", "acp_subscribe": "list", "coordinate": "project/list"} {
					if got := builder.text(t, tool, map[string]any{"action": action}); got.isError {
						t.Errorf("%s: got %q, want an answer though it is not listed", tool, got.text)
					}
				}
			})
			t.Run("a member of a team is told that its tools changed, with the mail about it", func(t *testing.T) {
				r.joinTeam(t)
				builder.text(t, "acp_inbox", nil)
				<-changed
				if got, want := builder.names(t), slices.Sorted(slices.Values(append([]string{"acp_subscribe", "acp_team"}, toolNames...))); !slices.Equal(got, want) {
					t.Errorf("tools: got %v, want %v", got, want)
				}
			})
			t.Run("a member of a project sees coordinate after its own call", func(t *testing.T) {
				builder.text(t, "coordinate", map[string]any{"action": "project/create", "name": "login", "objective": "log in", "repos": []map[string]any{
					{"name": "api", "role": "backend", "language": "go"},
				}})
				<-changed
				if got := builder.names(t); !slices.Contains(got, "coordinate") || len(got) != 10 {
					t.Errorf("tools: got %v, want all but acp_files", got)
				}
			})
			t.Run("who left the team sees its tools no longer", func(t *testing.T) {
				r.do(t, r.operator, "acp/team", map[string]any{"action": "remove", "team": "web", "agent": "builder"})
				builder.text(t, "acp_inbox", nil)
				<-changed
				if got := builder.names(t); slices.Contains(got, "acp_team") || !slices.Contains(got, "coordinate") {
					t.Errorf("tools: got %v, want coordinate and not acp_team", got)
				}
			})
			t.Run("a client that lists tools once sees all", func(t *testing.T) {
				for _, name := range []string{"codex-mcp-client", "qwen-cli-mcp-client-parley"} {
					client := mcp.NewClient(&mcp.Implementation{Name: name, Version: "1"}, nil)
					loner := &agent{ClientSession: connect(r, t, client, r.add(t, hub.AgentID(name)))}
					if got := loner.names(t); len(got) != 11 || !slices.Contains(got, "acp_team") || !slices.Contains(got, "acp_files") {
						t.Errorf("%s: tools: got %v, want all eleven", name, got)
					}
				}
			})
			t.Run("an agent sees the tool for files while another one works in its working tree", func(t *testing.T) {
				folder := t.TempDir()
				r.do(t, r.operator, "parley/root/add", map[string]any{"path": folder})
				session := func(key, id, event string) {
					r.do(t, key, "wake/report", map[string]any{"cli": "claude", "session": id, "cwd": folder, "event": event})
				}
				other := r.add(t, "other")
				session(key, "one", "start")
				builder.text(t, "acp_inbox", nil)
				if got := builder.names(t); slices.Contains(got, "acp_files") {
					t.Errorf("alone: got %v, want no acp_files", got)
				}
				session(other, "two", "start")
				builder.text(t, "acp_inbox", nil)
				<-changed
				if got := builder.names(t); !slices.Contains(got, "acp_files") {
					t.Errorf("beside another: got %v, want acp_files", got)
				}
				session(other, "two", "end")
				builder.text(t, "acp_inbox", nil)
				<-changed
				if got := builder.names(t); slices.Contains(got, "acp_files") {
					t.Errorf("alone again: got %v, want no acp_files", got)
				}
			})
			t.Run("a coordinator sees the tools for teams, because it makes them", func(t *testing.T) {
				k, err := rpc.Call(t.Context(), r.client(r.operator), api.AddAgent, api.AgentParams{ID: "chief", Role: hub.RoleCoordinator})
				if err != nil {
					t.Fatal(err)
				}
				chief := &agent{ClientSession: connect(r, t, mcp.NewClient(implementation, nil), k.Key)}
				if got := chief.names(t); !slices.Contains(got, "acp_team") {
					t.Errorf("tools: got %v, want acp_team", got)
				}
			})
		})
	}
}

func TestToolsOfFeaturesThatAreOff(t *testing.T) {
	hubtest.NoGoroutinesLeft(t)
	words := map[hub.Feature][]string{
		hub.FeatureNegotiation:  {"negotiation", "task.offer"},
		hub.FeatureDisagreement: {"disagreement", "position.state"},
		hub.FeatureTeamspaces:   {"team"},
	}
	for _, off := range [][]hub.Feature{nil, {hub.FeatureNegotiation}, {hub.FeatureDisagreement}, {hub.FeatureTeamspaces}, hub.Features} {
		t.Run(fmt.Sprint("R3-108 the tools of a part that is off are not listed: without ", off), func(t *testing.T) {
			r := start(t, server.Options{Without: off})
			k, err := rpc.Call(t.Context(), r.client(r.operator), api.AddAgent, api.AgentParams{ID: "chief", Role: hub.RoleCoordinator})
			if err != nil {
				t.Fatal(err)
			}
			overHTTP := &agent{ClientSession: r.connectHTTP(t, mcp.NewClient(implementation, nil), &bearer{k.Key, &http.Transport{}})}
			overStdio := &agent{ClientSession: r.connectStdio(t, mcp.NewClient(implementation, nil), k.Key)}
			for _, chief := range []*agent{overHTTP, overStdio} {
				raw, err := json.Marshal(chief.tools(t))
				if err != nil {
					t.Fatal(err)
				}
				for feature, all := range words {
					for _, word := range all {
						if got, want := bytes.Contains(raw, []byte(word)), !slices.Contains(off, feature); got != want {
							t.Errorf("the tools say %q: got %v, want %v", word, got, want)
						}
					}
				}
				if got, want := bytes.Contains(raw, []byte("asked to decide")), len(off) < len(hub.Features); got != want {
					t.Errorf("the tools say that an agent decides: got %v, want %v", got, want)
				}
				if got, want := bytes.Contains(raw, []byte("acp_subscribe")), !slices.Contains(off, hub.FeatureTeamspaces); got != want {
					t.Errorf("acp_subscribe is listed: got %v, want %v", got, want)
				}
			}
		})
	}
}

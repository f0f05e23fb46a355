package mcptools_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-agents/parley/internal/testing/hostiletest"
	"github.com/parley-agents/parley/internal/testing/patience"
	"github.com/parley-agents/parley/server"
)

// readings returns for each tool the calls that show text of others. A tool without any
// answers with ids and counts alone.
func readings(h *hostiletest.Hub) map[string][]map[string]any {
	team := func(more map[string]any) map[string]any {
		out := map[string]any{"team": h.Team}
		maps.Copy(out, more)
		return out
	}
	project := func(action string, members ...string) map[string]any {
		all := map[string]any{"projectId": h.Project, "contractId": h.Contract, "packetId": h.Packet, "includeHistory": true, "from": 1, "to": 2}
		maps.DeleteFunc(all, func(name string, _ any) bool { return name != "projectId" && !slices.Contains(members, name) })
		all["action"] = action
		return all
	}
	return map[string][]map[string]any{
		"acp_broadcast": nil,
		"acp_respond":   nil,
		"acp_send":      nil,
		"acp_status":    nil,
		"acp_inbox":     {{}, {"id": h.Message}, {"id": h.Long, "part": 1}},
		"acp_query":     {{}, {"team": h.Team}, {"text": hostiletest.Marker}, {"negotiation": h.Offer}, {"disagreement": h.Position}},
		"acp_subscribe": {{"action": "list"}},
		"acp_files":     {{"action": "list", "tree": h.Tree}, {"action": "who", "tree": h.Tree, "paths": []string{"a.txt"}}},
		"acp_handoff":   {{"action": "list"}, {"action": "show", "handoff_id": h.Proposed}, {"action": "show", "handoff_id": h.Done}},
		"acp_team": {
			{"action": "list"}, team(map[string]any{"action": "show"}), team(map[string]any{"action": "task", "task": h.Task}),
			team(map[string]any{"action": "artifact", "artifact": h.Artifact}), team(map[string]any{"action": "artifact", "artifact": h.Artifact, "log": true}),
			team(map[string]any{"action": "decide", "title": "t", "decision": hostiletest.Text(), "rationale": "r"}),
		},
		"coordinate": {
			{"action": "project/list"}, project("project/get"), project("contract/list"), project("contract/get", "contractId", "includeHistory"), project("contract/diff", "contractId", "from", "to"),
			project("context/list"), project("context/getThread", "packetId"), project("implementation/getStatus", "contractId"),
		},
	}
}

// A property is a part of the schema of a tool.
type property struct {
	Type       any                 `json:"type"`
	Enum       []string            `json:"enum"`
	Items      *property           `json:"items"`
	Properties map[string]property `json:"properties"`
}

// hostile returns a value for an argument with hostile text wherever a text can be.
func (p property) hostile() any {
	switch {
	case len(p.Enum) > 0:
		return p.Enum[0]
	case p.Type == "array" && p.Items != nil:
		return []any{p.Items.hostile()}
	case p.Type == "object":
		out := map[string]any{hostiletest.Text(): hostiletest.Text()}
		for name, member := range p.Properties {
			out[name] = member.hostile()
		}
		return out
	case p.Type == "integer":
		return 1
	case p.Type == "boolean":
		return true
	}
	return hostiletest.Text()
}

// attempts returns calls of a tool with hostile arguments, from its schema: for each
// action, or else one.
func attempts(t *testing.T, tool *mcp.Tool) (out []map[string]any) {
	t.Helper()
	raw, err := json.Marshal(tool.InputSchema)
	if err != nil {
		t.Fatal(err)
	}
	var schema property
	if err := json.Unmarshal(raw, &schema); err != nil {
		t.Fatalf("%s: %v", tool.Name, err)
	}
	actions := schema.Properties["action"].Enum
	if len(actions) == 0 {
		actions = []string{""}
	}
	for _, action := range actions {
		whole := map[string]any{}
		for name, p := range schema.Properties {
			if name != "format" && name != "wait_s" {
				whole[name] = p.hostile()
			}
		}
		if action != "" {
			whole["action"] = action
		}
		out = append(out, whole)

		// One member at a time comes further: the others are not refused first.
		for name := range whole {
			one := map[string]any{name: whole[name]}
			if action != "" {
				one["action"] = action
			}
			out = append(out, one)
		}
	}
	return out
}

// No answer of a tool has a character that hides text or moves a cursor: not those that
// show text of others, and not those that refuse it.
func TestEveryToolAnswersInPlainText(t *testing.T) {
	patience.NotUnderRace(t)
	r := start(t, server.Options{Limits: server.Limits{Unsafe: true}})
	h := &hostiletest.Hub{URL: r.url, Operator: r.operator, Planner: r.add(t, "planner"), Builder: r.add(t, "builder")}
	h.Fill(t)
	shows := readings(h)
	for name, connect := range map[string]func(*testing.T, string) *agent{"HTTP": r.overHTTP, "stdio": r.overStdio} {
		t.Run(name, func(t *testing.T) {
			builder := connect(t, h.Builder)
			plain := func(what, text string) {
				t.Helper()
				if found := hostiletest.Find(text); found != "" {
					t.Errorf("%s: %s", what, found)
				}
			}
			plain("instructions", builder.InitializeResult().Instructions)
			list, err := builder.ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, tool := range list.Tools {
				known, ok := shows[tool.Name]
				if !ok {
					t.Errorf("%s: say in readings which calls show text of others", tool.Name)
				}
				for _, args := range known {
					got := builder.text(t, tool.Name, args)
					if got.isError {
						t.Errorf("%s %v: %s", tool.Name, args, got.text)
					}
					if !strings.Contains(got.text, hostiletest.Marker) {
						t.Errorf("%s %v shows no text of others: %s", tool.Name, args, got.text)
					}
					plain(tool.Name, got.text)
					plain(tool.Name+" in JSON", builder.call(t, tool.Name, args).text)
				}
				for _, args := range attempts(t, tool) {
					plain(tool.Name, builder.text(t, tool.Name, args).text)
				}
			}
		})
	}
}

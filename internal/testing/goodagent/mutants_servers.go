package goodagent

import "strings"

// serversMutants is the part of the table of mutants that is about MCP servers.
func serversMutants() []*Mutant {
	const (
		newSession = "session/new"
		load       = "session/load"
	)

	// servers changes the MCP servers that a session is given.
	servers := func(method string, change func([]any) []any) filter {
		return asks(method, has("mcpServers"), func(p map[string]any) {
			if list, ok := p["mcpServers"].([]any); ok {
				p["mcpServers"] = change(list)
			}
		})
	}

	// server changes each of them.
	server := func(change func(map[string]any)) filter {
		return asks(newSession, has("mcpServers"), each("mcpServers", change))
	}

	return []*Mutant{
		{Rule: "MCP-01", Does: "starts no MCP servers", Breaks: []string{"MCP-02", "MCP-03", "MCP-04", "MCP-05", "MCP-06", "MCP-12"}, Change: func(a *Agent) { a.Traits.NoMCP = true }},
		{Rule: "MCP-02", Does: "starts MCP servers without their variables", In: server(func(s map[string]any) {
			if list, _ := s["env"].([]any); len(list) > 1 {
				s["env"] = list[:1]
			}
		})},
		{Rule: "MCP-02", Name: "none", Does: "starts MCP servers without any variables", In: both(
			server(func(s map[string]any) { s["env"] = []any{} }),
			asks(load, has("mcpServers"), each("mcpServers", func(s map[string]any) { s["env"] = []any{} })),
		)},
		{Rule: "MCP-02", Name: "args", Does: "tidies the arguments of MCP servers", In: server(func(s map[string]any) {
			list, _ := s["args"].([]any)
			for i := range list {
				text, _ := list[i].(string)
				list[i] = strings.Join(strings.Fields(text), " ")
			}
		})},
		{Rule: "MCP-03", Does: "does not reach MCP servers over HTTP", Breaks: []string{"MCP-05"}, In: asks(newSession, has("mcpServers"), remove("mcpServers", is("type", "http")))},
		{Rule: "MCP-04", Does: "does not reach MCP servers over a stream of events", Breaks: []string{"MCP-05"}, In: asks(newSession, has("mcpServers"), remove("mcpServers", is("type", "sse")))},
		{Rule: "MCP-05", Does: "does not send the headers", In: server(func(s map[string]any) {
			if s["headers"] != nil {
				s["headers"] = []any{}
			}
		})},
		{Rule: "MCP-06", Does: "connects to one MCP server only", In: servers(newSession, func(list []any) []any { return list[:min(1, len(list))] })},
		{Rule: "MCP-08", Does: "does not answer when an MCP server is dead", Breaks: []string{"RPC-03"}, Out: ignore(newSession, says(`"dead"`))},
		{Rule: "MCP-09", Does: "does not answer when it is given an MCP server that it cannot reach", Breaks: []string{"RPC-03", "MCP-07"},
			Out: both(onResult("initialize", within("agentCapabilities", within("mcpCapabilities", set("http", false)))), ignore(newSession, says(`"http"`)))},
		{Rule: "MCP-10", Does: "does not report the use of an MCP tool", Breaks: []string{"TOOL-03"}, Out: drop(func(m Message) bool { return m.Tag() == "tool_call" && m.Update()["title"] == "Use echo" })},
		{Rule: "MCP-11", Does: "does not show what an MCP tool said", Out: onUpdate("tool_call_update", unset("content"))},
		{Rule: "MCP-12", Does: "connects to no MCP servers when it loads", In: servers(load, func([]any) []any { return []any{} })},
		{Rule: "MCP-13", Does: "lets MCP servers run on", In: server(func(s map[string]any) {
			args, _ := s["args"].([]any)
			s["args"] = append([]any{"-c", `(cat; sleep 3) | "$@"`, "sh", s["command"]}, args...)
			s["command"] = "/bin/sh"
		})},
		{Rule: "MCP-15", Does: "does not answer when two MCP servers have the same name", Breaks: []string{"RPC-03"}, Out: ignore(newSession, says(`"twin"`))},
	}
}

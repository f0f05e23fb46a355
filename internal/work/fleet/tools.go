package fleet

import (
	"slices"
	"strings"

	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
)

// Tools are the hub's MCP tools for an agent: over HTTP if the agent can, else
// through a bridge, a program that the agent starts.
type Tools struct {
	Name string // among the agent's MCP servers
	URL  string // of the hub
	Key  string // identifies the agent on the hub

	Bridge    []string // program, by its absolute path, and arguments
	BridgeEnv []string // NAME=value, besides the key and the address of the hub
}

// server returns the tools as an MCP server of the protocol.
func (t *Tools) server(agent *acp.Profile) acpv2.MCPServer {
	if agent.Can(acp.CanMCPHTTP) || len(t.Bridge) == 0 {
		return acpv2.MCPServer{HTTP: &acpv2.MCPServerHTTP{
			Name: t.Name, URL: t.URL + "/mcp",
			Headers: acpv2.Set([]acpv2.HTTPHeader{{Name: "Authorization", Value: "Bearer " + t.Key}}),
		}}
	}
	var env []acpv2.EnvVariable
	for _, e := range slices.Concat(t.BridgeEnv, []string{"PARLEY_URL=" + t.URL, "PARLEY_KEY=" + t.Key}) {
		name, value, _ := strings.Cut(e, "=")
		env = append(env, acpv2.EnvVariable{Name: name, Value: value})
	}
	return acpv2.MCPServer{Stdio: &acpv2.MCPServerStdio{
		Name: t.Name, Command: acpv2.AbsolutePath(t.Bridge[0]), Args: acpv2.Set(t.Bridge[1:]), Env: acpv2.Set(env),
	}}
}

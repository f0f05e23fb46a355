package acp

import (
	"fmt"

	"github.com/parley-agents/parley/protocol/acp/acpv1"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
)

// upgrade converts a request of a client of version 1 to version 2, which can
// express all of them.
// Messages whose JSON is the same in both versions are encoded and decoded again;
// the others are built member by member. Unknown members and _meta are kept.
func upgrade(m acpv1.Message) (acpv2.Message, error) {
	switch m := m.(type) {
	case *acpv1.AuthenticateRequest:
		return recode(m, &acpv2.LoginAuthRequest{})
	case *acpv1.LogoutRequest:
		return recode(m, &acpv2.LogoutAuthRequest{})
	case *acpv1.ListSessionsRequest:
		return recode(m, &acpv2.ListSessionsRequest{})
	case *acpv1.CloseSessionRequest, *acpv1.DeleteSessionRequest:
		return m, nil
	case *acpv1.PromptRequest:
		return recode(m, &acpv2.PromptRequest{})

	case *acpv1.NewSessionRequest:
		servers, err := upgradeServers(m.MCPServers)
		return &acpv2.NewSessionRequest{
			Cwd: acpv2.AbsolutePath(m.Cwd), AdditionalDirectories: upgradePaths(m.AdditionalDirectories), MCPServers: servers,
			Meta: m.Meta, Extra: m.Extra,
		}, err

	// To load a session is to resume it in version 2, with its messages sent again from the start.
	case *acpv1.LoadSessionRequest:
		servers, err := upgradeServers(m.MCPServers)
		return &acpv2.ResumeSessionRequest{
			SessionID: m.SessionID, Cwd: acpv2.AbsolutePath(m.Cwd), AdditionalDirectories: upgradePaths(m.AdditionalDirectories),
			MCPServers: servers, ReplayFrom: acpv2.Set(acpv2.ReplayFrom{Start: &acpv2.ReplayFromStart{}}),
			Meta: m.Meta, Extra: m.Extra,
		}, err

	case *acpv1.ResumeSessionRequest:
		servers, err := upgradeServers(m.MCPServers.Or(nil))
		return &acpv2.ResumeSessionRequest{
			SessionID: m.SessionID, Cwd: acpv2.AbsolutePath(m.Cwd), AdditionalDirectories: upgradePaths(m.AdditionalDirectories),
			MCPServers: servers, Meta: m.Meta, Extra: m.Extra,
		}, err
	case *acpv1.ForkSessionRequest:
		servers, err := upgradeServers(m.MCPServers.Or(nil))
		return &acpv2.ForkSessionRequest{
			SessionID: m.SessionID, Cwd: acpv2.AbsolutePath(m.Cwd), AdditionalDirectories: upgradePaths(m.AdditionalDirectories),
			MCPServers: servers, Meta: m.Meta, Extra: m.Extra,
		}, err

	case *acpv1.SetSessionConfigOptionRequest:
		return &acpv2.SetSessionConfigOptionRequest{
			SessionID: m.SessionID, ConfigID: m.ConfigID, ID: m.ValueID, Boolean: m.Boolean, Unknown: m.Unknown, Meta: m.Meta, Extra: m.Extra,
		}, nil
	}
	return nil, fmt.Errorf("version 2 has no counterpart of %s", m.Method())
}

// recode converts a value that is encoded the same way in both versions.
func recode[T acpv2.Value](from acpv1.Value, to T) (T, error) {
	raw, err := from.MarshalJSON()
	if err != nil {
		return to, err
	}
	return to, to.UnmarshalJSON(raw)
}

// upgradeServers converts MCP servers. A server over SSE, which version 2 does not
// have, becomes an unknown variant.
func upgradeServers(list []acpv1.MCPServer) (acpv2.Optional[[]acpv2.MCPServer], error) {
	out := make([]acpv2.MCPServer, 0, len(list))
	for i := range list {
		var server acpv2.MCPServer
		if in := list[i].Stdio; in != nil {
			server.Stdio = &acpv2.MCPServerStdio{
				Name: in.Name, Command: acpv2.AbsolutePath(in.Command), Args: acpv2.Set(in.Args), Env: acpv2.Set(in.Env), Meta: in.Meta, Extra: in.Extra,
			}
		} else if _, err := recode(&list[i], &server); err != nil {
			return acpv2.Optional[[]acpv2.MCPServer]{}, err
		}
		out = append(out, server)
	}
	return acpv2.Set(out), nil
}

// upgradePaths converts folders. An absent list stays absent.
func upgradePaths(in acpv1.Optional[[]string]) acpv2.Optional[[]acpv2.AbsolutePath] {
	list, ok := in.Get()
	if !ok {
		return acpv2.Optional[[]acpv2.AbsolutePath]{}
	}
	out := make([]acpv2.AbsolutePath, len(list))
	for i, path := range list {
		out[i] = acpv2.AbsolutePath(path)
	}
	return acpv2.Set(out)
}

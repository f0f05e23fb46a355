package acp

import (
	"fmt"

	"github.com/parley-agents/parley/acp/acpv1"
	"github.com/parley-agents/parley/acp/acpv2"
)

// upgrade converts a request of a client of version 1 to version 2, which can
// express all of them.
func upgrade(m acpv1.Message) (acpv2.Message, error) {
	switch m := m.(type) {
	case *acpv1.AuthenticateRequest:
		return recode(m, &acpv2.LoginAuthRequest{})
	case *acpv1.LogoutRequest:
		return recode(m, &acpv2.LogoutAuthRequest{})
	case *acpv1.ListSessionsRequest:
		return recode(m, &acpv2.ListSessionsRequest{})
	case *acpv1.CloseSessionRequest:
		return recode(m, &acpv2.CloseSessionRequest{})
	case *acpv1.DeleteSessionRequest:
		return recode(m, &acpv2.DeleteSessionRequest{})
	case *acpv1.PromptRequest:
		return recode(m, &acpv2.PromptRequest{})
	case *acpv1.NewSessionRequest:
		servers, err := upgradeServers(m.MCPServers)
		return &acpv2.NewSessionRequest{
			Cwd: acpv2.AbsolutePath(m.Cwd), AdditionalDirectories: upgradePaths(m.AdditionalDirectories), MCPServers: servers,
			Meta: m.Meta, Extra: m.Extra,
		}, err
	case *acpv1.LoadSessionRequest:
		servers, err := upgradeServers(m.MCPServers)
		return &acpv2.ResumeSessionRequest{
			SessionID: SessionID(m.SessionID), Cwd: acpv2.AbsolutePath(m.Cwd), AdditionalDirectories: upgradePaths(m.AdditionalDirectories),
			MCPServers: servers, ReplayFrom: acpv2.Set(acpv2.ReplayFrom{Start: &acpv2.ReplayFromStart{}}),
			Meta: m.Meta, Extra: m.Extra,
		}, err
	case *acpv1.ResumeSessionRequest:
		servers, err := upgradeServers(m.MCPServers.Or(nil))
		return &acpv2.ResumeSessionRequest{
			SessionID: SessionID(m.SessionID), Cwd: acpv2.AbsolutePath(m.Cwd), AdditionalDirectories: upgradePaths(m.AdditionalDirectories),
			MCPServers: servers, Meta: m.Meta, Extra: m.Extra,
		}, err
	case *acpv1.ForkSessionRequest:
		servers, err := upgradeServers(m.MCPServers.Or(nil))
		return &acpv2.ForkSessionRequest{
			SessionID: SessionID(m.SessionID), Cwd: acpv2.AbsolutePath(m.Cwd), AdditionalDirectories: upgradePaths(m.AdditionalDirectories),
			MCPServers: servers, Meta: m.Meta, Extra: m.Extra,
		}, err
	case *acpv1.SetSessionConfigOptionRequest:
		return upgradeOption(m)
	}
	return nil, fmt.Errorf("%s has no counterpart in version 2", m.Method())
}

func upgradeOption(m *acpv1.SetSessionConfigOptionRequest) (acpv2.Message, error) {
	out := &acpv2.SetSessionConfigOptionRequest{SessionID: SessionID(m.SessionID), ConfigID: acpv2.SessionConfigID(m.ConfigID), Meta: m.Meta, Extra: m.Extra}
	switch {
	case m.ValueID != nil:
		out.ID = &acpv2.SessionConfigIDValue{Value: acpv2.SessionConfigValueID(m.ValueID.Value)}
	case m.Boolean != nil:
		out.Boolean = &acpv2.SessionConfigBooleanValue{Value: m.Boolean.Value}
	default:
		out.Unknown = m.Unknown
	}
	return out, nil
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
				Name: in.Name, Command: acpv2.AbsolutePath(in.Command), Args: acpv2.Set(in.Args), Meta: in.Meta, Extra: in.Extra,
			}
			env := make([]acpv2.EnvVariable, 0, len(in.Env))
			for _, v := range in.Env {
				env = append(env, acpv2.EnvVariable{Name: v.Name, Value: v.Value, Meta: v.Meta, Extra: v.Extra})
			}
			server.Stdio.Env = acpv2.Set(env)
		} else if _, err := recode(&list[i], &server); err != nil {
			return acpv2.Optional[[]acpv2.MCPServer]{}, err
		}
		out = append(out, server)
	}
	return acpv2.Set(out), nil
}

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

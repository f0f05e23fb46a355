package acpv2

import (
	"strconv"

	"github.com/parley-agents/parley/protocol/acp/acpv1"
)

// initializeRequest converts the description of a client. Features that version 2
// requires of every client are capabilities in version 1.
func (c *converter) initializeRequest(m *InitializeRequest) acpv1.Message {
	caps, _ := m.Capabilities.Get()
	// Version 2 has no files and terminals of the client: an agent of version 1 must not
	// ask for them.
	v1 := acpv1.ClientCapabilities{
		FS:       Set(acpv1.FileSystemCapabilities{ReadTextFile: Set(false), WriteTextFile: Set(false)}),
		Terminal: Set(false),
		Session: Set(acpv1.ClientSessionCapabilities{
			Compaction:    Set(acpv1.CompactionCapabilities{}),
			ConfigOptions: Set(acpv1.SessionConfigOptionsCapabilities{Boolean: Set(acpv1.BooleanConfigOptionCapabilities{})}),
			Notices:       Set(acpv1.NoticeCapabilities{}),
		}),
		Meta: caps.Meta, Extra: caps.Extra,
	}
	out := &acpv1.InitializeRequest{ProtocolVersion: 1, Meta: m.Meta, Extra: m.Extra}
	out.ClientInfo = Set(m.Info)
	c.at("capabilities", func() {
		v1.Auth = present(c, "auth", caps.Auth, func(a ClientAuthCapabilities) acpv1.AuthCapabilities {
			return acpv1.AuthCapabilities{Terminal: marker(c, "terminal", a.Terminal), Meta: a.Meta, Extra: a.Extra}
		})
		v1.Elicitation = caps.Elicitation
	})
	out.ClientCapabilities = Set(v1)
	return out
}

// initializeResponse converts the description of an agent.
// Listing, loading, resuming and closing sessions are a part of version 2, so an
// agent of version 2 has these capabilities in version 1. Authentication methods
// imply logout.
func (c *converter) initializeResponse(m *InitializeResponse) acpv1.Message {
	out := &acpv1.InitializeResponse{ProtocolVersion: 1, Meta: m.Meta, Extra: m.Extra}
	out.AgentInfo = Set(m.Info)
	caps, _ := m.Capabilities.Get()
	v1 := acpv1.AgentCapabilities{LoadSession: Set(true), Meta: caps.Meta, Extra: caps.Extra}
	c.at("capabilities", func() {
		session, ok := caps.Session.Get()
		// There is no such agent in version 1, and nothing near to it.
		if !ok {
			c.failAt("session", "", "is missing, but an agent of version 1 has sessions")
			return
		}
		c.at("session", func() { c.sessionCapabilities(session, &v1) })
		v1.Auth = present(c, "auth", caps.Auth, func(a AgentAuthCapabilities) acpv1.AgentAuthCapabilities {
			return acpv1.AgentAuthCapabilities{Meta: a.Meta, Extra: a.Extra}
		})
	})
	if methods, ok := m.AuthMethods.Get(); ok {
		out.AuthMethods = Set(each(c, "authMethods", methods, c.authMethod))
		if len(methods) > 0 {
			auth := v1.Auth.Or(acpv1.AgentAuthCapabilities{})
			auth.Logout = Set(acpv1.LogoutCapabilities{})
			v1.Auth = Set(auth)
		}
	}
	out.AgentCapabilities = Set(v1)
	return out
}

// sessionCapabilities sets the capabilities within sessions. Listing, resuming and closing
// are a part of every agent of version 2.
func (c *converter) sessionCapabilities(s SessionCapabilities, v1 *acpv1.AgentCapabilities) {
	out := acpv1.SessionCapabilities{
		List:   Set(acpv1.SessionListCapabilities{}),
		Resume: Set(acpv1.SessionResumeCapabilities{}),
		Close:  Set(acpv1.SessionCloseCapabilities{}),
		Delete: s.Delete,
		Fork:   s.Fork,
		Meta:   s.Meta, Extra: s.Extra,
		AdditionalDirectories: s.AdditionalDirectories,
	}
	v1.SessionCapabilities = Set(out)
	v1.PromptCapabilities = present(c, "prompt", s.Prompt, func(p PromptCapabilities) acpv1.PromptCapabilities {
		return acpv1.PromptCapabilities{
			Image:           marker(c, "image", p.Image),
			Audio:           marker(c, "audio", p.Audio),
			EmbeddedContext: marker(c, "embeddedContext", p.EmbeddedContext),
			Meta:            p.Meta, Extra: p.Extra,
		}
	})
	mcp, _ := s.MCP.Get()
	c.at("mcp", func() {
		if !marker(c, "stdio", mcp.Stdio).Or(false) {
			c.loseAt("stdio", "", "is missing, but an agent of version 1 has it")
		}
		v1.MCPCapabilities = Set(acpv1.MCPCapabilities{
			HTTP: Set(marker(c, "http", mcp.HTTP).Or(false)), SSE: Set(false), Meta: mcp.Meta, Extra: mcp.Extra,
		})
	})
}

// marker converts an object whose presence means true to the boolean of version 1.
func marker[T any](c *converter, name string, in Optional[T]) Optional[bool] {
	v, ok := in.Get()
	if !ok {
		return Optional[bool]{}
	}
	c.at(name, func() {
		if raw, err := acpv1.Marshal(&v); err != nil {
			c.hold(err)
		} else if string(raw) != "{}" && string(raw) != `{"_meta":null}` {
			c.lose(string(raw), "has members, but version 1 has a boolean here")
		}
	})
	return Set(true)
}

// authMethod converts a way to log in. In version 1 a method without type is one
// that the agent handles itself.
func (c *converter) authMethod(m *AuthMethod) (out acpv1.AuthMethod, ok bool) {
	switch {
	case m.Agent != nil:
		out.Agent = &acpv1.AuthMethodAgent{
			ID: m.Agent.MethodID, Name: m.Agent.Name, Description: m.Agent.Description,
			Meta: m.Agent.Meta, Extra: m.Agent.Extra,
		}
	case m.Terminal != nil:
		if c.Client != nil && !c.Client.Auth.Or(acpv1.AuthCapabilities{}).Terminal.Or(false) {
			c.drop(string(m.Terminal.MethodID), "is useless to a client without terminal authentication")
			return out, false
		}
		out.Terminal = &acpv1.AuthMethodTerminal{
			ID: m.Terminal.MethodID, Name: m.Terminal.Name, Description: m.Terminal.Description,
			Args: present(c, "args", m.Terminal.Args, identity),
			Env:  present(c, "env", m.Terminal.Env, c.environment),
			Meta: m.Terminal.Meta, Extra: m.Terminal.Extra,
		}
	default:
		c.loseAt("type", m.Tag(), "is a login method that version 1 would mistake for another")
		return out, false
	}
	return out, true
}

// environment converts variables to an object, in which a name stands once.
func (c *converter) environment(list []EnvVariable) acpv1.Members[string] {
	out := acpv1.Members[string]{}
	for i, v := range list {
		c.at(strconv.Itoa(i), func() {
			if _, twice := out.Get(v.Name); twice {
				c.failAt("name", v.Name, "appears twice, but version 1 has an object here")
			}
			c.vanish(v.Meta, v.Extra)
			out.Set(v.Name, v.Value)
		})
	}
	return out
}

package acpv2

import "github.com/parley-agents/parley/protocol/acp/acpv1"

// newSessionRequest converts a request whose form differs only in the members that may be absent:
// version 1 wants a list of servers, be it an empty one.
func (c *converter) newSessionRequest(m *NewSessionRequest) acpv1.Message {
	return &acpv1.NewSessionRequest{
		Cwd:                   string(m.Cwd),
		AdditionalDirectories: present(c, "additionalDirectories", m.AdditionalDirectories, texts[AbsolutePath]),
		MCPServers:            each(c, "mcpServers", m.MCPServers.Or(nil), c.mcpServer),
		Meta:                  m.Meta, Extra: m.Extra,
	}
}

// resumeSessionRequest converts to session/load if the agent is to repeat the
// updates of the session, else to session/resume.
func (c *converter) resumeSessionRequest(m *ResumeSessionRequest) acpv1.Message {
	directories := present(c, "additionalDirectories", m.AdditionalDirectories, texts[AbsolutePath])
	replay, ok := m.ReplayFrom.Get()
	if !ok {
		c.sessionAble(m.Method(), func(s acpv1.SessionCapabilities) bool { return s.Resume.IsSet() })
		return &acpv1.ResumeSessionRequest{
			SessionID: m.SessionID, Cwd: string(m.Cwd), AdditionalDirectories: directories,
			MCPServers: present(c, "mcpServers", m.MCPServers, c.mcpServers),
			Meta:       m.Meta, Extra: m.Extra,
		}
	}
	c.at("replayFrom", func() {
		if replay.Start == nil {
			c.failAt("type", replay.Tag(), "is a starting point unknown to version 1")
			return
		}
		c.vanish(replay.Start.Meta, replay.Start.Extra)
	})
	c.able(acpv1.MethodSessionLoad, func(a *acpv1.AgentCapabilities) bool { return a.LoadSession.Or(false) })
	return &acpv1.LoadSessionRequest{
		SessionID: m.SessionID, Cwd: string(m.Cwd), AdditionalDirectories: directories,
		MCPServers: each(c, "mcpServers", m.MCPServers.Or(nil), c.mcpServer),
		Meta:       m.Meta, Extra: m.Extra,
	}
}

// resumeSessionResponse converts to the answer of the method that was really called: the
// same request becomes session/load or session/resume.
func (c *converter) resumeSessionResponse(m *ResumeSessionResponse, out *Conversion) acpv1.Message {
	out.Then = c.commandsAfter(c.SessionID, m.AvailableCommands)
	options := optional(c, "configOptions", m.ConfigOptions, c.configOptions)
	if c.Replayed {
		return &acpv1.LoadSessionResponse{ConfigOptions: options, Meta: m.Meta, Extra: m.Extra}
	}
	return &acpv1.ResumeSessionResponse{ConfigOptions: options, Meta: m.Meta, Extra: m.Extra}
}

// forkSessionRequest needs a capability: the method is no stable part of either version.
func (c *converter) forkSessionRequest(m *ForkSessionRequest) acpv1.Message {
	c.sessionAble(m.Method(), func(s acpv1.SessionCapabilities) bool { return s.Fork.IsSet() })
	return &acpv1.ForkSessionRequest{
		SessionID: m.SessionID, Cwd: string(m.Cwd),
		AdditionalDirectories: present(c, "additionalDirectories", m.AdditionalDirectories, texts[AbsolutePath]),
		MCPServers:            present(c, "mcpServers", m.MCPServers, c.mcpServers),
		Meta:                  m.Meta, Extra: m.Extra,
	}
}

// commandsAfter returns the update with the commands that version 2 has in a result:
// version 1 sends them after it.
func (c *converter) commandsAfter(session SessionID, in Optional[[]AvailableCommand]) []acpv1.Message {
	list, ok := in.Get()
	if !ok {
		return nil
	}
	// The answer to session/resume does not name its session.
	if session == "" {
		c.failAt("availableCommands", "", "are sent after the result in version 1, which needs the session: set V1Options.SessionID")
		return nil
	}
	return []acpv1.Message{&acpv1.SessionNotification{
		SessionID: session,
		Update: acpv1.SessionUpdate{AvailableCommandsUpdate: &acpv1.AvailableCommandsUpdate{
			AvailableCommands: each(c, "availableCommands", list, c.command),
		}},
	}}
}

// command converts a command. Version 1 has one type of command.
func (c *converter) command(m *AvailableCommand) (out acpv1.AvailableCommand, ok bool) {
	if m.Command == nil {
		c.loseAt("type", m.Tag(), "is a type of command unknown to version 1")
		return out, false
	}
	out = acpv1.AvailableCommand{Name: m.Command.Name, Description: m.Command.Description, Meta: m.Command.Meta, Extra: m.Command.Extra}
	input, ok := m.Command.Input.Get()
	switch {
	case m.Command.Input.IsNull():
		out.Input = Null[acpv1.AvailableCommandInput]()
	case ok && input.Text != nil:
		out.Input = Set(acpv1.AvailableCommandInput{Unstructured: &acpv1.UnstructuredCommandInput{
			Hint: input.Text.Hint, Meta: input.Text.Meta, Extra: input.Text.Extra,
		}})
	case ok:
		c.at("input", func() {
			c.loseAt("type", input.Tag(), "is a type of input unknown to version 1")
		})
	}
	return out, true
}

// mcpServers converts the current list of servers.
func (c *converter) mcpServers(list []MCPServer) []acpv1.MCPServer {
	return items(c, list, c.mcpServer)
}

// mcpServer converts a server. In version 1 a server without type is a process.
func (c *converter) mcpServer(m *MCPServer) (out acpv1.MCPServer, ok bool) {
	switch {
	case m.Stdio != nil:
		out.Stdio = &acpv1.MCPServerStdio{
			Name: m.Stdio.Name, Command: string(m.Stdio.Command),
			Args: m.Stdio.Args.Or(nil),
			Env:  m.Stdio.Env.Or(nil),
			Meta: m.Stdio.Meta, Extra: m.Stdio.Extra,
		}
	case m.HTTP != nil:
		out.HTTP = &acpv1.MCPServerHTTP{
			Name: m.HTTP.Name, URL: m.HTTP.URL,
			Headers: m.HTTP.Headers.Or(nil),
			Meta:    m.HTTP.Meta, Extra: m.HTTP.Extra,
		}
	default:
		c.failAt("type", m.Tag(), "is a server transport unknown to version 1")
	}
	return out, true
}

// configOptions converts the current list of settings.
func (c *converter) configOptions(list []SessionConfigOption) []acpv1.SessionConfigOption {
	return items(c, list, c.configOption)
}

// configOptionsIn converts the settings in the member configOptions.
func (c *converter) configOptionsIn(list []SessionConfigOption) []acpv1.SessionConfigOption {
	return each(c, "configOptions", list, c.configOption)
}

// configOption converts an option. Options of a type that the client cannot show are left
// out, so that it can still show the others.
func (c *converter) configOption(m *SessionConfigOption) (out acpv1.SessionConfigOption, ok bool) {
	out = acpv1.SessionConfigOption{
		ID: m.ConfigID, Name: m.Name, Description: m.Description,
		Category: m.Category,
		Meta:     m.Meta, Extra: m.Extra,
	}
	switch {
	case m.Select != nil:
		out.Select = &acpv1.SessionConfigSelect{
			CurrentValue: m.Select.CurrentValue,
			Options:      c.selectOptions(&m.Select.Options),
		}
	case m.Boolean != nil:
		if can, known := c.clientSession(); known && !can.ConfigOptions.Or(acpv1.SessionConfigOptionsCapabilities{}).Boolean.IsSet() {
			c.drop(string(m.ConfigID), "is an option of a type the client does not support")
			return out, false
		}
		out.Boolean = m.Boolean
	default:
		c.loseAt("type", m.Tag(), "is a type of option unknown to version 1")
		return out, false
	}
	return out, true
}

// selectOptions converts the choices, with groups or without.
func (c *converter) selectOptions(m *SessionConfigSelectOptions) (out acpv1.SessionConfigSelectOptions) {
	if m.Grouped == nil {
		out.Ungrouped = m.Ungrouped
		return out
	}
	out.Grouped = each(c, "options", m.Grouped, func(g *SessionConfigSelectGroup) (acpv1.SessionConfigSelectGroup, bool) {
		return acpv1.SessionConfigSelectGroup{
			Group: g.GroupID, Name: g.Name, Options: g.Options,
			Meta: g.Meta, Extra: g.Extra,
		}, true
	})
	return out
}

// setConfigOption converts a new value. In version 1 a value without type is an id.
func (c *converter) setConfigOption(m *SetSessionConfigOptionRequest) acpv1.Message {
	out := &acpv1.SetSessionConfigOptionRequest{
		SessionID: m.SessionID, ConfigID: m.ConfigID, Meta: m.Meta, Extra: m.Extra,
	}
	switch {
	case m.ID != nil:
		out.ValueID = m.ID
	case m.Boolean != nil:
		out.Boolean = m.Boolean
	default:
		c.failAt("type", m.Tag(), "is a type of value unknown to version 1")
	}
	return out
}

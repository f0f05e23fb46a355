package acpv2

import "github.com/parley-agents/parley/protocol/acp/acpv1"

// message converts any message: here those about the connection and the answers to them,
// in sessionMessage, promptMessage and agentMessage the others. Notifications that follow
// it go to out.Then.
func (c *converter) message(m Message, out *Conversion) acpv1.Message {
	switch m := m.(type) {
	case *InitializeRequest:
		return c.initializeRequest(m)
	case *InitializeResponse:
		return c.initializeResponse(m)
	case *LoginAuthRequest:
		return &acpv1.AuthenticateRequest{MethodID: m.MethodID, Meta: m.Meta, Extra: m.Extra}
	case *LoginAuthResponse:
		return &acpv1.AuthenticateResponse{Meta: m.Meta, Extra: m.Extra}
	case *LogoutAuthRequest:
		c.able(m.Method(), func(a *acpv1.AgentCapabilities) bool {
			return a.Auth.Or(acpv1.AgentAuthCapabilities{}).Logout.IsSet()
		})
		return &acpv1.LogoutRequest{Meta: m.Meta, Extra: m.Extra}
	case *LogoutAuthResponse:
		return &acpv1.LogoutResponse{Meta: m.Meta, Extra: m.Extra}
	case *CancelRequestNotification:
		return ref(same[acpv1.CancelRequestNotification](c, m))
	default:
		return c.sessionMessage(m, out)
	}
}

// sessionMessage converts the requests of clients about sessions and their options, and the
// answers to them.
func (c *converter) sessionMessage(m Message, out *Conversion) acpv1.Message {
	switch m := m.(type) {
	case *NewSessionRequest:
		return c.newSessionRequest(m)
	case *NewSessionResponse:
		out.Then = c.commandsAfter(m.SessionID, m.AvailableCommands)
		return &acpv1.NewSessionResponse{
			SessionID:     m.SessionID,
			ConfigOptions: optional(c, "configOptions", m.ConfigOptions, c.configOptions),
			Meta:          m.Meta, Extra: m.Extra,
		}

	case *ResumeSessionRequest:
		return c.resumeSessionRequest(m)
	case *ResumeSessionResponse:
		return c.resumeSessionResponse(m, out)

	case *ForkSessionRequest:
		return c.forkSessionRequest(m)
	case *ForkSessionResponse:
		out.Then = c.commandsAfter(m.SessionID, m.AvailableCommands)
		return &acpv1.ForkSessionResponse{
			SessionID:     m.SessionID,
			ConfigOptions: optional(c, "configOptions", m.ConfigOptions, c.configOptions),
			Meta:          m.Meta, Extra: m.Extra,
		}

	// In version 1 an agent may lack these methods, so its capabilities are checked.
	case *ListSessionsRequest:
		c.sessionAble(m.Method(), func(s acpv1.SessionCapabilities) bool { return s.List.IsSet() })
		return ref(same[acpv1.ListSessionsRequest](c, m))
	case *ListSessionsResponse:
		return ref(same[acpv1.ListSessionsResponse](c, m))
	case *DeleteSessionRequest:
		c.sessionAble(m.Method(), func(s acpv1.SessionCapabilities) bool { return s.Delete.IsSet() })
		return m
	case *CloseSessionRequest:
		c.sessionAble(m.Method(), func(s acpv1.SessionCapabilities) bool { return s.Close.IsSet() })
		return m
	case *DeleteSessionResponse, *CloseSessionResponse:
		return m

	case *SetSessionConfigOptionRequest:
		return c.setConfigOption(m)
	case *SetSessionConfigOptionResponse:
		return &acpv1.SetSessionConfigOptionResponse{ConfigOptions: c.configOptionsIn(m.ConfigOptions), Meta: m.Meta, Extra: m.Extra}

	default:
		return c.promptMessage(m)
	}
}

// promptMessage converts the requests and notifications of clients within a session, and the
// answers to them.
func (c *converter) promptMessage(m Message) acpv1.Message {
	switch m := m.(type) {
	case *PromptRequest:
		return &acpv1.PromptRequest{SessionID: m.SessionID, Prompt: each(c, "prompt", m.Prompt, c.promptBlock), Meta: m.Meta, Extra: m.Extra}
	case *PromptResponse:
		// The answer is an acknowledgement, of which version 1 has none.
		c.failAt("messageId", string(m.MessageID), "accepts a prompt, which version 1 answers only when the work is done: use a Bridge")
	case *CancelSessionNotification:
		return ref(same[acpv1.CancelNotification](c, m))
	case *CancelToolCallRequest, *CancelToolCallResponse, *CancelTerminalRequest, *CancelTerminalResponse:
		c.fail(m.Method(), "is not a method of version 1")
	default:
		return c.agentMessage(m)
	}
	return nil
}

// agentMessage converts the requests and notifications of agents, and the answers to them.
func (c *converter) agentMessage(m Message) acpv1.Message {
	switch m := m.(type) {
	case *UpdateSessionNotification:
		return c.notification(m)
	case *RequestPermissionRequest:
		return c.requestPermission(m)
	case *RequestPermissionResponse:
		return ref(same[acpv1.RequestPermissionResponse](c, m))
	case *CreateElicitationRequest:
		return ref(same(c, m, c.mendForm))
	case *CreateElicitationResponse:
		return ref(same[acpv1.CreateElicitationResponse](c, m))
	case *CompleteElicitationNotification:
		return m
	default:
		c.fail("", "%T is not a message of version 2", m)
	}
	return nil
}

// ref makes a value a message: those have methods on their pointers.
func ref[T any](v T) *T { return &v }

// able records a problem if the agent lacks the capability for a method.
func (c *converter) able(method string, can func(*acpv1.AgentCapabilities) bool) {
	if c.Agent != nil && !can(c.Agent) {
		c.fail(method, "is not one of the agent's capabilities")
	}
}

// sessionAble is able for a capability among those of sessions.
func (c *converter) sessionAble(method string, can func(acpv1.SessionCapabilities) bool) {
	c.able(method, func(a *acpv1.AgentCapabilities) bool {
		return can(a.SessionCapabilities.Or(acpv1.SessionCapabilities{}))
	})
}

// clientSession returns the capabilities of the client within sessions, and whether
// they are known.
func (c *converter) clientSession() (acpv1.ClientSessionCapabilities, bool) {
	if c.Client == nil {
		return acpv1.ClientSessionCapabilities{}, false
	}
	return c.Client.Session.Or(acpv1.ClientSessionCapabilities{}), true
}

// mendForm leaves out the formats of texts that version 1 does not have: they are hints.
func (c *converter) mendForm(m *acpv1.CreateElicitationRequest) {
	if m.Form == nil {
		return
	}
	c.at("requestedSchema", func() {
		c.at("properties", func() {
			for _, p := range m.Form.RequestedSchema.Properties.Or(nil) {
				if text := p.Value.String; text != nil && text.Format.IsSet() && !text.Format.Or("").Known() {
					c.at(p.Name, func() {
						c.loseAt("format", string(text.Format.Or("")), "is a format unknown to version 1")
					})
					text.Format = Optional[acpv1.StringFormat]{}
				}
			}
		})
	})
}

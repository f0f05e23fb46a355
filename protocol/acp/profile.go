package acp

import (
	"slices"

	"github.com/parley-agents/parley/protocol/acp/acpv1"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
)

// A Capability is an optional ability of an agent. The values are names of this
// package, chosen to read well in an error text; each version has members of its
// own for them.
type Capability string

// The capabilities. The names hold in both versions.
const (
	CanLoad        Capability = "session/load"             // Client.LoadSession
	CanResume      Capability = "session/resume"           // Client.ResumeSession
	CanList        Capability = "session/list"             // Client.Sessions
	CanClose       Capability = "session/close"            // Session.Close ends the session at the agent, too
	CanDelete      Capability = "session/delete"           // Client.DeleteSession
	CanFork        Capability = "session/fork"             // Client.ForkSession
	CanDirectories Capability = "additional directories"   // SessionOptions.Directories
	CanImage       Capability = "prompt: image"            // images in prompts
	CanAudio       Capability = "prompt: audio"            // audio in prompts
	CanEmbed       Capability = "prompt: embedded context" // embedded resources in prompts
	CanMCPStdio    Capability = "mcp: stdio"               // MCP servers that are commands; every agent of version 1
	CanMCPHTTP     Capability = "mcp: http"                // MCP servers over HTTP
	CanMCPSSE      Capability = "mcp: sse"                 // MCP servers over SSE; version 1 only
	CanLogout      Capability = "logout"                   // Client.Logout
)

// Capabilities returns all capabilities.
func Capabilities() []Capability {
	return []Capability{CanLoad, CanResume, CanList, CanClose, CanDelete, CanFork, CanDirectories,
		CanImage, CanAudio, CanEmbed, CanMCPStdio, CanMCPHTTP, CanMCPSSE, CanLogout}
}

// An AuthMethod is a way to log in.
type AuthMethod struct {
	ID          string
	Name        string
	Description string
	Type        string   // "agent", "terminal", or a type that this package does not know
	Args        []string // for a terminal: the arguments that start the agent's login
}

// A Profile describes an agent as its answer to initialize does.
type Profile struct {
	Version int // of the protocol, as agreed

	Name, Title, Release string // of the agent; empty if it did not say

	Capabilities []Capability // in the order of Capabilities
	AuthMethods  []AuthMethod

	// The answer as it came. Exactly one is set.
	V1 *acpv1.InitializeResponse
	V2 *acpv2.InitializeResponse
}

// Can reports whether the agent has a capability.
func (p *Profile) Can(c Capability) bool { return slices.Contains(p.Capabilities, c) }

// setCapabilities sets the capabilities that are true in has.
func (p *Profile) setCapabilities(has map[Capability]bool) {
	for _, c := range Capabilities() {
		if has[c] {
			p.Capabilities = append(p.Capabilities, c)
		}
	}
}

// profileV1 returns the profile of an agent of version 1, in which each capability
// has a flag or an object of its own.
func profileV1(m *acpv1.InitializeResponse) Profile {
	info := m.AgentInfo.Or(acpv1.Implementation{})
	p := Profile{Version: 1, Name: info.Name, Title: info.Title.Or(""), Release: info.Version, V1: m}

	caps := m.AgentCapabilities.Or(acpv1.AgentCapabilities{})
	session := caps.SessionCapabilities.Or(acpv1.SessionCapabilities{})
	prompt := caps.PromptCapabilities.Or(acpv1.PromptCapabilities{})
	mcp := caps.MCPCapabilities.Or(acpv1.MCPCapabilities{})

	p.setCapabilities(map[Capability]bool{
		CanLoad:        caps.LoadSession.Or(false),
		CanResume:      session.Resume.IsSet(),
		CanList:        session.List.IsSet(),
		CanClose:       session.Close.IsSet(),
		CanDelete:      session.Delete.IsSet(),
		CanFork:        session.Fork.IsSet(),
		CanDirectories: session.AdditionalDirectories.IsSet(),
		CanImage:       prompt.Image.Or(false),
		CanAudio:       prompt.Audio.Or(false),
		CanEmbed:       prompt.EmbeddedContext.Or(false),
		CanMCPStdio:    true, // every agent of version 1
		CanMCPHTTP:     mcp.HTTP.Or(false),
		CanMCPSSE:      mcp.SSE.Or(false),
		CanLogout:      caps.Auth.Or(acpv1.AgentAuthCapabilities{}).Logout.IsSet(),
	})

	for _, a := range m.AuthMethods.Or(nil) {
		switch {
		case a.Agent != nil:
			p.AuthMethods = append(p.AuthMethods, AuthMethod{ID: string(a.Agent.ID), Name: a.Agent.Name, Description: a.Agent.Description.Or(""), Type: "agent"})
		case a.Terminal != nil:
			p.AuthMethods = append(p.AuthMethods, AuthMethod{ID: string(a.Terminal.ID), Name: a.Terminal.Name, Description: a.Terminal.Description.Or(""), Type: "terminal", Args: a.Terminal.Args.Or(nil)})
		case a.Unknown != nil:
			p.AuthMethods = append(p.AuthMethods, unknownMethod(a.Unknown, "id"))
		}
	}
	return p
}

// profileV2 returns the profile of an agent of version 2. There an agent with sessions
// can load, resume, list and close them.
func profileV2(m *acpv2.InitializeResponse) Profile {
	p := Profile{Version: 2, Name: m.Info.Name, Title: m.Info.Title.Or(""), Release: m.Info.Version, V2: m}

	session, sessions := m.Capabilities.Or(acpv2.AgentCapabilities{}).Session.Get()
	prompt := session.Prompt.Or(acpv2.PromptCapabilities{})
	mcp := session.MCP.Or(acpv2.MCPCapabilities{})
	methods := m.AuthMethods.Or(nil)

	p.setCapabilities(map[Capability]bool{
		CanLoad:        sessions,
		CanResume:      sessions,
		CanList:        sessions,
		CanClose:       sessions,
		CanDelete:      session.Delete.IsSet(),
		CanFork:        session.Fork.IsSet(),
		CanDirectories: session.AdditionalDirectories.IsSet(),
		CanImage:       prompt.Image.IsSet(),
		CanAudio:       prompt.Audio.IsSet(),
		CanEmbed:       prompt.EmbeddedContext.IsSet(),
		CanMCPStdio:    mcp.Stdio.IsSet(),
		CanMCPHTTP:     mcp.HTTP.IsSet(),
		CanLogout:      len(methods) > 0,
	})

	for _, a := range methods {
		switch {
		case a.Agent != nil:
			p.AuthMethods = append(p.AuthMethods, AuthMethod{ID: string(a.Agent.MethodID), Name: a.Agent.Name, Description: a.Agent.Description.Or(""), Type: "agent"})
		case a.Terminal != nil:
			p.AuthMethods = append(p.AuthMethods, AuthMethod{ID: string(a.Terminal.MethodID), Name: a.Terminal.Name, Description: a.Terminal.Description.Or(""), Type: "terminal", Args: a.Terminal.Args.Or(nil)})
		case a.Unknown != nil:
			p.AuthMethods = append(p.AuthMethods, unknownMethod(a.Unknown, "methodId"))
		}
	}
	return p
}

// unknownMethod returns a login method of a type that this package does not know.
// Its members are read by name as far as they are strings; id is the name that the
// version gives the id. A client can still show the method and pass its id on.
func unknownMethod(u *acpv1.Unknown, id string) AuthMethod {
	return AuthMethod{ID: memberText(u, id), Name: memberText(u, "name"), Description: memberText(u, "description"), Type: u.Tag}
}

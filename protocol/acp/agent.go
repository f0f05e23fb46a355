package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/parley-agents/parley/protocol/acp/acpv1"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
	"github.com/parley-agents/parley/protocol/jsonrpc"
)

// An Agent holds the functions of a program that serves as an agent. Only Prompt is
// required. A function that is set is offered to the client as a capability; a
// request for one that is not set is refused.
//
// The functions are called at the same time for different sessions. Their errors
// are sent to the client with their text; a *jsonrpc.Error is sent as it is.
type Agent struct {
	Name, Title, Version string // default parley

	// V2 enables version 2 of the protocol for clients that offer it.
	V2 bool

	// Lossy converts a message that version 1 cannot express to the nearest that it
	// can. Without it, sending such a message to a client of version 1 fails.
	Lossy bool

	// Capabilities holds the capabilities without a function: those of prompts, MCP
	// servers and directories.
	Capabilities []Capability

	// Meta is the JSON object in the _meta of the capabilities, in which extensions
	// are announced.
	Meta json.RawMessage

	// Extensions holds the values that the agent may send in enums and unions
	// although the protocol does not define them.
	Extensions *acpv2.Extensions

	// Prompt works on a prompt until it is done or ctx ends. ctx ends when the turn
	// is cancelled; the turn then ends as cancelled, even if Prompt returns otherwise.
	Prompt func(ctx context.Context, t *AgentTurn) (StopReason, error)

	// NewSession begins a session. It may change its ID, Options and Commands.
	NewSession func(ctx context.Context, s *AgentSession) error

	// LoadSession opens a session of an earlier connection and, if replay is set,
	// repeats its messages with s.Update. Without it a client of version 2 can
	// resume the sessions that are open in this process only.
	LoadSession func(ctx context.Context, s *AgentSession, replay bool) error

	// ForkSession begins a session as a copy of another one.
	ForkSession func(ctx context.Context, from SessionID, s *AgentSession) error

	// ListSessions returns a page of the sessions in dir, or of all if dir is empty,
	// and the cursor of the next page, "" after the last. Without it a client of
	// version 2 gets the sessions that are open in this process.
	ListSessions func(ctx context.Context, dir, cursor string) (page []SessionInfo, next string, err error)

	// Opened is called after the answer that opened a session was sent: from then on the
	// client knows the session, and updates of it may be sent outside of turns.
	Opened func(s *AgentSession)

	// CloseSession is called when a session ends, after its turn.
	CloseSession  func(ctx context.Context, s *AgentSession) error
	DeleteSession func(ctx context.Context, id SessionID) error

	// SetOption changes s.Options. The value is a string or a bool.
	SetOption func(ctx context.Context, s *AgentSession, id string, value any) error

	// AuthMethods are offered to the client; Authenticate logs in with one of them.
	AuthMethods  []acpv2.AuthMethod
	Authenticate func(ctx context.Context, methodID string) error
	Logout       func(ctx context.Context) error

	// Extension answers requests, and ExtensionNotice handles notifications, whose
	// method begins with _.
	Extension       func(ctx context.Context, method string, params json.RawMessage) (any, error)
	ExtensionNotice func(ctx context.Context, method string, params json.RawMessage)
}

// Serve serves one client that writes to r and reads from w. It returns after the
// client has ended the connection, when all turns have ended, or when ctx ends.
// At the end it closes r and w if they are an io.Closer, which also ends a read that
// blocks.
func Serve(ctx context.Context, agent *Agent, r io.Reader, w io.Writer) error {
	if agent.Prompt == nil {
		return errors.New("acp: serve: Agent.Prompt is not set")
	}
	a := newAgentConn(agent)
	conn := a.open(r, w)
	// The end of ctx closes the connection, which ends the wait below.
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()

	// No request comes any more. end cancels the turns, Wait waits for the handlers
	// of requests, and work for the turns of version 2, which outlive the handler
	// of their prompt.
	<-conn.Done()
	a.end()
	err := conn.Wait()
	conn.Close() // it has ended, and nothing is left to fail
	a.work.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("acp: serve: %w", err)
	}
	return nil
}

// A ClientProfile describes a client as its initialize request does.
type ClientProfile struct {
	Version       int    // of the protocol, as agreed
	Name, Release string // of the client

	ReadFiles, WriteFiles, Terminals bool // the offered services; version 1 only
	Elicit                           bool // the client can put questions to its user
	TerminalAuth                     bool // its user can log in on a terminal

	// The capabilities as they came. Exactly one is set.
	V1 *acpv1.ClientCapabilities
	V2 *acpv2.ClientCapabilities
}

// initialize agrees on a version with the client and stores its profile.
// The answer must be computed in the order of arrival, before the next request is
// read; open sees to that.
func (a *agentConn) initialize(c *jsonrpc.Conn, params json.RawMessage) (any, error) {
	var head struct {
		Version *uint16 `json:"protocolVersion"`
	}
	if err := json.Unmarshal(params, &head); err != nil || head.Version == nil {
		return nil, invalidParams(errors.New("protocolVersion must be an integer from 0 to 65535"))
	}
	rc := &remoteClient{conn: c}
	// A client that offers a version above 2 gets the highest that is known here.
	readProfile := rc.readProfileV1
	if a.agent.V2 && *head.Version != 1 {
		readProfile = rc.readProfileV2
	}
	if err := readProfile(params); err != nil {
		return nil, invalidParams(err)
	}
	rc.bridge = acpv2.NewBridge(&acpv2.V1Options{Client: &rc.caps, Lossy: a.agent.Lossy})
	if !a.setClient(rc) {
		return nil, invalidRequest("initialize was already answered")
	}
	if rc.profile.Version == 1 {
		return encoded(a.initializeResponseV1(rc.caps))
	}
	return encoded(a.initializeResponseV2(rc.profile))
}

// readProfileV1 reads the profile of a client that gets version 1.
func (rc *remoteClient) readProfileV1(params json.RawMessage) error {
	var m acpv1.InitializeRequest
	if err := m.UnmarshalJSON(params); err != nil {
		return err
	}
	info := m.ClientInfo.Or(acpv1.Implementation{})
	rc.caps = m.ClientCapabilities.Or(acpv1.ClientCapabilities{})
	fs := rc.caps.FS.Or(acpv1.FileSystemCapabilities{})
	rc.profile = ClientProfile{
		Version: 1, Name: info.Name, Release: info.Version,
		ReadFiles: fs.ReadTextFile.Or(false), WriteFiles: fs.WriteTextFile.Or(false),
		Terminals: rc.caps.Terminal.Or(false), Elicit: rc.caps.Elicitation.IsSet(),
		TerminalAuth: rc.caps.Auth.Or(acpv1.AuthCapabilities{}).Terminal.Or(false),
		V1:           &rc.caps,
	}
	return nil
}

// readProfileV2 reads the profile of a client that gets version 2, which has neither
// files nor terminals.
func (rc *remoteClient) readProfileV2(params json.RawMessage) error {
	var m acpv2.InitializeRequest
	if err := m.UnmarshalJSON(params); err != nil {
		return err
	}
	caps := m.Capabilities.Or(acpv2.ClientCapabilities{})
	rc.profile = ClientProfile{
		Version: 2, Name: m.Info.Name, Release: m.Info.Version,
		Elicit:       caps.Elicitation.IsSet(),
		TerminalAuth: caps.Auth.Or(acpv2.ClientAuthCapabilities{}).Terminal.IsSet(),
		V2:           &caps,
	}
	return nil
}

// has reports whether the agent claims a capability that follows from no function.
func (a *agentConn) has(c Capability) bool { return slices.Contains(a.agent.Capabilities, c) }

// marker returns an empty object if a capability is there: its presence is the
// statement.
func marker[T any](there bool) acpv1.Optional[T] {
	var object T
	if !there {
		return acpv1.Optional[T]{}
	}
	return acpv1.Set(object)
}

// initializeResponseV1 returns the answer to initialize in version 1.
// The protocol has authentication methods in another form in each version. Each
// method is converted inside an initialize response of its own, so a method that
// the client cannot use fails alone and the others are still offered. The MCP
// capability in that response is there only because the conversion asks for it.
func (a *agentConn) initializeResponseV1(caps acpv1.ClientCapabilities) *acpv1.InitializeResponse {
	agent := a.agent
	methods := []acpv1.AuthMethod{}
	for i := range agent.AuthMethods {
		v2 := &acpv2.InitializeResponse{
			ProtocolVersion: 2, Info: a.info(), AuthMethods: acpv2.Set(agent.AuthMethods[i : i+1]),
			Capabilities: acpv2.Set(acpv2.AgentCapabilities{Session: acpv2.Set(acpv2.SessionCapabilities{
				MCP: acpv2.Set(acpv2.MCPCapabilities{Stdio: acpv2.Set(acpv2.MCPStdioCapabilities{})}),
			})}),
		}
		// A method that the client cannot use is not offered.
		if c, err := acpv2.ToV1(v2, &acpv2.V1Options{Client: &caps}); err == nil {
			methods = append(methods, c.Message.(*acpv1.InitializeResponse).AuthMethods.Or(nil)...)
		}
	}

	info := a.info()
	return &acpv1.InitializeResponse{
		ProtocolVersion: 1,
		AgentInfo:       acpv1.Set(acpv1.Implementation{Name: info.Name, Title: info.Title, Version: info.Version}),
		AuthMethods:     acpv1.Set(methods),
		AgentCapabilities: acpv1.Set(acpv1.AgentCapabilities{
			LoadSession: acpv1.Set(agent.LoadSession != nil),
			PromptCapabilities: acpv1.Set(acpv1.PromptCapabilities{
				Image: acpv1.Set(a.has(CanImage)), Audio: acpv1.Set(a.has(CanAudio)), EmbeddedContext: acpv1.Set(a.has(CanEmbed)),
			}),
			MCPCapabilities: acpv1.Set(acpv1.MCPCapabilities{HTTP: acpv1.Set(a.has(CanMCPHTTP)), SSE: acpv1.Set(a.has(CanMCPSSE))}),
			SessionCapabilities: acpv1.Set(acpv1.SessionCapabilities{
				List:                  marker[acpv1.SessionListCapabilities](agent.ListSessions != nil),
				Delete:                marker[acpv1.SessionDeleteCapabilities](agent.DeleteSession != nil),
				AdditionalDirectories: marker[acpv1.SessionAdditionalDirectoriesCapabilities](a.has(CanDirectories)),
				Resume:                marker[acpv1.SessionResumeCapabilities](agent.LoadSession != nil),
				Close:                 marker[acpv1.SessionCloseCapabilities](true),
				Fork:                  marker[acpv1.SessionForkCapabilities](agent.ForkSession != nil),
			}),
			Auth: acpv1.Set(acpv1.AgentAuthCapabilities{Logout: marker[acpv1.LogoutCapabilities](agent.Logout != nil)}),
			Meta: agent.Meta,
		}),
	}
}

// initializeResponseV2 returns the answer to initialize in version 2.
// An agent of version 2 with sessions can list, resume and close them without a
// capability of their own. A login on a terminal is offered only to clients with one.
func (a *agentConn) initializeResponseV2(client ClientProfile) *acpv2.InitializeResponse {
	agent := a.agent
	out := &acpv2.InitializeResponse{
		ProtocolVersion: 2,
		Info:            a.info(),
		Capabilities: acpv2.Set(acpv2.AgentCapabilities{Meta: agent.Meta, Session: acpv2.Set(acpv2.SessionCapabilities{
			Prompt: acpv2.Set(acpv2.PromptCapabilities{
				Image:           marker[acpv2.PromptImageCapabilities](a.has(CanImage)),
				Audio:           marker[acpv2.PromptAudioCapabilities](a.has(CanAudio)),
				EmbeddedContext: marker[acpv2.PromptEmbeddedContextCapabilities](a.has(CanEmbed)),
			}),
			MCP: acpv2.Set(acpv2.MCPCapabilities{
				Stdio: marker[acpv2.MCPStdioCapabilities](a.has(CanMCPStdio)),
				HTTP:  marker[acpv2.MCPHTTPCapabilities](a.has(CanMCPHTTP)),
			}),
			Delete:                marker[acpv2.SessionDeleteCapabilities](agent.DeleteSession != nil),
			AdditionalDirectories: marker[acpv2.SessionAdditionalDirectoriesCapabilities](a.has(CanDirectories)),
			Fork:                  marker[acpv2.SessionForkCapabilities](agent.ForkSession != nil),
		})}),
	}
	methods := slices.Clone(agent.AuthMethods)
	if !client.TerminalAuth {
		methods = slices.DeleteFunc(methods, func(m acpv2.AuthMethod) bool { return m.Terminal != nil })
	}
	if len(methods) > 0 {
		out.AuthMethods = acpv2.Set(methods)
	}
	return out
}

// info returns the name and version of the agent.
func (a *agentConn) info() acpv2.Implementation {
	info := acpv2.Implementation{Name: a.agent.Name, Version: a.agent.Version}
	if info.Name == "" {
		info.Name, info.Version = "parley", "0"
	}
	if a.agent.Title != "" {
		info.Title = acpv2.Set(a.agent.Title)
	}
	return info
}

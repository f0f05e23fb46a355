package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/parley-agents/parley/acp/acpv1"
	"github.com/parley-agents/parley/acp/acpv2"
	"github.com/parley-agents/parley/jsonrpc"
)

// An Agent is what a program does as an agent. Only Prompt is needed. What else is
// there is offered to the client; what is not is refused for it.
//
// The functions are called at the same time for different sessions. Their errors
// reach the client with their text; a *jsonrpc.Error goes as it is.
type Agent struct {
	Name, Title, Version string // default parley

	// V2 speaks version 2 of the protocol with clients that offer it.
	V2 bool

	// Lossy sends clients of version 1 what is nearest to something that only
	// version 2 can say. Otherwise saying it fails.
	Lossy bool

	// Capabilities are those that no function stands for: about prompts, MCP
	// servers and directories.
	Capabilities []Capability

	// Meta is an object that goes into the _meta of the capabilities: it is how
	// extensions are told about.
	Meta json.RawMessage

	// Extensions are the values of our own that may be sent in enums and unions.
	// Others that the protocol does not define cannot be sent.
	Extensions *acpv2.Extensions

	// Prompt works on a prompt until it is done or ctx ends, which it does when
	// the turn is cancelled. The client then gets to hear that it was cancelled,
	// whatever Prompt returns.
	Prompt func(ctx context.Context, t *AgentTurn) (StopReason, error)

	// NewSession begins a session. It may change its ID, Options and Commands.
	NewSession func(ctx context.Context, s *AgentSession) error

	// LoadSession opens a session that was there before, and repeats what was
	// said with s.Update if replay is set. Without it only sessions can be
	// resumed that are open in this process.
	LoadSession func(ctx context.Context, s *AgentSession, replay bool) error

	// ForkSession begins a session as a copy of another one.
	ForkSession func(ctx context.Context, from SessionID, s *AgentSession) error

	// ListSessions returns a page of sessions, those that work in dir if it is
	// not empty, and where the next page begins, "" if there is none. Without it
	// clients of version 2 get those that are open in this process.
	ListSessions func(ctx context.Context, dir, cursor string) (page []SessionInfo, next string, err error)

	// CloseSession is told that a session ends; its turn has ended before.
	CloseSession  func(ctx context.Context, s *AgentSession) error
	DeleteSession func(ctx context.Context, id SessionID) error

	// SetOption changes s.Options. The value is a string or a bool.
	SetOption func(ctx context.Context, s *AgentSession, id string, value any) error

	AuthMethods  []acpv2.AuthMethod
	Authenticate func(ctx context.Context, methodID string) error
	Logout       func(ctx context.Context) error

	// Extension answers requests, and ExtensionNotice hears notifications, for
	// methods that begin with _.
	Extension       func(ctx context.Context, method string, params json.RawMessage) (any, error)
	ExtensionNotice func(ctx context.Context, method string, params json.RawMessage)
}

// Serve is an agent for one client, over what the client writes and reads. It
// returns when the client has ended the connection, and all turns with it, or when
// ctx ends.
func Serve(ctx context.Context, agent *Agent, r io.Reader, w io.Writer) error {
	if agent.Prompt == nil {
		return errors.New("acp: an agent needs the function Prompt")
	}
	a := newAgentConn(agent)
	conn := a.open(r, w)
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
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

// A ClientProfile is what a client says about itself.
type ClientProfile struct {
	Version       int // of the protocol, as agreed on
	Name, Release string

	ReadFiles, WriteFiles, Terminals bool // version 1 only
	Elicit                           bool
	TerminalAuth                     bool

	// The capabilities as they came. Exactly one is set.
	V1 *acpv1.ClientCapabilities
	V2 *acpv2.ClientCapabilities
}

// initialize answers initialize.
func (a *agentConn) initialize(c *jsonrpc.Conn, params json.RawMessage) (any, error) {
	var head struct {
		Version *uint16 `json:"protocolVersion"`
	}
	if err := json.Unmarshal(params, &head); err != nil || head.Version == nil {
		return nil, invalidParams(errors.New("protocolVersion must be an integer from 0 to 65535"))
	}
	rc := &remoteClient{conn: c}
	readProfile := rc.readProfileV1
	if a.agent.V2 && *head.Version != 1 {
		readProfile = rc.readProfileV2
	}
	if err := readProfile(params); err != nil {
		return nil, invalidParams(err)
	}
	rc.bridge = acpv2.NewBridge(&acpv2.V1Options{Client: &rc.caps, Lossy: a.agent.Lossy})
	if !a.setClient(rc) {
		return nil, invalidRequest("initialize was answered before")
	}
	if rc.profile.Version == 1 {
		return encoded(a.introductionV1(rc.caps))
	}
	return encoded(a.introductionV2())
}

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

func (a *agentConn) has(c Capability) bool { return slices.Contains(a.agent.Capabilities, c) }

// marker returns an object that says by being there that something is so.
func marker[T any](there bool) acpv1.Optional[T] {
	var object T
	if !there {
		return acpv1.Optional[T]{}
	}
	return acpv1.Set(object)
}

// introductionV1 returns the answer to initialize in version 1.
func (a *agentConn) introductionV1(caps acpv1.ClientCapabilities) *acpv1.InitializeResponse {
	agent := a.agent
	methods := []acpv1.AuthMethod{}
	for i := range agent.AuthMethods {
		v2 := &acpv2.InitializeResponse{
			ProtocolVersion: 2, Info: a.info(), AuthMethods: acpv2.Set(agent.AuthMethods[i : i+1]),
			Capabilities: acpv2.Set(acpv2.AgentCapabilities{Session: acpv2.Set(acpv2.SessionCapabilities{
				MCP: acpv2.Set(acpv2.MCPCapabilities{Stdio: acpv2.Set(acpv2.MCPStdioCapabilities{})}),
			})}),
		}
		// A method that the client has no use for is not offered.
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

// introductionV2 returns the answer to initialize in version 2.
func (a *agentConn) introductionV2() *acpv2.InitializeResponse {
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
	if len(agent.AuthMethods) > 0 {
		out.AuthMethods = acpv2.Set(agent.AuthMethods)
	}
	return out
}

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

package acp

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"

	"github.com/parley-agents/parley/protocol/acp/acpv1"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
	"github.com/parley-agents/parley/protocol/jsonrpc"
)

// maxSessions is the largest number of open sessions on one connection.
const maxSessions = 1024

// An agentConn is the agent side of one connection.
type agentConn struct {
	agent *Agent
	work  sync.WaitGroup // turns of version 2

	// life ends when the connection ends, and all turns with it.
	life context.Context
	end  context.CancelFunc

	// mu comes before AgentSession.mu in the lock order.
	mu       sync.Mutex    // guards client and sessions
	client   *remoteClient // nil before initialize
	sessions map[SessionID]*AgentSession
}

// A remoteClient is the client of an agent and the connection to it. It does not
// change.
// It is built while initialize is handled and published by agentConn.setClient, so
// its fields are read without a lock.
type remoteClient struct {
	conn    *jsonrpc.Conn
	profile ClientProfile
	caps    acpv1.ClientCapabilities // of a client of version 1
	bridge  *acpv2.Bridge            // for a client of version 1
}

// newAgentConn returns a connection that is not open yet.
func newAgentConn(agent *Agent) *agentConn {
	a := &agentConn{agent: agent, sessions: map[SessionID]*AgentSession{}}
	a.life, a.end = context.WithCancel(context.Background())
	return a
}

// open starts to serve a client. Requests are handled at the same time, but two
// methods are ordered: initialize, because every later request depends on its
// outcome, and session/prompt, because a session/cancel that follows it must find
// the turn.
func (a *agentConn) open(r io.Reader, w io.Writer) *jsonrpc.Conn {
	return jsonrpc.Open(r, w, &jsonrpc.Options{
		Request: func(ctx context.Context, _ *jsonrpc.Conn, r jsonrpc.Request) (any, error) {
			return withCode(ctx, func() (any, error) { return a.handle(ctx, r) })
		},
		Ordered: map[string]jsonrpc.OrderedHandler{
			acpv1.MethodInitialize: func(_ context.Context, c *jsonrpc.Conn, r jsonrpc.Request) func(context.Context) (any, error) {
				answer, err := a.initialize(c, r.Params)
				return func(context.Context) (any, error) { return answer, err }
			},
			acpv1.MethodSessionPrompt: func(_ context.Context, _ *jsonrpc.Conn, r jsonrpc.Request) func(context.Context) (any, error) {
				t, err := a.beginTurn(r)
				return func(ctx context.Context) (any, error) {
					if err != nil {
						return nil, err
					}
					return withCode(ctx, func() (any, error) { return t.run(ctx) })
				}
			},
		},
		Notification: a.notice,
		// A line that is not a request gets an error response: the author of a
		// client sees the mistake at once instead of waiting for an answer.
		AnswerUnreadable: true,
		MaxRequests:      maxRequests,
	})
}

// withCode gives an error of the agent's functions a code, so that the client gets
// its text. A cancelled request keeps its error.
// Package jsonrpc hides the text of an error without a code from the other side.
func withCode(ctx context.Context, f func() (any, error)) (any, error) {
	result, err := f()
	if err != nil && !errors.As(err, new(*jsonrpc.Error)) && ctx.Err() == nil {
		err = &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: err.Error()}
	}
	return result, err
}

// setClient stores the client that initialize introduced. It reports false if there
// is one already.
func (a *agentConn) setClient(rc *remoteClient) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.client != nil {
		return false
	}
	a.client = rc
	return true
}

// initialized returns the client, or an error before initialize.
func (a *agentConn) initialized() (*remoteClient, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.client == nil {
		return nil, invalidRequest("send initialize first")
	}
	return a.client, nil
}

// invalidRequest returns the error for a request at the wrong time.
func invalidRequest(format string, args ...any) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: fmt.Sprintf(format, args...)}
}

// notice handles a notification of the client.
// A cancellation of an unknown session is ignored: the session may have been closed
// while the notification was on its way.
func (a *agentConn) notice(ctx context.Context, _ *jsonrpc.Conn, r jsonrpc.Request) {
	switch {
	case r.Method == acpv1.MethodSessionCancel:
		var m acpv1.CancelNotification // the same in both versions
		if m.UnmarshalJSON(r.Params) != nil {
			return // a notification has no response
		}
		if s := a.session(m.SessionID); s != nil {
			s.cancelTurn()
		}
	case isExtension(r.Method) && a.agent.ExtensionNotice != nil:
		a.agent.ExtensionNotice(ctx, r.Method, r.Params)
	}
}

// handle answers a request of the client.
// initialize and session/prompt do not come here; open handles both in the order of
// arrival.
func (a *agentConn) handle(ctx context.Context, r jsonrpc.Request) (any, error) {
	client, err := a.initialized()
	if err != nil {
		return nil, err
	}
	if isExtension(r.Method) && a.agent.Extension != nil {
		return a.agent.Extension(ctx, r.Method, r.Params)
	}
	request, m, err := client.readRequest(r)
	if err != nil {
		return nil, err
	}
	if mode, ok := request.(*acpv1.SetSessionModeRequest); ok {
		return a.setMode(ctx, mode)
	}
	answer, s, err := a.answer(ctx, client, m)
	if err != nil {
		return nil, err
	}
	return a.encodeAnswer(ctx, client, request, answer, s)
}

// readRequest decodes the params of a request that agents handle. It returns them
// as they came, and in version 2. session/set_mode exists in version 1 only.
func (rc *remoteClient) readRequest(r jsonrpc.Request) (request acpv1.Message, m acpv2.Message, err error) {
	lookup := acpv2.LookupMethod
	if rc.profile.Version == 1 {
		lookup = acpv1.LookupMethod
	}
	method, ok := lookup(r.Method)
	if !ok || method.Side != acpv1.SideAgent || method.Notification() {
		return nil, nil, jsonrpc.MethodNotFound(r.Method)
	}
	params := r.Params
	if params == nil {
		params = json.RawMessage("{}")
	}
	// The params are kept as they came: the answer depends on the method of version 1.
	request = method.NewParams()
	if err := request.UnmarshalJSON(params); err != nil {
		return nil, nil, invalidParams(err)
	}
	if _, onlyV1 := request.(*acpv1.SetSessionModeRequest); onlyV1 || rc.profile.Version != 1 {
		return request, request, nil
	}
	if m, err = upgrade(request); err != nil {
		return nil, nil, invalidParams(err)
	}
	return request, m, nil
}

// answer carries out a request. It returns the answer, and the session that the
// request opened, if it did.
// A method whose function is not set is refused as unknown, which agrees with the
// capabilities that initialize announced.
func (a *agentConn) answer(ctx context.Context, client *remoteClient, m acpv2.Message) (acpv2.Message, *AgentSession, error) {
	agent := a.agent
	switch m := m.(type) {
	case *acpv2.LoginAuthRequest:
		if agent.Authenticate == nil {
			return nil, nil, jsonrpc.MethodNotFound(m.Method())
		}
		return &acpv2.LoginAuthResponse{}, nil, agent.Authenticate(ctx, string(m.MethodID))
	case *acpv2.LogoutAuthRequest:
		if agent.Logout == nil {
			return nil, nil, jsonrpc.MethodNotFound(m.Method())
		}
		return &acpv2.LogoutAuthResponse{}, nil, agent.Logout(ctx)

	case *acpv2.NewSessionRequest:
		s, err := a.begin(ctx, client, newID(), m.Cwd, m.AdditionalDirectories, m.MCPServers, agent.NewSession)
		if err != nil {
			return nil, nil, err
		}
		options, commands := s.initialSettings()
		return &acpv2.NewSessionResponse{SessionID: s.ID, ConfigOptions: options, AvailableCommands: commands}, s, nil

	case *acpv2.ForkSessionRequest:
		if agent.ForkSession == nil {
			return nil, nil, jsonrpc.MethodNotFound(m.Method())
		}
		s, err := a.begin(ctx, client, newID(), m.Cwd, m.AdditionalDirectories, m.MCPServers, func(ctx context.Context, s *AgentSession) error {
			return agent.ForkSession(ctx, m.SessionID, s)
		})
		if err != nil {
			return nil, nil, err
		}
		options, commands := s.initialSettings()
		return &acpv2.ForkSessionResponse{SessionID: s.ID, ConfigOptions: options, AvailableCommands: commands}, s, nil

	case *acpv2.ResumeSessionRequest:
		s, err := a.resume(ctx, client, m)
		if err != nil {
			return nil, nil, err
		}
		options, commands := s.initialSettings()
		return &acpv2.ResumeSessionResponse{ConfigOptions: options, AvailableCommands: commands}, s, nil

	case *acpv2.ListSessionsRequest:
		answer, err := a.list(ctx, client, m)
		return answer, nil, err
	case *acpv2.CloseSessionRequest:
		return &acpv2.CloseSessionResponse{}, nil, a.close(ctx, client, m.SessionID)
	case *acpv2.DeleteSessionRequest:
		if agent.DeleteSession == nil {
			return nil, nil, jsonrpc.MethodNotFound(m.Method())
		}
		return &acpv2.DeleteSessionResponse{}, nil, agent.DeleteSession(ctx, m.SessionID)

	case *acpv2.SetSessionConfigOptionRequest:
		var value any
		switch {
		case m.ID != nil:
			value = string(m.ID.Value)
		case m.Boolean != nil:
			value = m.Boolean.Value
		default:
			return nil, nil, invalidParams(fmt.Errorf("unknown value type %q", m.Tag()))
		}
		options, err := a.setOption(ctx, m.SessionID, string(m.ConfigID), value)
		return &acpv2.SetSessionConfigOptionResponse{ConfigOptions: options}, nil, err
	}

	return nil, nil, jsonrpc.MethodNotFound(m.Method())
}

// encodeAnswer encodes the answer to a request in the client's version. Version 1
// says some of it in notifications: after the response to session/new, whose
// session the client does not know before, and before all other responses.
func (a *agentConn) encodeAnswer(ctx context.Context, client *remoteClient, request acpv1.Message, answer acpv2.Message, s *AgentSession) (any, error) {
	opened := func(err error) {
		if err == nil && s != nil && a.agent.Opened != nil {
			a.agent.Opened(s)
		}
	}
	if client.profile.Version != 1 {
		result, err := encoded(answer)
		return jsonrpc.Answer{Result: result, After: opened}, err
	}

	// session/load and session/resume of version 1 are one method in version 2. The
	// request tells which of the two answers version 1 expects.
	_, replayed := request.(*acpv1.LoadSessionRequest)
	opts := &acpv2.V1Options{Client: &client.caps, Replayed: replayed, Lossy: a.agent.Lossy}
	if s != nil {
		opts.SessionID = s.ID
	}

	converted, err := acpv2.ToV1(answer, opts)
	if err != nil {
		return nil, err
	}
	if s != nil {
		addModes(converted.Message, s.modes())
	}

	result, err := encoded(converted.Message)
	if err != nil {
		return nil, err
	}

	// The context of the request may end with its response; the notifications still
	// have to be sent.
	notify := func(error) {
		for _, m := range converted.Then {
			client.notify(context.WithoutCancel(ctx), m) // fails only with the connection
		}
	}

	if _, isNew := request.(*acpv1.NewSessionRequest); isNew {
		return jsonrpc.Answer{Result: result, After: func(err error) {
			notify(err)
			opened(err)
		}}, nil
	}
	notify(nil)
	return jsonrpc.Answer{Result: result, After: opened}, nil
}

// notify sends a notification to the client.
func (rc *remoteClient) notify(ctx context.Context, m acpv1.Message) error {
	raw, err := m.MarshalJSON()
	if err != nil {
		return err
	}
	return rc.conn.Notify(ctx, m.Method(), json.RawMessage(raw))
}

// addModes adds the modes to the answer that opens a session of version 1.
func addModes(answer acpv1.Message, modes acpv1.Optional[acpv1.SessionModeState]) {
	switch m := answer.(type) {
	case *acpv1.NewSessionResponse:
		m.Modes = modes
	case *acpv1.LoadSessionResponse:
		m.Modes = modes
	case *acpv1.ResumeSessionResponse:
		m.Modes = modes
	case *acpv1.ForkSessionResponse:
		m.Modes = modes
	}
}

// newID returns a random id that cannot be guessed.
func newID() SessionID { return SessionID(rand.Text()) }

// session returns an open session, nil if there is none with that id.
func (a *agentConn) session(id SessionID) *AgentSession {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sessions[id]
}

// begin opens a session with f, a function of the agent, which may be nil.
// f runs without a.mu, because it may take long and may use the session. The limit
// and a running turn are therefore checked afterwards, in the same critical section
// that stores the session.
func (a *agentConn) begin(ctx context.Context, client *remoteClient, id SessionID, dir acpv2.AbsolutePath, more acpv2.Optional[[]acpv2.AbsolutePath], servers acpv2.Optional[[]acpv2.MCPServer], f func(context.Context, *AgentSession) error) (*AgentSession, error) {
	s := &AgentSession{ID: id, Dir: string(dir), MCPServers: servers.Or(nil), conn: a, client: client}
	for _, d := range more.Or(nil) {
		s.Directories = append(s.Directories, string(d))
	}
	for _, d := range append([]string{s.Dir}, s.Directories...) {
		if !filepath.IsAbs(d) {
			return nil, invalidParams(fmt.Errorf("folder %q must be an absolute path", d))
		}
	}
	if f != nil {
		if err := f(ctx, s); err != nil {
			return nil, err
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.sessions) >= maxSessions && a.sessions[s.ID] == nil {
		return nil, invalidRequest("too many open sessions (%d); close one first", maxSessions)
	}
	// A session may be opened again, but not under a running turn.
	if old := a.sessions[s.ID]; old != nil && old.busy() {
		return nil, invalidRequest("session %q is already open and works on a prompt", s.ID)
	}
	a.sessions[s.ID] = s
	return s, nil
}

// resume opens a session again.
// With LoadSession the agent restores the session. Without it, version 2 still
// requires session/resume, which then finds the sessions of this process.
func (a *agentConn) resume(ctx context.Context, client *remoteClient, m *acpv2.ResumeSessionRequest) (*AgentSession, error) {
	from, replay := m.ReplayFrom.Get()
	if replay && from.Start == nil {
		return nil, invalidParams(fmt.Errorf("a session can only be replayed from the start, not from %q", from.Tag()))
	}
	if a.agent.LoadSession == nil {
		s := a.session(m.SessionID)
		switch {
		case client.profile.Version == 1:
			return nil, jsonrpc.MethodNotFound(m.Method())
		// Earlier messages are not kept here, so that a replay is impossible.
		case s == nil || replay:
			return nil, sessionNotFound(m.SessionID)
		}
		return s, nil
	}
	return a.begin(ctx, client, m.SessionID, m.Cwd, m.AdditionalDirectories, m.MCPServers, func(ctx context.Context, s *AgentSession) error {
		return a.agent.LoadSession(ctx, s, replay)
	})
}

// list returns a page of sessions.
func (a *agentConn) list(ctx context.Context, client *remoteClient, m *acpv2.ListSessionsRequest) (*acpv2.ListSessionsResponse, error) {
	dir := string(m.Cwd.Or(""))
	var page []SessionInfo
	var next string

	switch {
	case a.agent.ListSessions != nil:
		var err error
		if page, next, err = a.agent.ListSessions(ctx, dir, string(m.Cursor.Or(""))); err != nil {
			return nil, err
		}
	case client.profile.Version == 1:
		return nil, jsonrpc.MethodNotFound(m.Method())

	// Version 2 requires session/list: without a function for it, the open sessions are listed.
	default:
		a.mu.Lock()
		for _, s := range a.sessions {
			if dir == "" || s.Dir == dir {
				page = append(page, SessionInfo{ID: s.ID, Dir: s.Dir, Directories: s.Directories})
			}
		}
		a.mu.Unlock()
		slices.SortFunc(page, func(a, b SessionInfo) int { return cmp.Compare(a.ID, b.ID) })
	}

	out := &acpv2.ListSessionsResponse{Sessions: []acpv2.SessionInfo{}}
	for _, info := range page {
		s := acpv2.SessionInfo{SessionID: info.ID, Cwd: acpv2.AbsolutePath(info.Dir)}
		for _, d := range info.Directories {
			s.AdditionalDirectories = acpv2.Set(append(s.AdditionalDirectories.Or(nil), acpv2.AbsolutePath(d)))
		}
		if info.Title != "" {
			s.Title = acpv2.Set(info.Title)
		}
		if info.UpdatedAt != "" {
			s.UpdatedAt = acpv2.Set(info.UpdatedAt)
		}
		out.Sessions = append(out.Sessions, s)
	}

	if next != "" {
		out.NextCursor = acpv2.Set(acpv2.SessionListCursor(next))
	}
	return out, nil
}

// close ends a session and its turn.
// The session leaves the table first, so no new turn can begin while the running
// one stops. CloseSession is called last, when nothing uses the session any more.
func (a *agentConn) close(ctx context.Context, client *remoteClient, id SessionID) error {
	a.mu.Lock()
	s := a.sessions[id]
	delete(a.sessions, id)
	a.mu.Unlock()
	if s == nil {
		return sessionNotFound(id)
	}
	if err := s.stopTurn(ctx); err != nil {
		return err
	}
	client.bridge.Forget(id)
	if a.agent.CloseSession != nil {
		return a.agent.CloseSession(ctx, s)
	}
	return nil
}

// setOption changes an option of a session and returns all of them.
// s.settings is held while the agent's function runs: changes of one session's
// options are made one after the other, and the returned list is a consistent copy.
func (a *agentConn) setOption(ctx context.Context, id SessionID, option string, value any) ([]acpv2.SessionConfigOption, error) {
	s := a.session(id)
	switch {
	case a.agent.SetOption == nil:
		return nil, jsonrpc.MethodNotFound(acpv2.MethodSessionSetConfigOption)
	case s == nil:
		return nil, sessionNotFound(id)
	}
	s.settings.Lock()
	defer s.settings.Unlock()
	if err := a.agent.SetOption(ctx, s, option, value); err != nil {
		return nil, err
	}
	return append([]acpv2.SessionConfigOption{}, s.Options...), nil
}

// setMode answers session/set_mode: it sets the option that holds the mode.
func (a *agentConn) setMode(ctx context.Context, m *acpv1.SetSessionModeRequest) (any, error) {
	s := a.session(m.SessionID)
	if s == nil {
		return nil, sessionNotFound(m.SessionID)
	}
	s.settings.Lock()
	option := s.modeOption()
	s.settings.Unlock()
	if option == nil || a.agent.SetOption == nil {
		return nil, jsonrpc.MethodNotFound(m.Method())
	}
	if _, err := a.setOption(ctx, s.ID, string(option.ConfigID), string(m.ModeID)); err != nil {
		return nil, err
	}
	return encoded(&acpv1.SetSessionModeResponse{})
}

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

	"github.com/parley-agents/parley/acp/acpv1"
	"github.com/parley-agents/parley/acp/acpv2"
	"github.com/parley-agents/parley/jsonrpc"
)

// maxSessions is how many sessions may be open on one connection.
const maxSessions = 1024

// A host is the connection of an agent to its client.
type host struct {
	agent    *Agent
	ready    chan struct{} // closed when conn is set
	conn     *jsonrpc.Conn
	bridge   *acpv2.Bridge // for a client of version 1
	sent     watch
	arrivals arrivals
	work     sync.WaitGroup // turns of version 2, and what follows an answer

	// life ends when the client is gone, and with it all turns.
	life context.Context
	end  context.CancelFunc

	mu       sync.Mutex // guards what follows
	client   *ClientProfile
	caps     acpv1.ClientCapabilities
	sessions map[SessionID]*AgentSession
}

func newHost(agent *Agent) *host {
	h := &host{agent: agent, ready: make(chan struct{}), sessions: map[SessionID]*AgentSession{}}
	h.life, h.end = context.WithCancel(context.Background())
	return h
}

func (h *host) open(r io.Reader, w io.Writer) {
	h.conn = jsonrpc.Open(r, w, &jsonrpc.Options{
		Request: func(ctx context.Context, c *jsonrpc.Conn, r jsonrpc.Request) (any, error) {
			<-h.ready
			result, err := h.handle(ctx, r)
			if err != nil && !errors.As(err, new(*jsonrpc.Error)) && ctx.Err() == nil {
				err = &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: err.Error()}
			}
			return result, err
		},
		Notification: h.notice,
		Problem:      func(*jsonrpc.Problem) { h.arrivals.refused() },
		Tap: func(d jsonrpc.Direction, f jsonrpc.Frame) {
			if d == jsonrpc.Out {
				h.sent.look(f.Raw)
			} else {
				h.arrivals.look(f.Raw)
			}
		},
		AnswerUnreadable: true,
		MaxRequests:      maxRequests,
	})
	close(h.ready)
}

// meet takes over what a client said about itself. It reports false if one has
// done so before.
func (h *host) meet(p ClientProfile, caps acpv1.ClientCapabilities) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.client != nil {
		return false
	}
	h.client, h.caps = &p, caps
	h.bridge = acpv2.NewBridge(&acpv2.V1Options{Client: &h.caps, Lossy: h.agent.Lossy})
	return true
}

// met returns what the client has said about itself, nil before initialize.
func (h *host) met() *ClientProfile {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.client
}

func invalidRequest(format string, args ...any) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: fmt.Sprintf(format, args...)}
}

// notice handles a notification of the client.
func (h *host) notice(ctx context.Context, _ *jsonrpc.Conn, r jsonrpc.Request) {
	switch {
	case r.Method == acpv1.MethodSessionCancel:
		var m acpv1.CancelNotification // the same in both versions
		if m.UnmarshalJSON(r.Params) != nil {
			return // nobody waits for an answer
		}
		h.arrivals.cancel(SessionID(m.SessionID))
		if s := h.session(SessionID(m.SessionID)); s != nil {
			s.cancelTurn()
		}
	case isExtension(r.Method) && h.agent.ExtensionNotice != nil:
		h.agent.ExtensionNotice(ctx, r.Method, r.Params)
	}
}

// handle answers a request of the client.
func (h *host) handle(ctx context.Context, r jsonrpc.Request) (any, error) {
	handled, err := h.arrivals.greet(ctx, r.ID) // nothing overtakes initialize
	if err != nil {
		return nil, err
	}
	defer handled()
	if r.Method == acpv1.MethodInitialize {
		return h.initialize(r.Params)
	}
	client := h.met()
	switch {
	case client == nil:
		return nil, invalidRequest("initialize comes first")
	case isExtension(r.Method) && h.agent.Extension != nil:
		return h.agent.Extension(ctx, r.Method, r.Params)
	}
	m, err := readRequest(client.Version, r)
	if err != nil {
		return nil, err
	}
	switch m := m.(type) {
	case *acpv1.SetSessionModeRequest:
		return h.setMode(ctx, m)
	case *acpv1.PromptRequest:
		if m.SessionID == "" {
			return nil, invalidParams(errors.New("sessionId is empty"))
		}
	}
	request := m
	if client.Version == 1 {
		if m, err = upgrade(m); err != nil {
			return nil, invalidParams(err)
		}
	}
	if prompt, ok := m.(*acpv2.PromptRequest); ok {
		return h.prompt(ctx, r.ID, prompt)
	}
	answer, s, err := h.answer(ctx, m)
	if err != nil {
		return nil, err
	}
	return h.send(ctx, request, answer, s)
}

// readRequest reads the params of a request that agents handle.
func readRequest(version int, r jsonrpc.Request) (acpv1.Message, error) {
	lookup := acpv2.LookupMethod
	if version == 1 {
		lookup = acpv1.LookupMethod
	}
	method, ok := lookup(r.Method)
	if !ok || method.Side != acpv1.SideAgent || method.Notification() {
		return nil, jsonrpc.MethodNotFound(r.Method)
	}
	params := r.Params
	if params == nil {
		params = json.RawMessage("{}")
	}
	m := method.NewParams()
	if err := m.UnmarshalJSON(params); err != nil {
		return nil, invalidParams(err)
	}
	return m, nil
}

// answer does what a request asks for. It returns the session that was opened, if
// one was.
func (h *host) answer(ctx context.Context, m acpv2.Message) (acpv2.Message, *AgentSession, error) {
	a := h.agent
	switch m := m.(type) {
	case *acpv2.LoginAuthRequest:
		if a.Authenticate == nil {
			return nil, nil, jsonrpc.MethodNotFound(m.Method())
		}
		return &acpv2.LoginAuthResponse{}, nil, a.Authenticate(ctx, string(m.MethodID))
	case *acpv2.LogoutAuthRequest:
		if a.Logout == nil {
			return nil, nil, jsonrpc.MethodNotFound(m.Method())
		}
		return &acpv2.LogoutAuthResponse{}, nil, a.Logout(ctx)
	case *acpv2.NewSessionRequest:
		s, err := h.begin(ctx, newID(), m.Cwd, m.AdditionalDirectories, m.MCPServers, a.NewSession)
		if err != nil {
			return nil, nil, err
		}
		options, commands := s.opening()
		return &acpv2.NewSessionResponse{SessionID: s.ID, ConfigOptions: options, AvailableCommands: commands}, s, nil
	case *acpv2.ForkSessionRequest:
		if a.ForkSession == nil {
			return nil, nil, jsonrpc.MethodNotFound(m.Method())
		}
		s, err := h.begin(ctx, newID(), m.Cwd, m.AdditionalDirectories, m.MCPServers, func(ctx context.Context, s *AgentSession) error {
			return a.ForkSession(ctx, m.SessionID, s)
		})
		if err != nil {
			return nil, nil, err
		}
		options, commands := s.opening()
		return &acpv2.ForkSessionResponse{SessionID: s.ID, ConfigOptions: options, AvailableCommands: commands}, s, nil
	case *acpv2.ResumeSessionRequest:
		s, err := h.resume(ctx, m)
		if err != nil {
			return nil, nil, err
		}
		options, commands := s.opening()
		return &acpv2.ResumeSessionResponse{ConfigOptions: options, AvailableCommands: commands}, s, nil
	case *acpv2.ListSessionsRequest:
		answer, err := h.list(ctx, m)
		return answer, nil, err
	case *acpv2.CloseSessionRequest:
		return &acpv2.CloseSessionResponse{}, nil, h.close(ctx, m.SessionID)
	case *acpv2.DeleteSessionRequest:
		if a.DeleteSession == nil {
			return nil, nil, jsonrpc.MethodNotFound(m.Method())
		}
		return &acpv2.DeleteSessionResponse{}, nil, a.DeleteSession(ctx, m.SessionID)
	case *acpv2.SetSessionConfigOptionRequest:
		var value any
		switch {
		case m.ID != nil:
			value = string(m.ID.Value)
		case m.Boolean != nil:
			value = m.Boolean.Value
		default:
			return nil, nil, invalidParams(fmt.Errorf("a value of the type %q has no meaning here", m.Tag()))
		}
		options, err := h.setOption(ctx, m.SessionID, string(m.ConfigID), value)
		return &acpv2.SetSessionConfigOptionResponse{ConfigOptions: options}, nil, err
	}
	return nil, nil, jsonrpc.MethodNotFound(m.Method())
}

// send returns the answer to a request in the words of the client's version, and
// sees to what has to be said after it.
func (h *host) send(ctx context.Context, request acpv1.Message, answer acpv2.Message, s *AgentSession) (any, error) {
	if h.met().Version != 1 {
		return encoded(answer)
	}
	_, replayed := request.(*acpv1.LoadSessionRequest)
	opts := &acpv2.V1Options{Client: &h.caps, Replayed: replayed, Lossy: h.agent.Lossy}
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
	raw, err := converted.Message.MarshalJSON()
	if err != nil {
		return nil, err
	}
	for _, m := range converted.Then {
		then, err := m.MarshalJSON()
		if err != nil {
			return nil, err
		}
		say := func() { h.conn.Notify(context.WithoutCancel(ctx), m.Method(), json.RawMessage(then)) } // fails only with the connection
		if _, known := request.(*acpv1.NewSessionRequest); known {
			h.after(raw, say, func() {})
		} else {
			say()
		}
	}
	return json.RawMessage(raw), nil
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

// after calls f when a frame that contains part goes out, or instead of it if the
// connection ends first.
func (h *host) after(part []byte, f, instead func()) {
	seen, forget := h.sent.expect(part)
	h.work.Go(func() {
		defer forget()
		select {
		case <-seen:
			f()
		case <-h.conn.Done():
			instead()
		}
	})
}

// newID returns an id that nobody can guess.
func newID() SessionID { return SessionID(rand.Text()) }

// session returns an open session.
func (h *host) session(id SessionID) *AgentSession {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sessions[id]
}

// begin opens a session. f may be nil.
func (h *host) begin(ctx context.Context, id SessionID, dir acpv2.AbsolutePath, more acpv2.Optional[[]acpv2.AbsolutePath], servers acpv2.Optional[[]acpv2.MCPServer], f func(context.Context, *AgentSession) error) (*AgentSession, error) {
	s := &AgentSession{ID: id, Dir: string(dir), MCPServers: servers.Or(nil), host: h}
	for _, d := range more.Or(nil) {
		s.Directories = append(s.Directories, string(d))
	}
	for _, d := range append([]string{s.Dir}, s.Directories...) {
		if !filepath.IsAbs(d) {
			return nil, invalidParams(fmt.Errorf("the folder %q is not an absolute path", d))
		}
	}
	if f != nil {
		if err := f(ctx, s); err != nil {
			return nil, err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.sessions) >= maxSessions && h.sessions[s.ID] == nil {
		return nil, invalidRequest("%d sessions are open, and no more are taken; close some", maxSessions)
	}
	if old := h.sessions[s.ID]; old != nil && old.busy() {
		return nil, invalidRequest("the session %q is open and works on a prompt", s.ID)
	}
	h.sessions[s.ID] = s
	return s, nil
}

// resume opens a session that was there before.
func (h *host) resume(ctx context.Context, m *acpv2.ResumeSessionRequest) (*AgentSession, error) {
	from, replay := m.ReplayFrom.Get()
	if replay && from.Start == nil {
		return nil, invalidParams(fmt.Errorf("what was said cannot be repeated from %q, only from the start", from.Tag()))
	}
	if h.agent.LoadSession == nil {
		s := h.session(m.SessionID)
		switch {
		case h.met().Version == 1:
			return nil, jsonrpc.MethodNotFound(m.Method())
		case s == nil || replay:
			return nil, sessionNotFound(m.SessionID)
		}
		return s, nil
	}
	return h.begin(ctx, m.SessionID, m.Cwd, m.AdditionalDirectories, m.MCPServers, func(ctx context.Context, s *AgentSession) error {
		return h.agent.LoadSession(ctx, s, replay)
	})
}

// list returns a page of sessions.
func (h *host) list(ctx context.Context, m *acpv2.ListSessionsRequest) (*acpv2.ListSessionsResponse, error) {
	dir := string(m.Cwd.Or(""))
	var page []SessionInfo
	var next string
	switch {
	case h.agent.ListSessions != nil:
		var err error
		if page, next, err = h.agent.ListSessions(ctx, dir, string(m.Cursor.Or(""))); err != nil {
			return nil, err
		}
	case h.met().Version == 1:
		return nil, jsonrpc.MethodNotFound(m.Method())
	default:
		h.mu.Lock()
		for _, s := range h.sessions {
			if dir == "" || s.Dir == dir {
				page = append(page, SessionInfo{ID: s.ID, Dir: s.Dir, Directories: s.Directories})
			}
		}
		h.mu.Unlock()
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

// close ends a session and the turn in it.
func (h *host) close(ctx context.Context, id SessionID) error {
	h.mu.Lock()
	s := h.sessions[id]
	delete(h.sessions, id)
	bridge := h.bridge
	h.mu.Unlock()
	if s == nil {
		return sessionNotFound(id)
	}
	if err := s.stopTurn(ctx); err != nil {
		return err
	}
	bridge.Forget(id)
	if h.agent.CloseSession != nil {
		return h.agent.CloseSession(ctx, s)
	}
	return nil
}

// setOption changes an option and returns all.
func (h *host) setOption(ctx context.Context, id SessionID, option string, value any) ([]acpv2.SessionConfigOption, error) {
	s := h.session(id)
	switch {
	case h.agent.SetOption == nil:
		return nil, jsonrpc.MethodNotFound(acpv2.MethodSessionSetConfigOption)
	case s == nil:
		return nil, sessionNotFound(id)
	}
	s.settings.Lock()
	defer s.settings.Unlock()
	if err := h.agent.SetOption(ctx, s, option, value); err != nil {
		return nil, err
	}
	return append([]acpv2.SessionConfigOption{}, s.Options...), nil
}

// setMode answers session/set_mode: it sets the option that holds the mode.
func (h *host) setMode(ctx context.Context, m *acpv1.SetSessionModeRequest) (any, error) {
	s := h.session(SessionID(m.SessionID))
	if s == nil {
		return nil, sessionNotFound(SessionID(m.SessionID))
	}
	s.settings.Lock()
	option := s.modeOption()
	s.settings.Unlock()
	if option == nil || h.agent.SetOption == nil {
		return nil, jsonrpc.MethodNotFound(m.Method())
	}
	if _, err := h.setOption(ctx, s.ID, string(option.ConfigID), string(m.ModeID)); err != nil {
		return nil, err
	}
	return encoded(&acpv1.SetSessionModeResponse{})
}

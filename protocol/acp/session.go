package acp

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"sync"

	"github.com/parley-agents/parley/protocol/acp/acpv1"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
)

// A Session is a conversation with an agent. It is safe for concurrent use, but
// has one turn at a time.
type Session struct {
	ID  SessionID
	Dir string // the working folder; absolute

	client    *Client
	folders   []string   // the working folder and those beside it
	workspace *workspace // open folders and commands; Close or Client.Close closes it

	// mu comes after Client.mu in the lock order.
	mu       sync.Mutex // guards the fields below
	settings Settings
	calls    ToolCalls // of the turn, for the guard; empty without one
	turn     *Turn     // nil between turns
	ended    error     // the error of further prompts; nil while the session is open
}

// Settings returns a copy of the settings.
func (s *Session) Settings() Settings {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.settings.clone()
}

// NewSession opens a session that works in dir. opts may be nil.
func (c *Client) NewSession(ctx context.Context, dir string, opts *SessionOptions) (*Session, error) {
	return c.begin(ctx, "", dir, opts, func(p *acpv2.NewSessionRequest) acpv2.Message { return p })
}

// LoadSession opens an earlier session and has the agent repeat its messages. The
// repeated updates go to [Options.OnUpdate], all of them before LoadSession returns.
func (c *Client) LoadSession(ctx context.Context, id SessionID, dir string, opts *SessionOptions) (*Session, error) {
	if !c.profile.Can(CanLoad) {
		return nil, unsupported(CanLoad)
	}
	return c.resume(ctx, id, dir, opts, acpv2.Set(acpv2.ReplayFrom{Start: &acpv2.ReplayFromStart{}}))
}

// ResumeSession opens an earlier session without repeating its messages.
func (c *Client) ResumeSession(ctx context.Context, id SessionID, dir string, opts *SessionOptions) (*Session, error) {
	if !c.profile.Can(CanResume) {
		return nil, unsupported(CanResume)
	}
	return c.resume(ctx, id, dir, opts, acpv2.Optional[acpv2.ReplayFrom]{})
}

// resume opens an earlier session. Version 1 says session/load if there is a replay.
func (c *Client) resume(ctx context.Context, id SessionID, dir string, opts *SessionOptions, from acpv2.Optional[acpv2.ReplayFrom]) (*Session, error) {
	return c.begin(ctx, id, dir, opts, func(p *acpv2.NewSessionRequest) acpv2.Message {
		return &acpv2.ResumeSessionRequest{SessionID: id, Cwd: p.Cwd, AdditionalDirectories: p.AdditionalDirectories, MCPServers: p.MCPServers, ReplayFrom: from, Meta: p.Meta}
	})
}

// ForkSession opens a session that begins as a copy of another one. The method is
// not a stable part of the protocol yet.
func (c *Client) ForkSession(ctx context.Context, id SessionID, dir string, opts *SessionOptions) (*Session, error) {
	if !c.profile.Can(CanFork) {
		return nil, unsupported(CanFork)
	}
	return c.begin(ctx, "", dir, opts, func(p *acpv2.NewSessionRequest) acpv2.Message {
		return &acpv2.ForkSessionRequest{SessionID: id, Cwd: p.Cwd, AdditionalDirectories: p.AdditionalDirectories, MCPServers: p.MCPServers, Meta: p.Meta}
	})
}

// begin opens a session with the request that build makes of the params that all
// requests for a session share. If id is empty, the agent chooses the id. MCP servers
// are always sent: version 1 wants the list even if it is empty.
// Frames of a new session may come before the answer that names it. The workspace
// is therefore open before the request is sent, and Client.update keeps early
// updates until register finds them. Any error removes the session again and closes
// its workspace.
func (c *Client) begin(ctx context.Context, id SessionID, dir string, opts *SessionOptions, build func(*acpv2.NewSessionRequest) acpv2.Message) (_ *Session, err error) {
	if opts == nil {
		opts = &SessionOptions{}
	}
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("acp: the session folder %q must be an absolute path", dir)
	}

	params := &acpv2.NewSessionRequest{Cwd: acpv2.AbsolutePath(dir), MCPServers: acpv2.Set(append([]acpv2.MCPServer{}, opts.MCPServers...)), Meta: opts.Meta}
	if len(opts.Directories) > 0 {
		if !c.profile.Can(CanDirectories) {
			return nil, unsupported(CanDirectories)
		}
		params.AdditionalDirectories = upgradePaths(acpv1.Set(opts.Directories))
	}

	s := &Session{ID: id, Dir: dir, client: c, folders: append([]string{dir}, opts.Directories...)}
	if s.workspace, err = c.openWorkspace(s.folders); err != nil {
		return nil, err
	}

	// A known session is registered before the request: its updates may precede the answer.
	known := id != ""
	if known {
		err = c.register(s)
	} else {
		c.expectSession(+1)
		defer c.expectSession(-1)
	}

	var answer acpv1.Message
	if err == nil {
		answer, err = c.request(ctx, build(params))
	}

	if err == nil {
		s.mu.Lock()
		s.settings.begin(answer)
		s.mu.Unlock()
		if !known {
			if s.ID = idOf(answer); s.ID == "" {
				err = &Fault{Code: FaultMalformed, Text: "the agent opened a session with an empty id"}
			} else {
				err = c.register(s)
			}
		}
	}

	if err != nil {
		c.forget(s)
		return nil, errors.Join(err, s.workspace.close())
	}
	return s, nil
}

// idOf returns the id of a new session.
func idOf(answer acpv1.Message) SessionID {
	switch m := answer.(type) {
	case *acpv1.NewSessionResponse:
		return m.SessionID
	case *acpv1.ForkSessionResponse:
		return m.SessionID
	case *acpv2.NewSessionResponse:
		return m.SessionID
	case *acpv2.ForkSessionResponse:
		return m.SessionID
	}
	return ""
}

// expectSession counts the calls in flight whose answer names a new session. The
// agent may send updates of that session before the answer.
func (c *Client) expectSession(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opening += n
	if c.opening == 0 {
		c.early = nil
	}
}

// register adds a session and applies the updates that came before the answer that
// names it.
// It fails if the client is closed, since Close has collected the sessions to end.
func (c *Client) register(s *Session) error {
	c.mu.Lock()
	switch {
	case c.closing.Load():
		c.mu.Unlock()
		return fmt.Errorf("acp: open session %q: the client is closed", s.ID)
	case c.sessions[s.ID] != nil:
		c.mu.Unlock()
		return fmt.Errorf("acp: open session %q: it is already open", s.ID)
	}
	c.sessions[s.ID] = s
	var mine, others []*Update
	for _, u := range c.early {
		if u.SessionID() == s.ID {
			mine = append(mine, u)
		} else {
			others = append(others, u)
		}
	}
	c.early = others
	// The client's lock keeps later updates from being applied before these.
	s.mu.Lock()
	for _, u := range mine {
		s.settings.apply(u)
	}
	s.mu.Unlock()
	c.mu.Unlock()
	return nil
}

// forget removes a session.
func (c *Client) forget(s *Session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sessions[s.ID] == s {
		delete(c.sessions, s.ID)
	}
}

// session returns an open session, nil if there is none with that id.
func (c *Client) session(id SessionID) *Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sessions[id]
}

// update applies an update to the settings and hands it to the turn, or to
// Options.OnUpdate between turns.
// Settings change when the update arrives, not when the caller takes it from the
// turn: Session.Settings is always the latest state.
func (s *Session) update(u *Update, size int) {
	s.mu.Lock()
	s.settings.apply(u)
	if s.client.opts.Guard != nil {
		s.calls.Add(u)
	}
	turn := s.turn
	s.mu.Unlock()
	switch {
	case turn != nil:
		turn.update(u, size)
	case s.client.opts.OnUpdate != nil:
		s.client.opts.OnUpdate(u)
	}
}

// end fails the turn, if there is one, and all further prompts with err.
func (s *Session) end(err error) {
	s.mu.Lock()
	turn := s.turn
	if s.ended == nil {
		s.ended = err
	}
	s.mu.Unlock()
	if turn != nil {
		turn.finish(Result{}, err)
	}
}

// Close ends the session, at the agent too if it has that capability. A running
// turn is cancelled and given up.
// ctx limits the wait for the agent. The session is closed on this side in any
// case, and later prompts fail.
func (s *Session) Close(ctx context.Context) error {
	err := s.Cancel(ctx)
	if err == nil && s.client.profile.Can(CanClose) {
		_, err = s.client.request(ctx, &acpv2.CloseSessionRequest{SessionID: s.ID})
	}
	s.end(fmt.Errorf("acp: session %q is closed", s.ID))
	s.client.forget(s)
	return errors.Join(err, s.workspace.close())
}

// A SessionInfo is a session in the agent's list.
type SessionInfo struct {
	ID          SessionID
	Dir         string // the working folder
	Title       string // for people; may be empty
	UpdatedAt   string // as the agent wrote it
	Directories []string
}

// Sessions yields the sessions that the agent lists, those in dir only if dir is not
// empty. It stops after an error.
// Pages are requested as the caller consumes them.
func (c *Client) Sessions(ctx context.Context, dir string) iter.Seq2[SessionInfo, error] {
	return func(yield func(SessionInfo, error) bool) {
		if !c.profile.Can(CanList) {
			yield(SessionInfo{}, unsupported(CanList))
			return
		}

		request := &acpv2.ListSessionsRequest{}
		if dir != "" {
			request.Cwd = acpv2.Set(acpv2.AbsolutePath(dir))
		}

		// An agent that sends a cursor twice would never come to the end of its list.
		seen := map[string]bool{}
		for {
			answer, err := c.request(ctx, request)
			if err != nil {
				yield(SessionInfo{}, err)
				return
			}

			page, next := sessionsOf(answer)
			for _, info := range page {
				if !yield(info, nil) {
					return
				}
			}

			if next == "" {
				return
			}
			if seen[next] {
				yield(SessionInfo{}, &Fault{Code: FaultMalformed, Text: fmt.Sprintf("session/list: the agent sent the cursor %q twice, so the list has no end", next)})
				return
			}
			seen[next] = true
			request.Cursor = acpv2.Set(acpv2.SessionListCursor(next))
		}
	}
}

// sessionsOf returns a page of sessions and the cursor of the next page, "" after the
// last.
func sessionsOf(answer acpv1.Message) (page []SessionInfo, next string) {
	switch m := answer.(type) {
	case *acpv1.ListSessionsResponse:
		for _, s := range m.Sessions {
			page = append(page, SessionInfo{s.SessionID, s.Cwd, s.Title.Or(""), s.UpdatedAt.Or(""), s.AdditionalDirectories.Or(nil)})
		}
		next = m.NextCursor.Or("")
	case *acpv2.ListSessionsResponse:
		for _, s := range m.Sessions {
			info := SessionInfo{ID: s.SessionID, Dir: string(s.Cwd), Title: s.Title.Or(""), UpdatedAt: s.UpdatedAt.Or("")}
			for _, d := range s.AdditionalDirectories.Or(nil) {
				info.Directories = append(info.Directories, string(d))
			}
			page = append(page, info)
		}
		next = string(m.NextCursor.Or(""))
	}
	return page, next
}

// DeleteSession deletes a session at the agent.
func (c *Client) DeleteSession(ctx context.Context, id SessionID) error {
	if !c.profile.Can(CanDelete) {
		return unsupported(CanDelete)
	}
	_, err := c.request(ctx, &acpv2.DeleteSessionRequest{SessionID: id})
	return err
}

// SetMode sets the mode of the session. In version 2, and for agents of version 1
// that have no modes, it sets the option that holds the mode.
// The setting changes at once in version 1, whose answer has no content; in version
// 2 the answer holds the new options.
func (s *Session) SetMode(ctx context.Context, mode string) error {
	settings := s.Settings()
	if option := settings.modeOption(); option != nil && !settings.ownModes {
		return s.SetOption(ctx, option.ID, mode)
	}
	if s.client.profile.Version != 1 {
		return fmt.Errorf("acp: session %q has no modes: %w", s.ID, ErrUnsupported)
	}
	if _, err := s.client.call(ctx, &acpv1.SetSessionModeRequest{SessionID: s.ID, ModeID: acpv1.SessionModeID(mode)}); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settings.Mode = mode
	return nil
}

// SetOption sets the value of a select.
func (s *Session) SetOption(ctx context.Context, id, value string) error {
	return s.setOption(ctx, &acpv2.SetSessionConfigOptionRequest{ID: &acpv2.SessionConfigIDValue{Value: acpv2.SessionConfigValueID(value)}}, id)
}

// SetSwitch sets a boolean option.
func (s *Session) SetSwitch(ctx context.Context, id string, on bool) error {
	return s.setOption(ctx, &acpv2.SetSessionConfigOptionRequest{Boolean: &acpv2.SessionConfigBooleanValue{Value: on}}, id)
}

// setOption sets an option. The answer holds all options, because one may change
// others.
func (s *Session) setOption(ctx context.Context, m *acpv2.SetSessionConfigOptionRequest, id string) error {
	m.SessionID, m.ConfigID = s.ID, acpv2.SessionConfigID(id)
	answer, err := s.client.request(ctx, m)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch m := answer.(type) {
	case *acpv1.SetSessionConfigOptionResponse:
		s.settings.setOptions(optionsV1(m.ConfigOptions))
	case *acpv2.SetSessionConfigOptionResponse:
		s.settings.setOptions(optionsV2(m.ConfigOptions))
	}
	return nil
}

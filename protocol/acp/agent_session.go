package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/parley-agents/parley/protocol/acp/acpv1"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
)

// An AgentSession is the agent's side of a session. It lives from the request that
// opens it until session/close or the end of the connection. The exported fields
// may be changed by the function that opens the session; after that, ID, Dir,
// Directories and MCPServers are read-only. The methods are safe for concurrent
// use.
type AgentSession struct {
	ID          SessionID
	Dir         string // the working folder; absolute
	Directories []string
	MCPServers  []acpv2.MCPServer

	// Options and Commands are sent to the client when the session is opened. Only
	// Agent.SetOption may change Options. A client of version 1 sees a select of the
	// category mode as the modes of the session, too.
	Options  []acpv2.SessionConfigOption
	Commands []acpv2.AvailableCommand

	// State belongs to the agent; this package does not use it.
	// Functions that are called at the same time have to guard it.
	State any

	conn     *agentConn
	client   *remoteClient
	settings sync.Mutex // held while Options may change

	mu   sync.Mutex // guards turn
	turn *AgentTurn
}

// Client describes the client of the session.
func (s *AgentSession) Client() ClientProfile { return s.client.profile }

// initialSettings returns copies of the options and commands for the answer that
// opens the session.
func (s *AgentSession) initialSettings() (options acpv2.Optional[[]acpv2.SessionConfigOption], commands acpv2.Optional[[]acpv2.AvailableCommand]) {
	s.settings.Lock()
	defer s.settings.Unlock()
	if len(s.Options) > 0 {
		options = acpv2.Set(append([]acpv2.SessionConfigOption{}, s.Options...))
	}
	if len(s.Commands) > 0 {
		commands = acpv2.Set(s.Commands)
	}
	return options, commands
}

// modeOption returns the option that holds the mode, nil if there is none. The
// caller holds settings.
func (s *AgentSession) modeOption() *acpv2.SessionConfigOption {
	for i := range s.Options {
		if o := &s.Options[i]; o.Select != nil && o.Category.Or("") == acpv2.SessionConfigOptionCategoryMode {
			return o
		}
	}
	return nil
}

// modes returns the option that holds the mode as the modes of version 1.
func (s *AgentSession) modes() acpv1.Optional[acpv1.SessionModeState] {
	s.settings.Lock()
	defer s.settings.Unlock()
	o := s.modeOption()
	if o == nil {
		return acpv1.Optional[acpv1.SessionModeState]{}
	}
	state := acpv1.SessionModeState{CurrentModeID: acpv1.SessionModeID(o.Select.CurrentValue), AvailableModes: []acpv1.SessionMode{}}
	choices := o.Select.Options.Ungrouped
	for _, g := range o.Select.Options.Grouped {
		choices = append(choices, g.Options...)
	}
	for _, c := range choices {
		state.AvailableModes = append(state.AvailableModes, acpv1.SessionMode{ID: acpv1.SessionModeID(c.Value), Name: c.Name, Description: c.Description})
	}
	return acpv1.Set(state)
}

// Update sends the client an update of the session. It waits while the write queue
// is full.
// It checks the update before it is sent, so a mistake of the agent is an error
// here and not a malformed frame at the client. In version 1 one update may become
// several notifications, or none.
func (s *AgentSession) Update(ctx context.Context, u acpv2.SessionUpdate) error {
	// Own refuses unknown values that are no extension of this agent.
	n := &acpv2.UpdateSessionNotification{SessionID: s.ID, Update: u}
	if err := n.Check(&acpv2.Rules{Own: true, Extensions: s.conn.agent.Extensions}); err != nil {
		return fmt.Errorf("acp: cannot send the update: %w", err)
	}
	if s.client.profile.Version != 1 {
		return s.client.notify(ctx, n)
	}
	step, err := s.client.bridge.Update(n)
	if err != nil {
		return fmt.Errorf("acp: the client's protocol version 1 cannot express this: %w", err)
	}
	for _, m := range step.Updates {
		if err := s.client.notify(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// UpdateV1 sends a client of version 1 an update that exists in version 1 only.
func (s *AgentSession) UpdateV1(ctx context.Context, u acpv1.SessionUpdate) error {
	if v := s.client.profile.Version; v != 1 {
		return fmt.Errorf("acp: cannot send a version 1 update to a client of version %d", v)
	}
	n := &acpv1.SessionNotification{SessionID: s.ID, Update: u}
	if err := n.Check(&acpv1.Rules{Own: true, Extensions: s.conn.agent.Extensions}); err != nil {
		return fmt.Errorf("acp: cannot send the update: %w", err)
	}
	return s.client.notify(ctx, n)
}

// AskPermission asks the client for a permission. Approves of the outcome reports
// whether it was granted; an error is never consent.
// r is not changed; its SessionID is set in a copy.
func (s *AgentSession) AskPermission(ctx context.Context, r *acpv2.RequestPermissionRequest) (*acpv2.RequestPermissionOutcome, error) {
	request := *r
	request.SessionID = s.ID
	raw, err := s.call(ctx, &request)
	if err != nil {
		return nil, err
	}
	var answer acpv2.RequestPermissionResponse // the same in both versions
	if err := answer.UnmarshalJSON(raw); err != nil {
		return nil, fmt.Errorf("acp: cannot read the client's answer to the permission request: %w", err)
	}
	return &answer.Outcome, nil
}

// AskPermissionV1 asks a client of version 1 for a permission with a request of that version,
// as AskPermission does.
func (s *AgentSession) AskPermissionV1(ctx context.Context, r *acpv1.RequestPermissionRequest) (*acpv2.RequestPermissionOutcome, error) {
	if v := s.client.profile.Version; v != 1 {
		return nil, fmt.Errorf("acp: cannot send a version 1 request to a client of version %d", v)
	}
	request := *r
	request.SessionID = s.ID
	if err := request.Check(&acpv1.Rules{Own: true, Extensions: s.conn.agent.Extensions}); err != nil {
		return nil, fmt.Errorf("acp: cannot send %s: %w", request.Method(), err)
	}
	params, err := request.MarshalJSON()
	if err != nil {
		return nil, err
	}
	raw, err := s.client.conn.Call(ctx, request.Method(), json.RawMessage(params))
	if err != nil {
		return nil, err
	}
	var answer acpv2.RequestPermissionResponse // the same in both versions
	if err := answer.UnmarshalJSON(raw); err != nil {
		return nil, fmt.Errorf("acp: cannot read the client's answer to the permission request: %w", err)
	}
	return &answer.Outcome, nil
}

// Elicit asks the client to put a question to its user.
func (s *AgentSession) Elicit(ctx context.Context, r *acpv2.CreateElicitationRequest) (*acpv2.CreateElicitationResponse, error) {
	if !s.Client().Elicit {
		return nil, errors.New("acp: the client cannot ask its user questions")
	}
	raw, err := s.call(ctx, r)
	if err != nil {
		return nil, err
	}
	answer := &acpv2.CreateElicitationResponse{} // the same in both versions
	if err := answer.UnmarshalJSON(raw); err != nil {
		return nil, fmt.Errorf("acp: cannot read the answer to the elicitation: %w", err)
	}
	return answer, nil
}

// SetOption changes an option on the agent's own account, through Agent.SetOption.
// The agent has to send the client an update.
// Agent.SetOption itself must not call it, because the options are locked while
// that function runs.
func (s *AgentSession) SetOption(ctx context.Context, id string, value any) ([]acpv2.SessionConfigOption, error) {
	return s.conn.setOption(ctx, s.ID, id, value)
}

// CompleteElicitation tells the client that its user has finished a URL elicitation.
func (s *AgentSession) CompleteElicitation(ctx context.Context, id string) error {
	return s.client.notify(ctx, &acpv2.CompleteElicitationNotification{ElicitationID: acpv2.ElicitationID(id)}) // the same in both versions
}

// call makes a request in the client's version.
func (s *AgentSession) call(ctx context.Context, m acpv2.Message) (json.RawMessage, error) {
	if err := m.Check(&acpv2.Rules{Own: true, Extensions: s.conn.agent.Extensions}); err != nil {
		return nil, fmt.Errorf("acp: cannot send %s: %w", m.Method(), err)
	}
	if s.client.profile.Version == 1 {
		converted, err := acpv2.ToV1(m, &acpv2.V1Options{Client: &s.client.caps, Lossy: s.conn.agent.Lossy})
		if err != nil {
			return nil, fmt.Errorf("acp: the client's protocol version 1 cannot express this: %w", err)
		}
		m = converted.Message
	}
	params, err := m.MarshalJSON()
	if err != nil {
		return nil, err
	}
	return s.client.conn.Call(ctx, m.Method(), json.RawMessage(params))
}

// Call makes a request of an extension, whose method must begin with _.
func (s *AgentSession) Call(ctx context.Context, method string, params any) (json.RawMessage, error) {
	if err := extensionMethod(method); err != nil {
		return nil, err
	}
	return s.client.conn.Call(ctx, method, params)
}

// Notify sends a notification of an extension, whose method must begin with _.
func (s *AgentSession) Notify(ctx context.Context, method string, params any) error {
	if err := extensionMethod(method); err != nil {
		return err
	}
	return s.client.conn.Notify(ctx, method, params)
}

// busy reports whether the session has a turn.
func (s *AgentSession) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.turn != nil
}

// cancelTurn cancels the turn, if there is one.
// The cancellation is an event in the turn's context; cancelTurn does not wait for
// the turn to end.
func (s *AgentSession) cancelTurn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn != nil {
		s.turn.cancel(errTurnCancelled)
	}
}

// stopTurn cancels the turn, if there is one, and waits for its end.
func (s *AgentSession) stopTurn(ctx context.Context) error {
	s.mu.Lock()
	turn := s.turn
	s.mu.Unlock()
	if turn == nil {
		return nil
	}
	turn.cancel(errTurnCancelled)
	select {
	case <-turn.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

package acp

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/parley-agents/parley/acp/acpv1"
	"github.com/parley-agents/parley/acp/acpv2"
	"github.com/parley-agents/parley/jsonrpc"
	"github.com/parley-agents/parley/sandbox"
)

// Permissions answers when an agent asks whether it may do something.
type Permissions interface {
	// Decide chooses one of the options, or none: then the agent is told that
	// the question was cancelled, which is never consent. It must return when
	// ctx ends, which it does when the turn is cancelled.
	Decide(ctx context.Context, r *PermissionRequest) (sandbox.Decision, error)
}

// A PermissionRequest is an agent's question whether it may do something.
type PermissionRequest struct {
	sandbox.Request

	SessionID   SessionID
	Description string
	Unknown     bool // it is about something that is not known here: no rule may allow it

	// The message as it came. Exactly one is set.
	V1 *acpv1.RequestPermissionRequest
	V2 *acpv2.RequestPermissionRequest
}

// byPolicy decides as a policy says.
type byPolicy struct {
	policy      sandbox.Policy
	permissions *sandbox.Permissions
}

func (p byPolicy) Decide(ctx context.Context, r *PermissionRequest) (sandbox.Decision, error) {
	if r.Unknown && p.policy != sandbox.PolicyAsk {
		return sandbox.Decision{Reason: "only a person can allow what is not known"}, nil
	}
	return p.permissions.Decide(ctx, r.Request)
}

// readPermission reads the params of session/request_permission.
func readPermission(version int, params json.RawMessage) (*PermissionRequest, error) {
	r := &PermissionRequest{}
	if version == 1 {
		m := &acpv1.RequestPermissionRequest{}
		if err := m.UnmarshalJSON(params); err != nil {
			return nil, err
		}
		r.V1, r.SessionID = m, SessionID(m.SessionID)
		r.Kind, r.Title = sandbox.Kind(m.ToolCall.Kind.Or("")), m.ToolCall.Title.Or("")
		for _, o := range m.Options {
			r.Options = append(r.Options, sandbox.Option{ID: string(o.OptionID), Name: o.Name, Kind: sandbox.OptionKind(o.Kind)})
		}
		return r, nil
	}
	m := &acpv2.RequestPermissionRequest{}
	if err := m.UnmarshalJSON(params); err != nil {
		return nil, err
	}
	r.V2, r.SessionID, r.Title, r.Description = m, m.SessionID, m.Title, m.Description.Or("")
	switch subject := m.Subject.Or(acpv2.RequestPermissionSubject{}); {
	case subject.ToolCall != nil:
		r.Kind = sandbox.Kind(subject.ToolCall.ToolCall.Kind.Or(""))
	case subject.Command != nil:
		r.Kind = sandbox.KindExecute
	default:
		r.Unknown = subject.Unknown != nil
	}
	for _, o := range m.Options {
		r.Options = append(r.Options, sandbox.Option{ID: string(o.OptionID), Name: o.Name, Kind: sandbox.OptionKind(o.Kind)})
	}
	return r, nil
}

// permission answers session/request_permission.
func (c *Client) permission(ctx context.Context, version int, params json.RawMessage) (any, error) {
	r, err := readPermission(version, params)
	if err != nil {
		return nil, invalidParams(err)
	}
	s := c.session(r.SessionID)
	if s == nil {
		return nil, sessionNotFound(r.SessionID)
	}
	ctx, done := s.turnContext(ctx)
	defer done()
	var permissions Permissions = byPolicy{c.opts.Policy, sandbox.NewPermissions(c.opts.Policy, c.opts.Ask)}
	if c.opts.Permissions != nil {
		permissions = c.opts.Permissions
	}
	var decision sandbox.Decision
	if ctx.Err() == nil {
		if decision, err = permissions.Decide(ctx, r); err != nil {
			c.reportProblem(fmt.Errorf("acp: the question %q could not be answered, and counts as cancelled: %w", r.Title, err))
		}
	}
	outcome := acpv1.RequestPermissionOutcome{Cancelled: &acpv1.CancelledPermissionOutcome{}}
	if ctx.Err() == nil && err == nil && offered(r.Options, decision.OptionID) {
		outcome = acpv1.RequestPermissionOutcome{Selected: &acpv1.SelectedPermissionOutcome{OptionID: acpv1.PermissionOptionID(decision.OptionID)}}
	}
	return encoded(&acpv1.RequestPermissionResponse{Outcome: outcome}) // the same in both versions
}

func offered(options []sandbox.Option, id string) bool {
	for _, o := range options {
		if o.ID == id && id != "" {
			return true
		}
	}
	return false
}

// turnContext returns a context that also ends when the turn that runs is
// cancelled or over. done must be called before the agent is answered.
func (s *Session) turnContext(ctx context.Context) (_ context.Context, done func()) {
	s.mu.Lock()
	turn := s.turn
	s.mu.Unlock()
	if turn == nil {
		return ctx, func() {}
	}
	within, cancel := context.WithCancelCause(ctx)
	if turn.life.Err() != nil {
		cancel(context.Cause(turn.life))
	}
	stop := context.AfterFunc(turn.life, func() { cancel(context.Cause(turn.life)) })
	return within, func() {
		stop()
		cancel(nil)
		turn.awaitCancel(ctx)
	}
}

func sessionNotFound(id SessionID) error {
	return &jsonrpc.Error{Code: int(acpv1.ErrorCodeResourceNotFound), Message: fmt.Sprintf("there is no session %q", id)}
}

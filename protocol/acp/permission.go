package acp

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/parley-agents/parley/protocol/acp/acpv1"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
	"github.com/parley-agents/parley/protocol/jsonrpc"
	"github.com/parley-agents/parley/protocol/sandbox"
)

// Permissions decides an agent's requests for permission.
type Permissions interface {
	// Decide chooses one of the options, or none: then the request is answered as
	// cancelled, which is never consent. It must return when ctx ends; ctx ends when
	// the turn is cancelled.
	Decide(ctx context.Context, r *PermissionRequest) (sandbox.Decision, error)
}

// A PermissionRequest is an agent's request for a permission.
type PermissionRequest struct {
	sandbox.Request

	SessionID   SessionID
	Description string
	Unknown     bool // its subject is of an unknown type: no rule may allow it

	// The request as it came. Exactly one is set.
	V1 *acpv1.RequestPermissionRequest
	V2 *acpv2.RequestPermissionRequest
}

// ByPolicy returns the Permissions that decide by a policy, as a client does whose
// Options have none. ask is called as [sandbox.NewPermissions] says; it may be nil.
func ByPolicy(policy sandbox.Policy, ask sandbox.Asker) Permissions {
	return policyPermissions{policy, sandbox.NewPermissions(policy, ask)}
}

// policyPermissions decides by a policy.
type policyPermissions struct {
	policy      sandbox.Policy
	permissions *sandbox.Permissions
}

// Decide asks only a person about a request of an unknown type.
// A policy classifies requests by their kind, and an unknown type has none, so even
// a policy that allows everything does not allow it.
func (p policyPermissions) Decide(ctx context.Context, r *PermissionRequest) (sandbox.Decision, error) {
	if r.Unknown && p.policy != sandbox.PolicyAsk {
		return sandbox.Decision{Reason: "only a person can approve a request of an unknown type"}, nil
	}
	return p.permissions.Decide(ctx, r.Request)
}

// readPermission decodes the params of session/request_permission.
// Options, paths and kind become those of the sandbox, which knows one form for
// both versions. The request as it came stays beside them.
func readPermission(version int, params json.RawMessage) (*PermissionRequest, error) {
	r := &PermissionRequest{}
	if version == 1 {
		m := &acpv1.RequestPermissionRequest{}
		if err := m.UnmarshalJSON(params); err != nil {
			return nil, err
		}
		r.V1, r.SessionID = m, m.SessionID
		r.Kind, r.Title = sandbox.Kind(m.ToolCall.Kind.Or("")), m.ToolCall.Title.Or("")

		// The paths come from the locations of the tool call and from its diffs.
		for _, l := range m.ToolCall.Locations.Or(nil) {
			r.Paths = append(r.Paths, l.Path)
		}
		for _, c := range m.ToolCall.Content.Or(nil) {
			if c.Diff != nil {
				r.Paths = append(r.Paths, c.Diff.Path)
			}
		}

		for _, o := range m.Options {
			r.Options = append(r.Options, sandbox.Option{ID: string(o.OptionID), Name: o.Name, Kind: sandbox.OptionKind(o.Kind)})
		}
		return r, nil
	}

	m := &acpv2.RequestPermissionRequest{}
	if err := m.UnmarshalJSON(params); err != nil {
		return nil, err
	}
	r.V2 = m
	r.SessionID = m.SessionID
	r.Title = m.Title
	r.Description = m.Description.Or("")

	switch subject := m.Subject.Or(noSubject); {
	case subject.ToolCall != nil:
		r.Kind = sandbox.Kind(subject.ToolCall.ToolCall.Kind.Or(""))
		for _, l := range subject.ToolCall.ToolCall.Locations.Or(nil) {
			r.Paths = append(r.Paths, string(l.Path))
		}
		for _, c := range subject.ToolCall.ToolCall.Content.Or(nil) {
			if c.Diff != nil {
				r.Paths = append(r.Paths, changedPaths(c.Diff)...)
			}
		}
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

// noSubject is the subject of a request that has none.
var noSubject = acpv2.RequestPermissionSubject{}

// changedPaths returns the files that a difference names.
func changedPaths(d *acpv2.Diff) (paths []string) {
	for _, c := range d.Changes {
		for _, one := range []*acpv2.DiffPathChange{c.Add, c.Delete, c.Modify} {
			if one != nil {
				paths = append(paths, string(one.Path))
			}
		}
		for _, pair := range []*acpv2.DiffPathPairChange{c.Move, c.Copy} {
			if pair != nil {
				paths = append(paths, string(pair.OldPath), string(pair.Path))
			}
		}
	}
	return paths
}

// permission answers session/request_permission.
// The answer is a selection only if every step succeeded: the turn is not
// cancelled, the decision has no error, and the chosen option is one that the agent
// offered. Everything else is answered as cancelled.
func (c *Client) permission(ctx context.Context, version int, params json.RawMessage) (any, error) {
	r, err := readPermission(version, params)
	if err != nil {
		return nil, invalidParams(err)
	}
	s := c.session(r.SessionID)
	if s == nil {
		return nil, sessionNotFound(r.SessionID)
	}
	r.Folders = s.folders
	ctx, done := s.turnContext(ctx)
	defer done()
	permissions := c.opts.Permissions
	if permissions == nil {
		permissions = ByPolicy(c.opts.Policy, c.opts.Ask)
	}
	var decision sandbox.Decision
	if ctx.Err() == nil {
		if decision, err = permissions.Decide(ctx, r); err != nil {
			c.reportProblem(fmt.Errorf("acp: permission request %q answered as cancelled: %w", r.Title, err))
		}
		if err == nil && ctx.Err() == nil {
			decision = s.guarded(ctx, r, decision)
		}
	}
	outcome := acpv1.RequestPermissionOutcome{Cancelled: &acpv1.CancelledPermissionOutcome{}}
	if ctx.Err() == nil && err == nil && offered(r.Options, decision.OptionID) {
		outcome = acpv1.RequestPermissionOutcome{Selected: &acpv1.SelectedPermissionOutcome{OptionID: acpv1.PermissionOptionID(decision.OptionID)}}
	}
	return encoded(&acpv1.RequestPermissionResponse{Outcome: outcome}) // the same in both versions
}

// offered reports whether the agent offered an option: no other may be chosen for it.
func offered(options []sandbox.Option, id string) bool {
	for _, o := range options {
		if o.ID == id && id != "" {
			return true
		}
	}
	return false
}

// turnContext returns a context that also ends when the turn of the session is
// cancelled or over. done must be called before the agent's request is answered.
// Between turns the context is returned unchanged.
func (s *Session) turnContext(ctx context.Context) (_ context.Context, done func()) {
	s.mu.Lock()
	turn := s.turn
	s.mu.Unlock()
	if turn == nil {
		return ctx, func() {}
	}
	within, cancel := context.WithCancelCause(ctx)
	// AfterFunc runs its function on a goroutine of its own. A turn that is over
	// already ends the context here, before the caller looks at it.
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

// sessionNotFound returns the error that answers a request about an unknown session.
func sessionNotFound(id SessionID) error {
	return &jsonrpc.Error{Code: int(acpv1.ErrorCodeResourceNotFound), Message: fmt.Sprintf("no session with id %q", id)}
}

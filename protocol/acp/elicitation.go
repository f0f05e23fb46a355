package acp

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/parley-agents/parley/protocol/acp/acpv1"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
	"github.com/parley-agents/parley/protocol/jsonrpc"
)

// elicitation answers elicitation/create.
// Every failure on this side is answered as cancelled, which never counts as an
// answer of the user. The elicitation of a session ends with its turn; one without
// a session, such as a login, ends with the request.
func (c *Client) elicitation(ctx context.Context, version int, params json.RawMessage) (any, error) {
	if c.opts.Elicit == nil {
		return nil, jsonrpc.MethodNotFound(acpv1.MethodElicitationCreate)
	}
	m, err := readElicitation(version, params)
	if err != nil {
		return nil, invalidParams(err)
	}
	if m.Unknown != nil {
		return nil, invalidParams(fmt.Errorf("unknown elicitation mode %q", m.Unknown.Tag))
	}
	if s := c.session(elicitationSession(m)); s != nil {
		var done func()
		ctx, done = s.turnContext(ctx)
		defer done()
	}
	cancelled := &acpv2.CreateElicitationResponse{Cancel: &acpv2.ElicitationCancelAction{}}
	if ctx.Err() != nil {
		return encoded(cancelled)
	}
	answer, err := c.opts.Elicit(ctx, m)
	if err != nil {
		c.reportProblem(fmt.Errorf("acp: elicitation answered as cancelled: %w", err))
	}
	if err != nil || answer == nil || ctx.Err() != nil {
		answer = cancelled
	}
	return encoded(answer)
}

// readElicitation decodes the params of elicitation/create. The versions differ in
// one thing: version 1 may leave out the type and properties of the form's schema.
func readElicitation(version int, params json.RawMessage) (*acpv2.CreateElicitationRequest, error) {
	out := &acpv2.CreateElicitationRequest{}
	if version != 1 {
		return out, out.UnmarshalJSON(params)
	}
	var in acpv1.CreateElicitationRequest
	if err := in.UnmarshalJSON(params); err != nil {
		return nil, err
	}
	if in.Form != nil {
		schema := &in.Form.RequestedSchema
		schema.Type = acpv1.Set(schema.Type.Or(acpv1.ElicitationSchemaTypeObject))
		schema.Properties = acpv1.Set(schema.Properties.Or(nil))
	}
	raw, err := in.MarshalJSON()
	if err != nil {
		return nil, err
	}
	return out, out.UnmarshalJSON(raw)
}

// elicitationSession returns the session of an elicitation, "" if it has none.
func elicitationSession(m *acpv2.CreateElicitationRequest) SessionID {
	switch {
	case m.Form != nil && m.Form.Session != nil:
		return m.Form.Session.SessionID
	case m.URL != nil && m.URL.Session != nil:
		return m.URL.Session.SessionID
	}
	return ""
}

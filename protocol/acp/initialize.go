package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/parley-agents/parley/protocol/acp/acpv1"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
	"github.com/parley-agents/parley/protocol/jsonrpc"
)

// initialize agrees with the agent on a version. The params of an offer of version
// 2 have the members of both versions, so that an agent of either version finds
// its own. If the agent answers that offer with an error, version 1 is offered.
// Both offers share one timeout.
func (c *Client) initialize(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.opts.StartTimeout, fmt.Errorf("no answer after %v: %w", c.opts.StartTimeout, context.DeadlineExceeded))
	defer cancel()
	offers := []int{1}
	if c.opts.V2 {
		offers = []int{2, 1}
	}
	for i, offer := range offers {
		params, err := c.initializeParams(offer)
		if err != nil {
			return err
		}
		result, err := c.conn.Call(ctx, acpv1.MethodInitialize, params)
		// Only a refusal leads to the next offer. Silence or the end of the agent
		// would be the same for it.
		var refusal *jsonrpc.Error
		if errors.As(err, &refusal) && i+1 < len(offers) {
			continue
		}
		// An agent of version 2 alone misses its own members in the offer of version 1.
		isMisread := refusal != nil && (refusal.Code == jsonrpc.CodeInvalidParams || refusal.Code == jsonrpc.CodeInvalidRequest)
		if isMisread && !c.opts.V2 {
			return &Fault{Code: FaultVersion, Text: "the agent refuses version 1 of the protocol, the only one that was offered", Err: fmt.Errorf("%w: %w", err, ErrNoVersion2)}
		}
		if err != nil {
			return c.explain(acpv1.MethodInitialize, err)
		}
		return c.agree(offer, result)
	}
	return nil
}

// initializeParams returns the params of initialize.
func (c *Client) initializeParams(offer int) (json.RawMessage, error) {
	v1 := acpv1.InitializeRequest{
		ProtocolVersion: acpv1.ProtocolVersion(offer),
		ClientInfo:      acpv1.Set(acpv1.Implementation{Name: c.opts.Name, Version: c.opts.Version}),
	}

	caps := acpv1.ClientCapabilities{
		FS: acpv1.Set(acpv1.FileSystemCapabilities{
			ReadTextFile: acpv1.Set(c.opts.offersRead()), WriteTextFile: acpv1.Set(c.opts.offersWrite()),
		}),
		Terminal: acpv1.Set(c.opts.offersTerminals()),
		Session: acpv1.Set(acpv1.ClientSessionCapabilities{
			Compaction:    acpv1.Set(acpv1.CompactionCapabilities{}),
			ConfigOptions: acpv1.Set(acpv1.SessionConfigOptionsCapabilities{Boolean: acpv1.Set(acpv1.BooleanConfigOptionCapabilities{})}),
			Notices:       acpv1.Set(acpv1.NoticeCapabilities{}),
		}),
	}

	// These capabilities have a form of their own in each version.
	var v2 acpv2.ClientCapabilities
	if c.opts.TerminalAuth {
		caps.Auth = acpv1.Set(acpv1.AuthCapabilities{Terminal: acpv1.Set(true)})
		v2.Auth = acpv2.Set(acpv2.ClientAuthCapabilities{Terminal: acpv2.Set(acpv2.TerminalAuthCapabilities{})})
	}
	if c.opts.Elicit != nil {
		caps.Elicitation = acpv1.Set(acpv1.ElicitationCapabilities{
			Form: acpv1.Set(acpv1.ElicitationFormCapabilities{}), URL: acpv1.Set(acpv1.ElicitationURLCapabilities{}),
		})
		v2.Elicitation = acpv2.Set(acpv2.ElicitationCapabilities{
			Form: acpv2.Set(acpv2.ElicitationFormCapabilities{}), URL: acpv2.Set(acpv2.ElicitationURLCapabilities{}),
		})
	}
	v1.ClientCapabilities = acpv1.Set(caps)

	// A client that offers version 2 sends the members of both versions in one object.
	if offer > 1 {
		info := acpv2.Implementation{Name: c.opts.Name, Version: c.opts.Version}
		for _, m := range []struct {
			name  string
			value any
		}{{"info", &info}, {"capabilities", &v2}} {
			raw, err := acpv1.Marshal(m.value)
			if err != nil {
				return nil, err
			}
			v1.Extra.Set(m.name, raw)
		}
	}

	return v1.MarshalJSON()
}

// agree sets the profile and the version from the answer to initialize.
// protocolVersion is read first and as raw JSON: the rest of the answer can be
// decoded only when the version is known, and an agent may send any value.
func (c *Client) agree(offer int, result json.RawMessage) error {
	var head struct {
		Version json.RawMessage `json:"protocolVersion"`
	}
	if err := json.Unmarshal(result, &head); err != nil {
		return unreadable(err)
	}

	switch version := string(head.Version); {
	case version == "1":
		var m acpv1.InitializeResponse
		if err := m.UnmarshalJSON(result); err != nil {
			return unreadable(err)
		}
		c.profile = profileV1(&m)
	case version == "2" && offer == 2:
		var m acpv2.InitializeResponse
		if err := m.UnmarshalJSON(result); err != nil {
			return unreadable(err)
		}
		c.profile = profileV2(&m)

	case version == "":
		return unreadable(errors.New("protocolVersion is missing"))
	case version == "2":
		return &Fault{Code: FaultVersion, Text: "the agent chose version 2 of the protocol, but only version 1 was offered", Err: ErrNoVersion2}
	default:
		hint := "only version 1 was offered"
		if offer == 2 {
			hint = "versions 1 and 2 were offered"
		}
		return &Fault{Code: FaultVersion, Text: fmt.Sprintf("the agent chose version %s of the protocol, but %s", firstLine(head.Version), hint)}
	}

	c.version.Store(int32(c.profile.Version))
	return nil
}

// unreadable returns the fault of an answer to initialize that cannot be decoded.
func unreadable(err error) *Fault {
	return &Fault{Code: FaultMalformed, Text: "cannot read the agent's answer to initialize", Err: err}
}

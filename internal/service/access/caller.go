package access

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
)

// Credentials are the members of a request that name its sender.
type Credentials struct {
	Bearer  string     // the key, or a project token
	AgentID hub.AID    // as the sender claims
	Token   string     // a project token
	Source  netip.Addr // where the request came from
	Session string     // which calls of the sender belong together
}

// outsidePrefix begins the names that callers from elsewhere have in the
// journal. No agent of a hub can have such a name.
const outsidePrefix = "peer:"

// outside returns a caller from elsewhere.
func outside(kind hub.CallerKind, aid hub.AID, t hub.TrustLevel) hub.Caller {
	return hub.Caller{Kind: kind, ID: hub.AgentID(outsidePrefix + aid), AID: aid, Trust: t}
}

func isOutside(c hub.Caller) bool { return strings.HasPrefix(string(c.ID), outsidePrefix) }

// local returns an agent of this hub as a caller.
func (a *Access) local(agent hub.Agent, key hub.Key) hub.Caller {
	kind := hub.CallerAgent
	switch {
	case agent.ID == hub.Operator:
		kind = hub.CallerOperator
	case key.Lent():
		kind = hub.CallerRun
	}
	return hub.Caller{
		Kind: kind, ID: agent.ID, AID: a.aidOf(agent.ID), Key: key.ID, Role: agent.Role, Auditor: agent.Auditor,
		Paused: agent.State == hub.AgentPaused, Trust: hub.TrustVerified,
	}
}

// Identify returns the sender of a request. It reports CodeUnauthenticated for
// an unknown sender and CodeTampering for one that claims another's name. With
// an error it returns a guest, with an ID if the journal can name the sender.
func (a *Access) Identify(ctx context.Context, c Credentials) (hub.Caller, error) {
	caller, err := a.identify(ctx, "access.Identify", c)
	if err != nil {
		caller = hub.Caller{Kind: hub.CallerGuest, ID: caller.ID, Trust: hub.TrustUnknown}
	}
	caller.Source, caller.Session = c.Source, c.Session
	return caller, err
}

func (a *Access) identify(ctx context.Context, op string, c Credentials) (hub.Caller, error) {
	if strings.HasPrefix(c.Bearer, "eyJ") && c.Token == "" {
		c.Bearer, c.Token = "", c.Bearer // a token in the place of a key
	}
	var v hub.Caller
	var err error
	switch {
	case c.Bearer != "":
		v, err = a.byKey(ctx, op, c)
	case c.Token != "":
	case a.open:
		return a.anybody(ctx, c)
	case c.AgentID != "":
		v, err = a.byName(ctx, op, c)
	default:
		err = hub.Errorf(hub.CodeUnauthenticated, op, "no key was given").WithHint("send a key as a bearer token, or a project token as X-Project-Token")
	}
	if err != nil || c.Token == "" {
		return v, err
	}
	return a.narrow(op, v, c)
}

// anybody believes the name that a request gives, on a hub that is open to all.
func (a *Access) anybody(ctx context.Context, c Credentials) (hub.Caller, error) {
	caller := outside(hub.CallerAnyone, c.AgentID, hub.TrustVerified)
	err := a.store.View(ctx, func(r hub.Reader) error {
		p, err := r.Peer(c.AgentID)
		if err == nil {
			caller.Kind, caller.Native = hub.CallerPeer, p.Native
		}
		return err
	})
	if err != nil && hub.CodeOf(err) != hub.CodeNotFound {
		return hub.Caller{}, fmt.Errorf("access: read the peer: %w", err)
	}
	return caller, nil
}

// byKey returns the holder of a key: an agent here, or a peer.
func (a *Access) byKey(ctx context.Context, op string, c Credentials) (hub.Caller, error) {
	caller, unknown := a.Authenticate(ctx, c.Bearer)
	if unknown == nil {
		return caller, matches(op, c.AgentID, caller.AID, hub.AID(caller.ID))
	}
	if hub.CodeOf(unknown) != hub.CodeUnauthenticated {
		return hub.Caller{}, unknown
	}
	var p hub.Peer
	err := a.store.View(ctx, func(r hub.Reader) (err error) {
		p, err = r.PeerByKey(hub.HashSecret(c.Bearer))
		return err
	})
	if hub.CodeOf(err) == hub.CodeNotFound {
		return hub.Caller{}, unknown
	}
	if err != nil {
		return hub.Caller{}, fmt.Errorf("access: read the peer: %w", err)
	}
	caller = outside(hub.CallerPeer, p.AID, p.Trust)
	caller.Native = p.Native
	if p.State != hub.PeerApproved {
		return caller, hub.Errorf(hub.CodeUnauthenticated, op, "%s is not an approved peer of this hub", p.AID).
			WithHint("the operator approves it with: parley peer approve %s", p.AID)
	}
	return caller, matches(op, c.AgentID, p.AID)
}

// matches reports CodeTampering when the name that a request claims is not one
// of the names of its key's holder.
func matches(op string, claimed hub.AID, names ...hub.AID) error {
	if claimed == "" || slices.Contains(names, claimed) {
		return nil
	}
	return hub.Errorf(hub.CodeTampering, op, "the key is that of %s, and the request says %.100q", names[len(names)-1], claimed)
}

// byName accepts a name without a key as far as the operator allowed it: a legacy
// peer from its address may sync, an approved peer without a key may read.
func (a *Access) byName(ctx context.Context, op string, c Credentials) (hub.Caller, error) {
	unknown := hub.Errorf(hub.CodeUnauthenticated, op, "no key was given, and %.100q may not call without one", c.AgentID).
		WithHint("exchange keys: parley peer invite on the one side, parley peer join on the other")
	var p hub.Peer
	err := a.store.View(ctx, func(r hub.Reader) (err error) {
		p, err = r.Peer(c.AgentID)
		return err
	})
	switch {
	case hub.CodeOf(err) == hub.CodeNotFound:
		return hub.Caller{}, unknown
	case err != nil:
		return hub.Caller{}, fmt.Errorf("access: read the peer: %w", err)
	}
	v := outside(hub.CallerPeer, p.AID, p.Trust)
	switch {
	case p.State != hub.PeerApproved || p.KeyHash != "":
		return v, unknown // a peer that has a key must show it
	case p.Legacy != "":
		from, err := netip.ParsePrefix(p.Legacy)
		if err != nil || !from.Contains(c.Source.Unmap().WithZone("")) {
			return v, hub.Errorf(hub.CodeTampering, op, "%s may come without a key from %s only", p.AID, p.Legacy)
		}
		v.Kind, v.Trust = hub.CallerLegacyPeer, hub.TrustUnknown
		return v, nil
	case p.Trust == hub.TrustKnown:
		return v, nil
	}
	return v, unknown
}

// narrow applies a project token: its holder may do no more than it says.
func (a *Access) narrow(op string, v hub.Caller, c Credentials) (hub.Caller, error) {
	t, err := a.readToken(op, c.Token)
	if err != nil {
		return v, err
	}
	subject := hub.AID(t.Subject)
	switch {
	case v.AID != "" && v.AID != subject, v.ID != "" && v.AID == "" && hub.AID(v.ID) != subject:
		return v, hub.Errorf(hub.CodeTampering, op, "the project token is that of %s, and the key is not", subject)
	case c.AgentID != "" && c.AgentID != subject:
		return outside(hub.CallerToken, subject, ""), hub.Errorf(hub.CodeTampering, op, "the project token is that of %s, and the request says %.100q", subject, c.AgentID)
	}
	if v.ID == "" {
		v = outside(hub.CallerToken, subject, "")
		if agent, ok := a.agentOf(subject); ok {
			v.ID = agent
		}
	}
	v.Kind, v.AID, v.Scope = hub.CallerToken, subject, &hub.Scope{Project: t.Project}
	for _, p := range t.Permissions {
		v.Scope.Permissions = append(v.Scope.Permissions, string(p))
	}
	return v, nil
}

// Admit reports CodeDenied unless the caller may call a method about a project,
// which is "" for methods that are about none.
func (a *Access) Admit(ctx context.Context, c hub.Caller, method string, project hub.ProjectID) error {
	const op = "access.Admit"
	need, listed := needs[method]
	legacy := c.Kind == hub.CallerLegacyPeer
	switch {
	case legacy && !slices.Contains(legacyMethods, method):
		return hub.Errorf(hub.CodeDenied, op, "%s calls without a key and may only sync", c.AID)
	case c.Scope != nil:
		if !listed || !slices.Contains(c.Scope.Permissions, string(need)) {
			return hub.Errorf(hub.CodeDenied, op, "the project token of %s does not permit %s", c.AID, method)
		}
		if project != c.Scope.Project {
			return hub.Errorf(hub.CodeDenied, op, "the project token of %s is for another project", c.AID)
		}
	case !listed && isOutside(c):
		return hub.Errorf(hub.CodeDenied, op, "%s is not for peers", method)
	case need == permitSync && c.Local():
		return hub.Errorf(hub.CodeDenied, op, "only peers may call %s", method)
	case !legacy && c.Trust == hub.TrustKnown && need != PermitRead:
		return hub.Errorf(hub.CodeDenied, op, "%s has exchanged no key and may only read", c.AID).
			WithHint("exchange keys: parley peer invite on the one side, parley peer join on the other")
	case !legacy && c.Trust != hub.TrustVerified && c.Trust != hub.TrustKnown:
		return hub.Errorf(hub.CodeDenied, op, "%s is not trusted", c.AID)
	}
	if c.AID == "" || project == "" || !isOutside(c) {
		return nil
	}
	in, err := a.InScope(ctx, c.AID, project)
	if err == nil && !in {
		err = hub.Errorf(hub.CodeDenied, op, "%s takes no part in project %.128s", c.AID, project)
	}
	return err
}

// Source reports CodeTampering unless a copy names its sender as its source, or
// no source.
func (a *Access) Source(c hub.Caller, source hub.AID) error {
	if source == "" || source == c.AID || a.open && c.AID == "" {
		return nil
	}
	return hub.Errorf(hub.CodeTampering, "access.Source", "%s sent a copy in the name of %.100q", c.AID, source)
}

// isPeer reports whether c is the peer with that name, and proved it.
func isPeer(c hub.Caller, aid hub.AID) bool {
	return c.Kind == hub.CallerPeer && c.Trust == hub.TrustVerified && c.AID == aid
}

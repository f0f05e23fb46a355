package access

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
)

// Credentials is what a request says about who sends it.
type Credentials struct {
	Bearer  string     // the key, or a project token
	AgentID hub.AID    // as the sender claims
	Token   string     // a project token
	Source  netip.Addr // where the request came from
}

// A Visitor is who sends a request about coordination: an agent of this hub,
// another hub, or the holder of a project token.
type Visitor struct {
	hub.Caller         // of an agent here; of others a stand-in for the journal
	AID        hub.AID // "" for an agent here that has none
	Trust      hub.TrustLevel
	Peer       bool // another hub, with a key or as a legacy peer
	Native     bool // and one of ours
	Legacy     bool // a peer that cannot send a key
	Guest      bool // nobody that is known, where everybody is let in: it acts for the hub itself

	// Project and Permissions bound what the holder of a project token may do.
	Project     hub.ProjectID
	Permissions []Permission
}

// strangers begins the names that people from elsewhere have in the journal. No
// agent of a hub can have such a name.
const strangers = "peer:"

func stranger(aid hub.AID) hub.Caller { return hub.Caller{ID: hub.AgentID(strangers + aid)} }

func (v Visitor) stranger() bool { return strings.HasPrefix(string(v.Caller.ID), strangers) }

// Local reports whether the visitor is an agent of this hub that came with its
// key.
func (v Visitor) Local() bool { return v.Caller.ID != "" && !v.stranger() && v.Permissions == nil }

// Identify finds out who sends a request. It reports CodeUnauthenticated for
// somebody unknown and CodeTampering for somebody who claims to be somebody
// else. What it refuses is recorded.
func (a *Access) Identify(ctx context.Context, c Credentials) (Visitor, error) {
	const op = "access.Identify"
	v, err := a.identify(ctx, op, c)
	if err != nil {
		a.refuse(ctx, v.Caller.ID, "authenticate", err)
		return Visitor{}, err
	}
	return v, nil
}

func (a *Access) identify(ctx context.Context, op string, c Credentials) (Visitor, error) {
	if strings.HasPrefix(c.Bearer, "eyJ") && c.Token == "" {
		c.Bearer, c.Token = "", c.Bearer // a token in the place of a key
	}
	var v Visitor
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

// anybody believes everybody, where the operator said so.
func (a *Access) anybody(ctx context.Context, c Credentials) (Visitor, error) {
	v := Visitor{Caller: stranger(c.AgentID), AID: c.AgentID, Trust: hub.TrustVerified, Peer: true}
	err := a.store.View(ctx, func(r hub.Reader) error {
		p, err := r.Peer(c.AgentID)
		v.Native, v.Guest = p.Native, hub.CodeOf(err) == hub.CodeNotFound
		return err
	})
	if err != nil && hub.CodeOf(err) != hub.CodeNotFound {
		return Visitor{}, fmt.Errorf("access: look for a peer: %w", err)
	}
	return v, nil
}

// byKey finds who holds a key: an agent here, or a peer.
func (a *Access) byKey(ctx context.Context, op string, c Credentials) (Visitor, error) {
	actor, unknown := a.Authenticate(ctx, c.Bearer)
	if unknown == nil {
		v := Visitor{Caller: actor, AID: a.aidOf(actor.ID), Trust: hub.TrustVerified}
		return v, matches(op, c.AgentID, v.AID, hub.AID(actor.ID))
	}
	if hub.CodeOf(unknown) != hub.CodeUnauthenticated {
		return Visitor{}, unknown
	}
	var p hub.Peer
	err := a.store.View(ctx, func(r hub.Reader) (err error) {
		p, err = r.PeerByKey(hub.HashSecret(c.Bearer))
		return err
	})
	if hub.CodeOf(err) == hub.CodeNotFound {
		return Visitor{}, unknown
	}
	if err != nil {
		return Visitor{}, fmt.Errorf("access: look for a peer: %w", err)
	}
	v := Visitor{Caller: stranger(p.AID), AID: p.AID, Trust: p.Trust, Peer: true, Native: p.Native}
	if p.State != hub.PeerApproved {
		return v, hub.Errorf(hub.CodeUnauthenticated, op, "%s is not an approved peer of this hub", p.AID).
			WithHint("the operator approves it with: parley peer approve %s", p.AID)
	}
	return v, matches(op, c.AgentID, p.AID)
}

// matches reports CodeTampering when somebody claims to be another than the one
// whose key came with the request.
func matches(op string, claimed hub.AID, names ...hub.AID) error {
	if claimed == "" || slices.Contains(names, claimed) {
		return nil
	}
	return hub.Errorf(hub.CodeTampering, op, "the key is that of %s, and the request says %.100q", names[len(names)-1], claimed)
}

// byName believes a name without a key as far as the operator said so: a legacy
// peer from its address may sync, an approved peer without a key may read.
func (a *Access) byName(ctx context.Context, op string, c Credentials) (Visitor, error) {
	unknown := hub.Errorf(hub.CodeUnauthenticated, op, "no key was given, and %.100q is nobody who may come without one", c.AgentID).
		WithHint("exchange keys: parley peer invite on the one side, parley peer join on the other")
	var p hub.Peer
	err := a.store.View(ctx, func(r hub.Reader) (err error) {
		p, err = r.Peer(c.AgentID)
		return err
	})
	switch {
	case hub.CodeOf(err) == hub.CodeNotFound:
		return Visitor{}, unknown
	case err != nil:
		return Visitor{}, fmt.Errorf("access: look for a peer: %w", err)
	}
	v := Visitor{Caller: stranger(p.AID), AID: p.AID, Trust: p.Trust}
	switch {
	case p.State != hub.PeerApproved || p.KeyHash != "":
		return v, unknown // who has a key must show it
	case p.Legacy != "":
		from, err := netip.ParsePrefix(p.Legacy)
		if err != nil || !from.Contains(c.Source.Unmap().WithZone("")) {
			return v, hub.Errorf(hub.CodeTampering, op, "%s may come without a key from %s only", p.AID, p.Legacy)
		}
		v.Peer, v.Legacy, v.Trust = true, true, hub.TrustUnknown
		return v, nil
	case p.Trust == hub.TrustKnown:
		return v, nil
	}
	return v, unknown
}

// narrow applies a project token: who has one may do no more than it says.
func (a *Access) narrow(op string, v Visitor, c Credentials) (Visitor, error) {
	t, err := a.readToken(op, c.Token)
	if err != nil {
		return v, err
	}
	subject := hub.AID(t.Subject)
	switch {
	case v.AID != "" && v.AID != subject, v.Caller.ID != "" && v.AID == "" && hub.AID(v.Caller.ID) != subject:
		return v, hub.Errorf(hub.CodeTampering, op, "the project token is that of %s, and the key is not", subject)
	case c.AgentID != "" && c.AgentID != subject:
		return Visitor{Caller: stranger(subject)}, hub.Errorf(hub.CodeTampering, op, "the project token is that of %s, and the request says %.100q", subject, c.AgentID)
	}
	if v.Caller.ID == "" {
		v.Caller = stranger(subject)
		if agent, ok := a.agentOf(subject); ok {
			v.Caller = hub.Caller{ID: agent}
		}
	}
	v.AID, v.Project, v.Permissions = subject, t.Project, list(t.Permissions)
	return v, nil
}

// list returns s, or an empty list for none: a token without permissions
// permits nothing, which is not the same as no token.
func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// Admit reports CodeDenied unless the visitor may call a method about a
// project, which is "" for methods that are about none. What it refuses is
// recorded.
func (a *Access) Admit(ctx context.Context, v Visitor, method string, project hub.ProjectID) error {
	err := a.admit(ctx, v, method, project)
	if err != nil {
		a.refuse(ctx, v.Caller.ID, method, err)
	}
	return err
}

func (a *Access) admit(ctx context.Context, v Visitor, method string, project hub.ProjectID) error {
	const op = "access.Admit"
	need, listed := needs[method]
	switch {
	case v.Legacy && !slices.Contains(legacyMethods, method):
		return hub.Errorf(hub.CodeDenied, op, "%s comes without a key and may only sync", v.AID)
	case v.Permissions != nil:
		if !listed || !slices.Contains(v.Permissions, need) {
			return hub.Errorf(hub.CodeDenied, op, "the project token of %s does not permit %s", v.AID, method)
		}
		if project != v.Project {
			return hub.Errorf(hub.CodeDenied, op, "the project token of %s is for another project", v.AID)
		}
	case !listed && v.stranger():
		return hub.Errorf(hub.CodeDenied, op, "%s is not for peers", method)
	case need == permitSync && !v.Peer:
		return hub.Errorf(hub.CodeDenied, op, "only peers may call %s", method)
	case !v.Legacy && v.Trust == hub.TrustKnown && need != PermitRead:
		return hub.Errorf(hub.CodeDenied, op, "%s has exchanged no key and may only read", v.AID).
			WithHint("exchange keys: parley peer invite on the one side, parley peer join on the other")
	case !v.Legacy && v.Trust != hub.TrustVerified && v.Trust != hub.TrustKnown:
		return hub.Errorf(hub.CodeDenied, op, "%s is not trusted", v.AID)
	}
	if v.AID == "" || project == "" || !v.stranger() {
		return nil
	}
	in, err := a.InScope(ctx, v.AID, project)
	if err == nil && !in {
		err = hub.Errorf(hub.CodeDenied, op, "%s takes no part in project %.128s", v.AID, project)
	}
	return err
}

// Source checks who a copy says it comes from. It reports CodeTampering unless
// that is who sent it.
func (a *Access) Source(ctx context.Context, v Visitor, source hub.AID) error {
	if source == "" || source == v.AID || a.open && v.AID == "" {
		return nil
	}
	err := hub.Errorf(hub.CodeTampering, "access.Source", "%s sent something in the name of %.100q", v.AID, source)
	a.refuse(ctx, v.Caller.ID, "source_agent", err)
	return err
}

// refuse records a refusal; failures of the hub itself are none.
func (a *Access) refuse(ctx context.Context, who hub.AgentID, op string, err error) {
	if code := hub.CodeOf(err); a.refused != nil && code != hub.CodeDegraded && code != hub.CodeInternal {
		a.refused(ctx, who, op, code)
	}
}

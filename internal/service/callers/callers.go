// Package callers identifies the caller of a request by its key, its project token
// or its address, and checks the permission of a caller to call an operation in a
// project. It makes the project tokens, too.
package callers

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/handshake"
	"github.com/parley-agents/parley/internal/ground/vault"
)

// Keys identifies agents of this hub.
type Keys interface {
	// Authenticate returns the holder of a key. It reports CodeUnauthenticated
	// for a secret that is not a valid key.
	Authenticate(ctx context.Context, secret string) (hub.Caller, error)
	// ByHash does the same for the hash of a secret.
	ByHash(ctx context.Context, hash string) (hub.Caller, error)
	// Local returns the agent of this hub that has the AID.
	Local(aid coord.AID) (hub.AgentID, bool)
	// Lookup returns an agent, and whether it has a key that is valid now.
	Lookup(ctx context.Context, id hub.AgentID) (hub.Agent, bool, error)
}

// Options changes how a Service works. The zero value works.
type Options struct {
	Clock hub.Clock      // default time.Now
	Vault *vault.Vault   // without one there are no project tokens
	Self  coord.AID      // of this hub, the issuer of tokens
	Login *handshake.Hub // without one the operator has no tokens
	Open  bool           // a request without a key is believed; for loopback only

	// BelowAgent reports whether a process of this machine was started by an agent of a
	// launch or of the keeper, directly or not. nil if that cannot be known.
	BelowAgent func(process int) bool
}

// A Service identifies callers.
type Service struct {
	store hub.Store
	keys  Keys
	opts  Options
}

// New returns a Service that reads peers and projects from store. opts may be nil.
func New(store hub.Store, keys Keys, opts *Options) *Service {
	s := &Service{store: store, keys: keys}
	if opts != nil {
		s.opts = *opts
	}
	if s.opts.Clock == nil {
		s.opts.Clock = time.Now
	}
	return s
}

// Credentials are the members of a request that name its sender.
type Credentials struct {
	Bearer  string     // a key or a project token
	AgentID coord.AID  // the sender's claim
	Token   string     // a project token
	Source  netip.Addr // the address of the sender
	Socket  bool       // the request came through the socket in the hub's home
	Process int        // the number of the process at the other end of the socket; 0 if it is not known
	Session string     // groups calls of the sender; proves nothing
}

// Identify returns the sender of a request. It reports CodeUnauthenticated for
// an unknown sender and CodeTampering for one that claims another's name. With
// an error it returns a guest, with an ID if the journal can name the sender.
func (s *Service) Identify(ctx context.Context, c Credentials) (hub.Caller, error) {
	caller, err := s.identify(ctx, "callers.Identify", c)
	if err != nil {
		caller = hub.Caller{Kind: hub.CallerGuest, ID: caller.ID, Access: coord.AccessNone}
	}
	caller.Source, caller.Session = c.Source, c.Session
	return caller, err
}

func (s *Service) identify(ctx context.Context, op string, c Credentials) (hub.Caller, error) {
	if strings.HasPrefix(c.Bearer, "eyJ") && c.Token == "" {
		c.Bearer, c.Token = "", c.Bearer // a token that was sent as a key
	}
	var v hub.Caller
	var err error
	switch {
	case c.Bearer != "":
		v, err = s.byKey(ctx, op, c)
	case c.Token != "":
	case s.opts.Open:
		return s.byClaim(ctx, c)
	case c.AgentID != "":
		v, err = s.byName(ctx, op, c)
	default:
		err = hub.Errorf(hub.CodeUnauthenticated, op, "no key was given").WithHint("send a key as a bearer token, or a project token as X-Project-Token")
	}
	if err != nil || c.Token == "" {
		return v, err
	}
	return s.narrow(ctx, op, v, c)
}

// byClaim believes the name in a request, on an open hub.
func (s *Service) byClaim(ctx context.Context, c Credentials) (hub.Caller, error) {
	caller := hub.OutsideCaller(hub.CallerAnyone, c.AgentID, coord.AccessFull)
	p, err := s.peer(ctx, func(r hub.Reader) (hub.Peer, error) { return r.Peer(c.AgentID) })
	switch {
	case err == nil:
		caller.Kind = hub.CallerPeer
		caller.Native = p.Native
		caller.Scope = p.Grants
	case hub.CodeOf(err) != hub.CodeNotFound:
		return hub.Caller{}, err
	}
	return caller, nil
}

// peer reads a peer from the store.
func (s *Service) peer(ctx context.Context, read func(hub.Reader) (hub.Peer, error)) (p hub.Peer, err error) {
	if p, err = hub.Read(ctx, s.store, read); err != nil {
		err = fmt.Errorf("callers: read the peer: %w", err)
	}
	return p, err
}

// byKey returns the holder of a key: an agent of this hub, or a peer.
func (s *Service) byKey(ctx context.Context, op string, c Credentials) (hub.Caller, error) {
	// The token of a login stands for a key that was proved without sending it.
	if handshake.IsToken(c.Bearer) && s.opts.Login != nil {
		hash, err := s.opts.Login.KeyHash(c.Bearer)
		if err != nil {
			return hub.Caller{}, err
		}
		return s.keys.ByHash(ctx, hash)
	}

	caller, unknown := s.keys.Authenticate(ctx, c.Bearer)
	operatorOverPort := unknown == nil && caller.IsOperator() && s.opts.Login != nil && !c.Socket
	if operatorOverPort {
		return caller, hub.Errorf(hub.CodeUnauthenticated, op, "the operator's key is not accepted over a port, where another program could read it").
			WithHint("use the socket hub.sock in the hub's home, or the parley command with --as-operator, which proves the key without sending it")
	}
	if unknown == nil && caller.Kind == hub.CallerWindow {
		return s.window(op, c, caller)
	}
	if unknown == nil {
		return caller, matches(op, c.AgentID, caller.AID, coord.AID(caller.ID))
	}
	if hub.CodeOf(unknown) != hub.CodeUnauthenticated {
		return hub.Caller{}, unknown
	}

	// A key of no agent may be that of a peer.
	p, err := s.peer(ctx, func(r hub.Reader) (hub.Peer, error) { return r.PeerByKey(hub.HashSecret(c.Bearer)) })
	if hub.CodeOf(err) == hub.CodeNotFound {
		return hub.Caller{}, unknown
	}
	if err != nil {
		return hub.Caller{}, err
	}

	caller = hub.OutsideCaller(hub.CallerPeer, p.AID, p.Access)
	caller.Native, caller.Scope = p.Native, p.Grants
	if p.State != hub.PeerApproved {
		return caller, hub.Errorf(hub.CodeUnauthenticated, op, "%s is not an approved peer of this hub", p.AID).
			WithHint("the operator approves it with: parley peer approve %s", p.AID)
	}
	return caller, matches(op, c.AgentID, p.AID)
}

// window returns a window, unless its request came over a port or from a process that an agent
// started: agents may read files of their user, and so the window's key.
func (s *Service) window(op string, c Credentials, caller hub.Caller) (hub.Caller, error) {
	switch agent, name := caller.Window(); {
	case !c.Socket:
		return caller, hub.Errorf(hub.CodeUnauthenticated, op, "the key of a window is not accepted over a port, where another program could read it").
			WithHint("use the socket hub.sock in the hub's home, as parley acp serve does")
	case s.opts.BelowAgent != nil && s.opts.BelowAgent(c.Process):
		return caller, hub.Errorf(hub.CodeDenied, op, "the window %q of %s cannot be used by a process that an agent started", name, agent)
	}
	return caller, nil
}

// matches reports CodeTampering when the name that a request claims is not one
// of the names of its key's holder.
func matches(op string, claimed coord.AID, names ...coord.AID) error {
	if claimed == "" || slices.Contains(names, claimed) {
		return nil
	}
	return hub.Errorf(hub.CodeTampering, op, "the key belongs to %s, but the request names %.100q", names[len(names)-1], claimed)
}

// byName identifies a peer that sends no key: a legacy peer by its address, or a
// peer that the operator approved although it has no key.
func (s *Service) byName(ctx context.Context, op string, c Credentials) (hub.Caller, error) {
	unknown := hub.Errorf(hub.CodeUnauthenticated, op, "no key was given, and %.100q cannot call without one", c.AgentID).
		WithHint("exchange keys: run parley peer invite on one hub and parley peer join on the other")
	p, err := s.peer(ctx, func(r hub.Reader) (hub.Peer, error) { return r.Peer(c.AgentID) })
	switch {
	case hub.CodeOf(err) == hub.CodeNotFound:
		return hub.Caller{}, unknown
	case err != nil:
		return hub.Caller{}, err
	}
	v := hub.OutsideCaller(hub.CallerPeer, p.AID, p.Access)
	v.Scope = p.Grants
	switch {
	case p.State != hub.PeerApproved || p.KeyHash != "":
		return v, unknown // a peer that has a key must show it
	case p.Legacy != "":
		from, err := netip.ParsePrefix(p.Legacy)
		if err != nil || !from.Contains(c.Source.Unmap().WithZone("")) {
			return v, hub.Errorf(hub.CodeTampering, op, "%s can call without a key only from %s", p.AID, p.Legacy)
		}
		v.Kind, v.Access = hub.CallerLegacyPeer, coord.AccessNone
		return v, nil
	case p.Access == coord.AccessRead:
		return v, nil
	}
	return v, unknown
}

// narrow bounds a caller to its project token.
func (s *Service) narrow(ctx context.Context, op string, v hub.Caller, c Credentials) (hub.Caller, error) {
	t, bounds, err := s.readToken(ctx, op, c.Token)
	if err != nil {
		return v, err
	}

	subject := coord.AID(t.Subject)
	switch {
	case v.AID != "" && v.AID != subject, v.ID != "" && v.AID == "" && coord.AID(v.ID) != subject:
		return v, hub.Errorf(hub.CodeTampering, op, "the project token belongs to %s, but the key does not", subject)
	case c.AgentID != "" && c.AgentID != subject:
		return hub.OutsideCaller(hub.CallerToken, subject, ""), hub.Errorf(hub.CodeTampering, op, "the project token belongs to %s, but the request names %.100q", subject, c.AgentID)
	}

	// Without a key the token alone names the caller; with a key it only narrows the permissions.
	g := coord.Grant{Project: t.Project, Permissions: t.Permissions, Evidence: bounds}
	if v.ID == "" {
		v = hub.OutsideCaller(hub.CallerToken, subject, "")
		if name, ok := s.keys.Local(subject); ok {
			v.ID = name
			agent, _, err := s.keys.Lookup(ctx, name)
			if err == nil && agent.State == hub.AgentPaused {
				err = hub.Errorf(hub.CodeUnauthenticated, op, "%s is paused, so its project tokens are not accepted", name)
			}
			if err != nil {
				return v, err
			}
		}
	} else {
		g.Permissions = slices.DeleteFunc(slices.Clone(g.Permissions), func(p coord.Permission) bool { return !v.Permits(t.Project, p) })
	}

	v.Kind = hub.CallerToken
	v.AID = subject
	v.Scope = []coord.Grant{g}
	v.Token = t.ID
	return v, nil
}

// Admit reports CodeDenied unless the caller may call a method that needs a
// permission in a project. A method that needs "" is for agents of this hub. The
// project is "" for a method that concerns none.
func (s *Service) Admit(c hub.Caller, method string, need coord.Permission, project coord.ProjectID) error {
	const op = "callers.Admit"
	if err := admitKind(op, c, method, need); err != nil {
		return err
	}

	who := "the invite of " + string(c.AID)
	if c.Kind == hub.CallerToken {
		who = "the project token of " + string(c.AID)
	}
	// Caller.Permits owns the rule that a grant is for one project. This error says so.
	_, part := coord.GrantIn(c.Scope, project)
	scoped := c.Scope != nil
	if scoped && project != "" && !part {
		return hub.Errorf(hub.CodeDenied, op, "%s is not for project %.128s", who, project)
	}
	// A method that needs to write and names no project makes one.
	makesProject := project == "" && need == coord.PermitWrite
	if !c.Permits(project, need) || (scoped && makesProject) {
		return hub.Errorf(hub.CodeDenied, op, "%s does not permit %s", who, method)
	}
	return nil
}

// admitKind reports CodeDenied unless callers of the kind and with the trust of c may call a
// method, whatever was granted to them.
func admitKind(op string, c hub.Caller, method string, need coord.Permission) error {
	token := c.Kind == hub.CallerToken
	legacy := c.Kind == hub.CallerLegacyPeer
	ofPeers := need == coord.PermitSync || need == coord.PermitCompare
	switch {
	case legacy && need != coord.PermitSync:
		return hub.Errorf(hub.CodeDenied, op, "%s calls without a key and can only sync", c.AID)
	case need == "" && c.Outside(): // a token is refused later: no grant holds the permission ""
		return hub.Errorf(hub.CodeDenied, op, "only agents of this hub with their own keys can call %s", method)
	case ofPeers && (token || c.Local()):
		return hub.Errorf(hub.CodeDenied, op, "only peers can call %s", method)
	case token || legacy:
		return nil // they have no trust
	}

	switch {
	case c.Access == coord.AccessRead && need != coord.PermitRead:
		return hub.Errorf(hub.CodeDenied, op, "%s has not exchanged keys and can only read", c.AID).
			WithHint("exchange keys: run parley peer invite on one hub and parley peer join on the other")
	case c.Access != coord.AccessFull && c.Access != coord.AccessRead:
		return hub.Errorf(hub.CodeDenied, op, "%s is not trusted", c.AID)
	}
	return nil
}

// Source reports CodeTampering unless a copy names its sender as its source, or
// no source.
func (s *Service) Source(c hub.Caller, source coord.AID) error {
	isAnonymous := s.opts.Open && c.AID == ""
	if source == "" || source == c.AID || isAnonymous {
		return nil
	}
	return hub.Errorf(hub.CodeTampering, "callers.Source", "%s sent a copy in the name of %.100q", c.AID, source)
}

package coordination

import (
	"cmp"
	"context"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/federation"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/callers"
	"github.com/parley-agents/parley/internal/service/peers"
)

// InviteParams are the parameters of cacp/invite/create.
type InviteParams struct {
	InProject
	Repo        string             `json:"repoName"`
	Permissions []coord.Permission `json:"permissions,omitempty"`
	ActsFor     []coord.AID        `json:"actsFor,omitempty"` // agents outside of its domain that the guest may be or act for
	TTLS        int64              `json:"ttlS,omitempty"`    // seconds; default a day
}

// Invited is the answer to cacp/invite/create. The text is in it this once.
type Invited struct {
	hub.Invite
	Text string `json:"invite"`
	Hub  string `json:"hub,omitempty"` // where to redeem it
}

func createInvite(ctx context.Context, s *Services, c hub.Caller, p InviteParams) (Invited, error) {
	if err := required("cacp/invite/create", "repoName", p.Repo); err != nil {
		return Invited{}, err
	}
	life, err := seconds("cacp/invite/create", p.TTLS)
	if err != nil {
		return Invited{}, err
	}
	in, text, err := s.Peers.Invite(ctx, c, peers.NewInvite{Project: p.Project, Repo: p.Repo, Permissions: p.Permissions, ActsFor: p.ActsFor, Life: life})
	return Invited{in, text, s.Peers.Home()}, err
}

// seconds reads a span of time.
func seconds(op string, n int64) (time.Duration, error) {
	const year = 366 * 24 * 3600
	if n < 0 || n > year {
		return 0, hub.Errorf(hub.CodeInvalid, op, "ttlS must be between 0 and %d, got %d", year, n)
	}
	return time.Duration(n) * time.Second, nil
}

// InviteID are the parameters of cacp/invite/revoke.
type InviteID struct {
	ID string `json:"inviteId"`
}

func revokeInvite(ctx context.Context, s *Services, c hub.Caller, p InviteID) (hub.Invite, error) {
	return s.Peers.RevokeInvite(ctx, c, p.ID)
}

// InvitesParams are the parameters of cacp/invite/list.
type InvitesParams struct {
	Project coord.ProjectID `json:"projectId,omitempty"`
}

// Invites is the answer to cacp/invite/list.
type Invites struct {
	Invites []hub.Invite `json:"invites"` // newest first
}

func listInvites(ctx context.Context, s *Services, c hub.Caller, p InvitesParams) (Invites, error) {
	found, err := s.Peers.Invites(ctx, c, p.Project)
	return Invites{found}, err
}

// PeerParams are the parameters of methods about one peer. All but those that add
// or approve one read the AID alone.
type PeerParams = peers.NewPeer

// PeerAdded is a peer with the key that it must send, which is in it this once.
type PeerAdded struct {
	PeerChanged
	Key string `json:"key,omitempty"`
}

func addPeer(ctx context.Context, s *Services, c hub.Caller, p PeerParams) (PeerAdded, error) {
	added, key, err := s.Peers.AddPeer(ctx, c, p)
	return PeerAdded{peerChanged(ctx, s, added), key}, err
}

// JoinHubParams are the parameters of parley/peer/join.
type JoinHubParams struct {
	Invite string `json:"invite"`
	Hub    string `json:"hub"`
}

func joinHub(ctx context.Context, s *Services, c hub.Caller, p JoinHubParams) (federation.Welcome, error) {
	if err := required("parley/peer/join", "invite", p.Invite, "hub", p.Hub); err != nil {
		return federation.Welcome{}, err
	}
	return s.Peers.Join(ctx, c, p.Invite, func(ctx context.Context, r federation.Redemption) (federation.Welcome, error) {
		return s.Network.Redeem(ctx, p.Hub, r)
	})
}

// Peers is the answer to parley/peer/list and GET /peers.
type Peers struct {
	Peers []federation.PeerStatus `json:"peers"`
}

func listPeers(ctx context.Context, s *Services, c hub.Caller, _ None) (Peers, error) {
	if _, err := s.Peers.Peers(ctx, c); err != nil { // only the operator may list peers
		return Peers{}, err
	}
	all, err := s.Network.Standings(ctx)
	return Peers{all}, err
}

// None are the parameters of a method that has none.
type None struct{}

// PeerChanged is the answer to operations that change a peer.
type PeerChanged struct {
	Peer federation.PeerStatus `json:"peer"`
}

// peerChanged shows a peer after a change. If the store cannot be read again, its proofs
// are left out; the change stands.
func peerChanged(ctx context.Context, s *Services, p hub.Peer) PeerChanged {
	out := PeerChanged{federation.PeerStatus{Peer: p, Trust: federation.TrustIn(p, federation.Identity{})}}
	all, _ := s.Network.Standings(ctx)
	for _, st := range all {
		if st.AID == p.AID {
			out.Peer = st
		}
	}
	return out
}

func approvePeer(ctx context.Context, s *Services, c hub.Caller, p PeerParams) (PeerChanged, error) {
	got, err := s.Peers.ApprovePeer(ctx, c, p.AID, p.ActsFor...)
	return peerChanged(ctx, s, got), err
}

func removePeer(ctx context.Context, s *Services, c hub.Caller, p PeerParams) (PeerChanged, error) {
	got, err := s.Peers.RemovePeer(ctx, c, p.AID)
	return peerChanged(ctx, s, got), err
}

// PeerNames is the answer to parley/peer/sync.
type PeerNames struct {
	Peers []coord.AID `json:"peers"` // that the hub compares with now
}

func syncPeer(ctx context.Context, s *Services, c hub.Caller, p PeerParams) (PeerNames, error) {
	peers, err := s.Peers.Peers(ctx, c)
	if err != nil {
		return PeerNames{}, err
	}
	out := PeerNames{[]coord.AID{}}
	for _, peer := range peers {
		isWanted := p.AID == peer.AID
		if p.AID == "" {
			isWanted = peer.State == hub.PeerApproved
		}
		if !isWanted {
			continue
		}
		if err := s.Network.Compare(peer.AID); err != nil {
			return out, err
		}
		out.Peers = append(out.Peers, peer.AID)
		if err := s.Peers.Note(ctx, c, actions.PeerSync, string(peer.AID), map[string]any{}); err != nil {
			return out, err
		}
	}
	if p.AID != "" && len(out.Peers) == 0 {
		return out, hub.Errorf(hub.CodeNotFound, "parley/peer/sync", "no peer with id %.100s", p.AID).WithHint("run \"parley peer list\" to list the peers")
	}
	return out, nil
}

// TokenParams are the parameters of parley/project/token.
type TokenParams struct {
	InProject
	Agent       string             `json:"agent"` // name of an agent here, or an AID
	RepoID      coord.RepoID       `json:"repoId,omitempty"`
	Permissions []coord.Permission `json:"permissions,omitempty"`
	TTLS        int64              `json:"ttlS,omitempty"` // seconds; default a day

	// A token with the permission evidence sends results of these checks of one repository.
	Repo   string   `json:"repo,omitempty"`
	Checks []string `json:"check,omitempty"`
	Branch string   `json:"branch,omitempty"` // that work lands in, if the results are those of that branch
}

// bounds returns the bounds of a token that sends results of tests, nil for another one.
func (p TokenParams) bounds() *coord.EvidenceBounds {
	if p.Repo == "" && len(p.Checks) == 0 && p.Branch == "" {
		return nil
	}
	return &coord.EvidenceBounds{Repo: p.Repo, Checks: p.Checks, Branch: p.Branch}
}

// Token is a project token. It is shown this once.
type Token struct {
	Token     string        `json:"token"`
	ID        string        `json:"jti"` // that lists and the journal have
	Agent     coord.AID     `json:"agentId"`
	ExpiresAt coord.Instant `json:"expiresAt"`
	Note      string        `json:"note,omitempty"` // on names of checks that this hub does not have
}

func mintToken(ctx context.Context, s *Services, c hub.Caller, p TokenParams) (Token, error) {
	if err := required("parley/project/token", "agent", p.Agent); err != nil {
		return Token{}, err
	}
	life, err := seconds("parley/project/token", p.TTLS)
	if err != nil {
		return Token{}, err
	}
	agent := coord.AID(p.Agent)
	if id := hub.AgentID(p.Agent); id.Valid() {
		if aid := s.Keys.AID(id); aid != "" {
			agent = aid
		}
	}
	token, made, err := s.Callers.MintToken(ctx, c, callers.NewToken{Agent: agent, Project: p.Project, Repo: p.RepoID, Permissions: p.Permissions, Life: life, Evidence: p.bounds()})
	if err != nil {
		return Token{}, err
	}
	out := Token{Token: token, ID: made.ID, Agent: agent, ExpiresAt: coord.InstantAt(made.ExpiresAt.Time)}
	if p.Repo != "" {
		out.Note, err = s.Contracts.UnknownChecks(ctx, p.Project, p.Repo, p.Checks)
	}
	return out, err
}

// TokensParams are the parameters of parley/token/list.
type TokensParams struct {
	Project coord.ProjectID `json:"projectId,omitempty"` // default all
}

// Tokens is the answer to parley/token/list.
type Tokens struct {
	Tokens []hub.Token `json:"tokens"` // newest first
}

func listTokens(ctx context.Context, s *Services, c hub.Caller, p TokensParams) (Tokens, error) {
	found, err := s.Callers.Tokens(ctx, c, p.Project)
	return Tokens{found}, err
}

// TokenID are the parameters of parley/token/revoke.
type TokenID struct {
	ID string `json:"jti"`
}

func revokeToken(ctx context.Context, s *Services, c hub.Caller, p TokenID) (hub.Token, error) {
	if err := required("parley/token/revoke", "jti", p.ID); err != nil {
		return hub.Token{}, err
	}
	return s.Callers.RevokeToken(ctx, c, p.ID)
}

// SearchParams are the parameters of parley/discover.
type SearchParams struct{ Search }

// Discovered is the answer to parley/discover.
type Discovered struct {
	Agents []federation.Discovery `json:"agents"`
}

func discover(ctx context.Context, s *Services, c hub.Caller, p SearchParams) (Discovered, error) {
	found, err := s.Network.Discover(ctx, p.Search)
	if err == nil {
		err = s.Peers.Note(ctx, c, actions.Discovered, cmp.Or(p.Exchange, "exchange"), map[string]any{"query": p.Query, "role": p.Role, "found": len(found)})
	}
	return Discovered{found}, err
}

// ExchangeParams are the parameters of parley/peer/enlist.
type ExchangeParams struct {
	Exchange string `json:"exchange,omitempty"` // default the one that is configured
}

func enlist(ctx context.Context, s *Services, c hub.Caller, p ExchangeParams) (federation.Registration, error) {
	out, err := s.Network.Enlist(ctx, p.Exchange)
	if err == nil {
		err = s.Peers.Note(ctx, c, actions.Enlisted, cmp.Or(p.Exchange, "exchange"), map[string]any{"agent": out.AID, "existed": out.Existed})
	}
	return out, err
}

// Announced is the answer to cacp/peer/announce.
type Announced struct {
	Status string    `json:"status"`
	AID    coord.AID `json:"myAgentId"`
	Repo   string    `json:"myRepoName"`
}

func announce(_ context.Context, s *Services, _ hub.Caller, _ None) (Announced, error) {
	return Announced{"acknowledged", s.Self, s.Repo}, nil
}

// redeemOperation defines the one operation that needs no key: a hub that has an
// invite redeems it, and gets its key.
func redeemOperation() op[federation.Redemption, federation.Welcome] {
	o := op[federation.Redemption, federation.Welcome]{Spec: spec("cacp/invite/redeem", "", "Redeem an invite and exchange keys."),
		Do: func(ctx context.Context, s *Services, c hub.Caller, r federation.Redemption) (federation.Welcome, error) {
			return s.Peers.Redeem(ctx, c, r)
		}}
	o.Callers = rpc.Everybody
	o.Deadline = rpc.Elsewhere
	return o
}

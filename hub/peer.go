package hub

import (
	"slices"

	"github.com/parley-agents/parley/hub/coord"
)

// A PeerState says whether changes are exchanged with a peer.
type PeerState string

// The states.
const (
	PeerPending  PeerState = "pending"  // registered; waits for the operator's approval
	PeerApproved PeerState = "approved" // changes go out to it and come in from it
	PeerRemoved  PeerState = "removed"  // its requests are refused
)

// PeerStates lists every state.
var PeerStates = []PeerState{PeerPending, PeerApproved, PeerRemoved}

// peerNext is the whole state machine.
var peerNext = map[PeerState][]PeerState{
	PeerPending:  {PeerApproved, PeerRemoved},
	PeerApproved: {PeerRemoved},
	PeerRemoved:  {PeerPending, PeerApproved},
}

// CanBecome reports whether a peer in state s may move to next.
func (s PeerState) CanBecome(next PeerState) bool { return slices.Contains(peerNext[s], next) }

// A PeerHealth is the outcome of the last call to a peer; "" if it was never called.
type PeerHealth string

// The healths.
const (
	HealthUp   PeerHealth = "up"   // it answered
	HealthDown PeerHealth = "down" // it did not answer; a probe tries again
)

// A Peer is another hub, or another agent that keeps projects of its own.
type Peer struct {
	AID      coord.AID    `json:"agentId"`
	Endpoint string       `json:"endpoint"`
	Repo     string       `json:"repoName,omitempty"`
	State    PeerState    `json:"state"`
	Access   coord.Access `json:"-"`

	// Legacy marks a peer that cannot send a key: it may sync, and nothing
	// else, from this address alone.
	Legacy string `json:"legacyAddress,omitempty"`
	Native bool   `json:"native,omitempty"` // another Parley hub, which keeps our additions to the protocol

	// Grants are the projects that the peer takes part in, those of its invites,
	// with its permissions in each. A peer with nil takes part in all projects, with
	// every permission: the operator added it without an invite.
	Grants []coord.Grant `json:"grants,omitempty"`
	// ActsFor lists agents outside of the peer's own domain for which the operator
	// lets it act.
	ActsFor []coord.AID `json:"actsFor,omitempty"`

	KeyHash string `json:"-"` // of the key that it sends; see HashSecret
	Sealed  string `json:"-"` // the key that we send, encrypted

	Health  PeerHealth    `json:"health"`
	Fails   int           `json:"failures,omitempty"` // calls in a row that failed
	Fault   string        `json:"fault,omitempty"`    // why the last call failed
	Seen    coord.Instant `json:"lastSeen,omitzero"`  // when it last answered
	AddedAt coord.Instant `json:"addedAt"`
}

// Reads reports whether the peer may read a project.
func (p Peer) Reads(project coord.ProjectID) bool {
	g, ok := coord.GrantIn(p.Grants, project)
	return p.Grants == nil || (ok && g.Permits(coord.PermitRead))
}

// WorksOnContracts reports whether the peer may propose, answer or implement contracts
// of a project. A guest that may not only reads them.
func (p Peer) WorksOnContracts(project coord.ProjectID) bool {
	if p.Grants == nil {
		return true
	}
	g, invited := coord.GrantIn(p.Grants, project)
	return invited && (g.Host || slices.ContainsFunc([]coord.Permission{coord.PermitPropose, coord.PermitRespond, coord.PermitImplement}, g.Permits))
}

// MayActFor reports whether the peer may act for an agent: for itself, for agents of
// its domain, and for those that the operator named.
func (p Peer) MayActFor(aid coord.AID) bool {
	domain, _ := p.AID.Split()
	other, _ := aid.Split()
	return aid != "" && (p.AID.Same(aid) || (domain != "" && domain == other) || slices.Contains(p.ActsFor, aid))
}

// An Outbox is the position of a peer in the log of changes: every change after
// Sent still has to be sent to it.
type Outbox struct {
	Peer    coord.AID     `json:"peer"`
	Sent    int64         `json:"sent"`            // the last change that the peer has
	CatchUp bool          `json:"catchUp"`         // projects must be compared as a whole, because changes before Sent were trimmed
	Tries   int           `json:"tries,omitempty"` // for the change after Sent
	NextTry coord.Instant `json:"nextTry,omitzero"`
	Fault   string        `json:"fault,omitempty"`
}

// A DeadLetter is a change that was given up after a peer refused it for too
// long. A comparison of whole projects may still bring it there.
type DeadLetter struct {
	Peer   coord.AID     `json:"peer"`
	Change Change        `json:"change"`
	Fault  string        `json:"fault"`
	At     coord.Instant `json:"at"`
}

// An Invite admits one agent, once, to one repository of one project.
type Invite struct {
	ID          string             `json:"id"`   // names it; not secret
	Hash        string             `json:"-"`    // of the text that was given out
	Hint        string             `json:"hint"` // the text's last characters
	Project     coord.ProjectID    `json:"projectId"`
	Repo        string             `json:"repoName"`
	Permissions []coord.Permission `json:"permissions"`
	ActsFor     []coord.AID        `json:"actsFor,omitempty"` // agents outside of its domain that the guest may be or act for
	By          AgentID            `json:"createdBy"`
	CreatedAt   coord.Instant      `json:"createdAt"`
	ExpiresAt   coord.Instant      `json:"expiresAt"`
	RedeemedAt  coord.Instant      `json:"redeemedAt,omitzero"`
	RedeemedBy  coord.AID          `json:"redeemedBy,omitempty"`
	RevokedAt   coord.Instant      `json:"revokedAt,omitzero"`
}

// Live reports whether the invite can be redeemed at the given time.
func (i Invite) Live(now coord.Instant) bool {
	return i.RedeemedAt.IsZero() && i.RevokedAt.IsZero() && now.Compare(i.ExpiresAt) < 0
}

// A ChangeKind is the kind of thing that a change is about.
type ChangeKind string

// The kinds.
const (
	ChangeProject  ChangeKind = "project"
	ChangeRepo     ChangeKind = "repo"
	ChangeContract ChangeKind = "contract"
	ChangePacket   ChangeKind = "context"
)

// A Change marks a thing of a project as changed. It carries no content: the
// sender reads the thing itself, so that several changes become one copy.
type Change struct {
	Seq     int64           `json:"seq"` // given by the store; rises
	Project coord.ProjectID `json:"projectId"`
	Kind    ChangeKind      `json:"kind"`
	Object  string          `json:"object"`            // id within the project
	Version int             `json:"version,omitempty"` // of a contract
	At      Time            `json:"at,omitzero"`
	Origin  coord.AID       `json:"origin,omitempty"` // the peer that it came from; "" for this hub
}

package hub

import "slices"

// An AID names an agent across hubs: aid://domain/name@version, or, for peers
// that have no better, a plain name.
type AID string

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

// A TrustLevel says how well the identity of a peer is known.
type TrustLevel string

// The levels.
const (
	TrustVerified TrustLevel = "verified" // found in the exchange and has a key: full access
	TrustKnown    TrustLevel = "known"    // found in the exchange, no key: may read
	TrustUnknown  TrustLevel = "unknown"  // nothing
)

// TrustLevels lists every level, most trusted first.
var TrustLevels = []TrustLevel{TrustVerified, TrustKnown, TrustUnknown}

// A PeerHealth is the outcome of the last call to a peer.
type PeerHealth string

// The healths.
const (
	HealthUnknown PeerHealth = ""     // never called
	HealthUp      PeerHealth = "up"   // it answered
	HealthDown    PeerHealth = "down" // it did not answer; a probe tries again
)

// A Peer is another hub, or another agent that keeps projects of its own.
type Peer struct {
	AID      AID        `json:"agentId"`
	Endpoint string     `json:"endpoint"`
	Repo     string     `json:"repoName,omitempty"`
	State    PeerState  `json:"state"`
	Trust    TrustLevel `json:"trust"`

	// Legacy marks a peer that cannot send a key: it may sync, and nothing
	// else, from this address alone.
	Legacy string `json:"legacyAddress,omitempty"`
	Native bool   `json:"native,omitempty"` // another Parley hub, which keeps our additions to the protocol

	KeyHash string `json:"-"` // of the key that it sends; see HashSecret
	Sealed  string `json:"-"` // the key that we send, encrypted

	Health  PeerHealth `json:"health"`
	Fails   int        `json:"failures,omitempty"` // calls in a row that failed
	Fault   string     `json:"fault,omitempty"`    // why the last call failed
	Seen    Instant    `json:"lastSeen,omitzero"`  // when it last answered
	AddedAt Instant    `json:"addedAt"`
}

// An Outbox is the position of a peer in the log of changes: every change after
// Sent still has to be sent to it.
type Outbox struct {
	Peer    AID     `json:"peer"`
	Sent    int64   `json:"sent"`            // the last change that the peer has
	CatchUp bool    `json:"catchUp"`         // projects must be compared as a whole, because changes before Sent were trimmed
	Tries   int     `json:"tries,omitempty"` // for the change after Sent
	NextTry Instant `json:"nextTry,omitzero"`
	Fault   string  `json:"fault,omitempty"`
}

// A DeadLetter is a change that was given up after a peer refused it for too
// long. A comparison of whole projects may still bring it there.
type DeadLetter struct {
	Peer   AID     `json:"peer"`
	Change Change  `json:"change"`
	Fault  string  `json:"fault"`
	At     Instant `json:"at"`
}

// An Invite admits one agent, once, to one repository of one project.
type Invite struct {
	ID          string       `json:"id"`   // names it; not secret
	Hash        string       `json:"-"`    // of the text that was given out
	Hint        string       `json:"hint"` // the text's last characters
	Project     ProjectID    `json:"projectId"`
	Repo        string       `json:"repoName"`
	Permissions []Permission `json:"permissions"`
	By          AgentID      `json:"createdBy"`
	CreatedAt   Instant      `json:"createdAt"`
	ExpiresAt   Instant      `json:"expiresAt"`
	RedeemedAt  Instant      `json:"redeemedAt,omitzero"`
	RedeemedBy  AID          `json:"redeemedBy,omitempty"`
	RevokedAt   Instant      `json:"revokedAt,omitzero"`
}

// Live reports whether the invite can be redeemed at the given time.
func (i Invite) Live(now Instant) bool {
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
	Seq     int64      `json:"seq"` // given by the store; rises
	Project ProjectID  `json:"projectId"`
	Kind    ChangeKind `json:"kind"`
	Object  string     `json:"object"`            // id within the project
	Version int        `json:"version,omitempty"` // of a contract
	At      Time       `json:"at"`
	Origin  AID        `json:"origin,omitempty"` // the peer that it came from; "" for this hub
}

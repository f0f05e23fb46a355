package federation

import (
	"cmp"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
)

// A Trust says how far this hub checked that a peer is the one that its id names. It
// permits nothing: keys and grants do.
type Trust string

// The words.
const (
	TrustVerified Trust = "verified" // this hub checked the peer's Identity
	TrustKnown    Trust = "known"    // the operator added, invited or approved it; its id is unproven
	TrustOpen     Trust = "open"     // it registered itself, or it was removed
)

// A Proof is the outcome of one check of an identity.
type Proof struct {
	State  ProofState `json:"state"`
	Reason string     `json:"reason,omitempty"` // of a check that failed
}

// A ProofState is the outcome in one word.
type ProofState string

// The outcomes.
const (
	ProofUnchecked ProofState = "unchecked"
	ProofPassed    ProofState = "passed"
	ProofFailed    ProofState = "failed"
	ProofAbsent    ProofState = "absent" // there is nothing to check
)

// String returns the outcome and its reason.
func (p Proof) String() string {
	if p.Reason == "" {
		return string(p.State)
	}
	return string(p.State) + ": " + p.Reason
}

// An Identity is what this hub found when it checked the id of a peer. The store keeps it
// beside the peer, under IdentityKey.
type Identity struct {
	Manifest  Proof `json:"manifest"`  // on the domain of the id; it names the id and the endpoint
	Signature Proof `json:"signature"` // of the manifest, by the key that the manifest names
	DNS       Proof `json:"dns"`       // the entry of the domain, which names the same key

	// Listed is the word of the exchange in which the operator found the peer: verified or
	// unverified. It is empty for a peer that was not found in an exchange.
	Listed string `json:"listed,omitempty"`

	// Keyed reports whether the peer took the key of this hub at Endpoint. Without it, a
	// guest could give the id and the endpoint of another hub.
	Keyed    bool          `json:"keyed,omitempty"`
	Endpoint string        `json:"endpoint,omitempty"` // that was checked
	Key      string        `json:"key,omitempty"`      // sha256: and the hash of the key that signed
	At       coord.Instant `json:"at,omitzero"`
}

// The words of an exchange about an entry.
const (
	ListedVerified   = "verified"
	ListedUnverified = "unverified"
)

// IdentityKey is the key of the fact with the identity of a peer.
func IdentityKey(peer coord.AID) string { return "peer.identity/" + string(peer) }

// ReadIdentity returns what this hub found about the id of a peer at its present endpoint.
func ReadIdentity(r hub.MetaReader, p hub.Peer) (Identity, error) {
	id, err := hub.ReadMeta[Identity](r, IdentityKey(p.AID))
	if id.Endpoint != p.Endpoint {
		id = Identity{Listed: id.Listed} // the peer moved
	}
	for _, proof := range []*Proof{&id.Manifest, &id.Signature, &id.DNS} {
		proof.State = cmp.Or(proof.State, ProofUnchecked)
	}
	return id, err
}

// TrustIn returns the word for a peer with an identity.
func TrustIn(p hub.Peer, id Identity) Trust {
	byOperator := p.KeyHash != "" || p.Legacy != "" || p.Access == coord.AccessRead
	proven := id.Manifest.State == ProofPassed && id.Signature.State == ProofPassed && (id.DNS.State == ProofPassed || id.DNS.State == ProofAbsent)
	switch {
	case p.State != hub.PeerApproved || !byOperator:
		return TrustOpen
	case p.KeyHash != "" && proven && id.Keyed && id.Listed != ListedUnverified:
		return TrustVerified
	}
	return TrustKnown
}

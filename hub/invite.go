package hub

// The actions about other hubs and who may come in.
const (
	ActionPeerAdded      Action = "peer.added"      // by the operator, or with an invite
	ActionPeerRegistered Action = "peer.registered" // by itself; it waits for the operator
	ActionPeerMoved      Action = "peer.moved"      // to another endpoint
	ActionPeerKeySet     Action = "peer.key_set"    // the key that we send
	ActionPeerApproved   Action = "peer.approved"
	ActionPeerRemoved    Action = "peer.removed"
	ActionInviteMade     Action = "invite.made"
	ActionInviteRedeemed Action = "invite.redeemed"
	ActionInviteRevoked  Action = "invite.revoked"
	ActionTokenMinted    Action = "token.minted"
)

// A Redemption is what a hub sends with an invite: who it is, and the key that
// it expects from the hub that invited it.
type Redemption struct {
	Invite   string `json:"invite"`
	AID      AID    `json:"agentId"`
	Endpoint string `json:"endpoint"`
	Repo     string `json:"repoName"`
	Key      string `json:"key"` // secret
}

// A Welcome is the answer to a Redemption: who the inviting hub is, what the
// invite was for, and the key that it expects from now on.
type Welcome struct {
	AID         AID       `json:"agentId"`
	Endpoint    string    `json:"endpoint"`
	Repo        string    `json:"repoName"`
	Project     ProjectID `json:"projectId"`
	ForRepo     string    `json:"forRepo"` // the repository that the guest may claim
	Permissions []string  `json:"permissions"`
	Key         string    `json:"key"` // secret
}

// TopicPeers is where a hint goes after a change to who the peers are.
const TopicPeers = "peers"

package hub

// The actions about other hubs, invites and tokens.
const (
	ActionPeerAdded      Action = "peer.added"      // by the operator, or with an invite
	ActionPeerRegistered Action = "peer.registered" // by itself; it waits for the operator
	ActionPeerMoved      Action = "peer.moved"      // to another endpoint
	ActionPeerApproved   Action = "peer.approved"
	ActionPeerRemoved    Action = "peer.removed"
	ActionInviteMade     Action = "invite.made"
	ActionInviteRedeemed Action = "invite.redeemed"
	ActionInviteRevoked  Action = "invite.revoked"
	ActionTokenMinted    Action = "token.minted"
)

// TopicPeers is the bus topic of hints about added, changed and removed peers.
const TopicPeers = "peers"

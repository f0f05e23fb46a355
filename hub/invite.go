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
	ActionTokenRevoked   Action = "token.revoked" // by the operator, or with its agent or peer
	ActionTokenUsed      Action = "token.used"    // several uses alike are one entry with a count
)

// A Token is a project token as the hub remembers it. The token itself is not
// stored.
type Token struct {
	ID          string       `json:"jti"`
	Agent       AID          `json:"agentId"`
	Project     ProjectID    `json:"projectId"`
	Permissions []Permission `json:"permissions"`
	By          AgentID      `json:"createdBy"`
	CreatedAt   Time         `json:"createdAt,omitzero"`
	ExpiresAt   Time         `json:"expiresAt,omitzero"`
	RevokedAt   Time         `json:"revokedAt,omitzero"`
}

// RevokeTokens revokes the live project tokens of an agent that was paused, revoked
// or removed, with a journal entry for each.
func RevokeTokens(tx Tx, actor Caller, agent AID, at Time) error {
	if agent == "" {
		return nil
	}
	ids, err := tx.RevokeTokens(agent, "", at)
	for _, id := range ids {
		if err == nil {
			_, err = tx.Append(actor.Entry(at, ActionTokenRevoked, id, map[string]any{"agent": agent}))
		}
	}
	return err
}

// TopicPeers is the bus topic of hints about added, changed and removed peers.
const TopicPeers = "peers"

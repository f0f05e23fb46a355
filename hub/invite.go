package hub

import (
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/hub/coord"
)

// A Token is a project token as the hub remembers it. The token itself is not
// stored.
type Token struct {
	ID          string             `json:"jti"`
	Agent       coord.AID          `json:"agentId"`
	Project     coord.ProjectID    `json:"projectId"`
	Permissions []coord.Permission `json:"permissions"`
	By          AgentID            `json:"createdBy"`
	CreatedAt   Time               `json:"createdAt,omitzero"`
	ExpiresAt   Time               `json:"expiresAt,omitzero"`
	RevokedAt   Time               `json:"revokedAt,omitzero"`

	Evidence *coord.EvidenceBounds `json:"evidence,omitempty"` // bounds of a token that sends results of tests
}

// RevokeTokens revokes the live project tokens of an agent that was paused, revoked
// or removed, with a journal entry for each.
func RevokeTokens(tx Tx, actor Caller, agent coord.AID, at Time) error {
	if agent == "" {
		return nil
	}
	ids, err := tx.RevokeTokens(agent, "", at)
	for _, id := range ids {
		if err == nil {
			_, err = tx.Append(actor.Entry(at, actions.TokenRevoked, id, map[string]any{"agent": agent}))
		}
	}
	return err
}

// TopicPeers is the bus topic of hints about added, changed and removed peers.
const TopicPeers = "peers"

package keys

import (
	"github.com/parley-agents/parley/hub"
)

// Lend makes a key for an agent, inside the transaction of another service, that
// is valid until a time, and returns its id and secret. After the commit the
// service calls Changed.
func (s *Service) Lend(tx hub.Tx, actor hub.Caller, agent hub.AgentID, label string, until hub.Time) (hub.KeyID, string, error) {
	key, secret, err := s.makeKey(NewKey{Agent: agent, Label: label})
	if err != nil {
		return "", "", err
	}
	key.ExpiresAt = until
	return key.ID, secret, addKey(tx, actor, key)
}

// Withdraw revokes the key with a label inside the transaction of another
// service, if it is not revoked yet. After the commit the service calls Changed.
func (s *Service) Withdraw(tx hub.Tx, actor hub.Caller, agent hub.AgentID, label string) error {
	_, err := revoke(tx, actor, agent, label, s.clock.Now())
	return err
}

// Enlist adds an agent without a key inside the transaction of another service, if no
// agent has that name yet. After the commit the service calls Changed.
func (s *Service) Enlist(tx hub.Tx, actor hub.Caller, agent hub.Agent) error {
	_, err := tx.Agent(agent.ID)
	if hub.CodeOf(err) != hub.CodeNotFound {
		return err
	}
	if err := complete("keys.Enlist", &agent); err != nil {
		return err
	}
	agent.State, agent.CreatedAt = hub.AgentActive, s.clock.Now()
	return putAgent(tx, actor, agent)
}

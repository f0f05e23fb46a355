package access

import (
	"github.com/parley-agents/parley/hub"
)

// Lend makes a key for an agent, inside the transaction of another service, that
// is good until a time, and returns its id and secret. After the commit the
// service calls Changed.
func (a *Access) Lend(tx hub.Tx, actor hub.Caller, agent hub.AgentID, label string, until hub.Time) (hub.KeyID, string, error) {
	key, secret, err := a.makeKey(NewKey{Agent: agent, Label: label})
	if err != nil {
		return "", "", err
	}
	key.ExpiresAt = until
	return key.ID, secret, addKey(tx, actor, key)
}

// Withdraw revokes the key of that label inside the transaction of another
// service, if it is not revoked yet. After the commit the service calls Changed.
func (a *Access) Withdraw(tx hub.Tx, actor hub.Caller, agent hub.AgentID, label string) error {
	now := a.clock.Now()
	n, err := tx.RevokeKeys(agent, label, now)
	if err != nil || n == 0 {
		return err
	}
	_, err = tx.Append(entry(now, actor, hub.ActionKeyRevoked, string(agent), map[string]any{"label": label, "count": n}))
	return err
}

// Enlist adds an agent without a key, as an executor, inside the transaction of
// another service, if no agent has that name yet.
func (a *Access) Enlist(tx hub.Tx, actor hub.Caller, id hub.AgentID) error {
	_, err := tx.Agent(id)
	if hub.CodeOf(err) != hub.CodeNotFound {
		return err
	}
	agent := hub.Agent{ID: id, Role: hub.RoleExecutor, State: hub.AgentActive, CreatedAt: a.clock.Now()}
	if err := tx.PutAgent(agent, ""); err != nil {
		return err
	}
	_, err = tx.Append(added(actor, agent))
	return err
}

// Changed drops the cached keys, so that Lend, Withdraw and Enlist take effect at
// once.
func (a *Access) Changed() { a.forget() }

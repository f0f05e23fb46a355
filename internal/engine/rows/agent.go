package rows

import "github.com/parley-agents/parley/hub"

var agents = newTable("agents", "agent", "id, role, auditor, state, created_at, can", func(c *codec, a *hub.Agent) {
	c.text((*string)(&a.ID))
	c.text((*string)(&a.Role))
	c.bool(&a.Auditor)
	c.text((*string)(&a.State))
	c.stamp(&a.CreatedAt)
	c.encoded(&a.Can, len(a.Can) == 0)
})

var keys = newTable("agent_keys", "key", "id, agent, label, hash, hint, created_at, expires_at, revoked_at", func(c *codec, k *hub.Key) {
	c.text((*string)(&k.ID))
	c.text((*string)(&k.Agent))
	c.text(&k.Label)
	c.text(&k.Hash)
	c.text(&k.Hint)
	c.stamp(&k.CreatedAt)
	c.time(&k.ExpiresAt)
	c.time(&k.RevokedAt)
})

var (
	agentByID  = agents.query(`WHERE id = ?1`)
	agentsByID = agents.query(`ORDER BY id`)
	putAgent   = statement(`UPDATE agents SET state = ?2, role = ?4 WHERE id = ?1 AND state = ?3`)
	keyByHash  = keys.query(`WHERE hash = ?1`)
	keysOf     = keys.query(`WHERE agent = ?1 ORDER BY created_at, rowid`)
	revokeKeys = statement(`UPDATE agent_keys SET revoked_at = ?3 WHERE agent = ?1 AND revoked_at IS NULL AND label = coalesce(?2, label)`)
)

func (r *reader) Agent(id hub.AgentID) (hub.Agent, error) {
	return agents.one(r, string(id), agentByID, string(id))
}

func (r *reader) Agents() ([]hub.Agent, error) { return agents.all(r, agentsByID) }

func (r *reader) KeyByHash(hash string) (hub.Key, error) {
	return keys.one(r, "with that hash", keyByHash, hash)
}

func (r *reader) Keys(agent hub.AgentID) ([]hub.Key, error) {
	return keys.all(r, keysOf, string(agent))
}

func (t *tx) PutAgent(a hub.Agent, was hub.AgentState) error {
	if was == "" {
		return agents.add(t, string(a.ID), &a)
	}
	return t.compareAndSet("agent", string(a.ID), putAgent, string(a.ID), string(a.State), string(was), string(a.Role))
}

func (t *tx) AddKey(k hub.Key) error {
	err := keys.add(t, `labelled "`+k.Label+`" of `+string(k.Agent), &k)
	if hub.CodeOf(err) == hub.CodeNotFound {
		return notFound(keys.op(), "agent", string(k.Agent))
	}
	return err
}

func (t *tx) RevokeKeys(agent hub.AgentID, label string, at hub.Time) (int, error) {
	n, err := t.run("store.RevokeKeys", revokeKeys, string(agent), orNull(label), at)
	return int(n), err
}

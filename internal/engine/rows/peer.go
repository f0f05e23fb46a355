package rows

import (
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
)

var changes = newTable("changes", "change", "seq, project, kind, object, version, at, origin", func(c *codec, v *hub.Change) {
	c.int64(&v.Seq)
	c.text((*string)(&v.Project))
	c.text((*string)(&v.Kind))
	c.text(&v.Object)
	c.int(&v.Version)
	c.stamp(&v.At)
	c.optional((*string)(&v.Origin))
})

var peers = newTable("peers", "peer", "aid, endpoint, repo, state, trust, legacy, native, key_hash, sealed, health, fails, fault, seen, added_at, grants_json, acts_for_json",
	func(c *codec, p *hub.Peer) {
		c.text((*string)(&p.AID))
		c.text(&p.Endpoint)
		c.optional(&p.Repo)
		c.text((*string)(&p.State))
		c.text((*string)(&p.Access))
		c.optional(&p.Legacy)
		c.bool(&p.Native)
		c.optional(&p.KeyHash)
		c.optional(&p.Sealed)
		c.text((*string)(&p.Health))
		c.int(&p.Fails)
		c.optional(&p.Fault)
		c.instant(&p.Seen)
		c.moment(&p.AddedAt)
		c.encoded(&p.Grants, p.Grants == nil)
		c.encoded(&p.ActsFor, len(p.ActsFor) == 0)
	})

var outboxes = newTable("outboxes", "outbox", "peer, sent, catch_up, tries, next_try, fault", func(c *codec, o *hub.Outbox) {
	c.text((*string)(&o.Peer))
	c.int64(&o.Sent)
	c.bool(&o.CatchUp)
	c.int(&o.Tries)
	c.instant(&o.NextTry)
	c.optional(&o.Fault)
})

var deadLetters = newTable("dead_letters", "dead letter", "peer, change_json, fault, at", func(c *codec, d *hub.DeadLetter) {
	c.text((*string)(&d.Peer))
	c.encoded(&d.Change, false)
	c.text(&d.Fault)
	c.moment(&d.At)
})

var invites = newTable("invites", "invite", "id, hash, hint, project, repo, permissions_json, acts_for_json, created_by, created_at, expires_at, redeemed_at, redeemed_by, revoked_at",
	func(c *codec, i *hub.Invite) {
		c.text(&i.ID)
		c.text(&i.Hash)
		c.text(&i.Hint)
		c.text((*string)(&i.Project))
		c.text(&i.Repo)
		if i.Permissions == nil {
			i.Permissions = []coord.Permission{} // never stored as null
		}
		c.encoded(&i.Permissions, false)
		c.encoded(&i.ActsFor, len(i.ActsFor) == 0)
		c.text((*string)(&i.By))
		c.moment(&i.CreatedAt)
		c.moment(&i.ExpiresAt)
		c.instant(&i.RedeemedAt)
		c.optional((*string)(&i.RedeemedBy))
		c.instant(&i.RevokedAt)
	})

var tokens = newTable("tokens", "project token", "id, agent, project, permissions_json, created_by, created_at, expires_at, revoked_at, bounds_json", func(c *codec, t *hub.Token) {
	c.text(&t.ID)
	c.text((*string)(&t.Agent))
	c.text((*string)(&t.Project))
	c.encoded(&t.Permissions, false)
	c.text((*string)(&t.By))
	c.stamp(&t.CreatedAt)
	c.stamp(&t.ExpiresAt)
	c.time(&t.RevokedAt)
	c.encoded(&t.Evidence, t.Evidence == nil)
})

// deadLettersKept is how many dead letters a peer has at most; the oldest go.
const deadLettersKept = 1000

var (
	changesAfter = changes.query(`WHERE seq > ?1 ORDER BY seq LIMIT ?2`)
	changeSpan   = statement(`SELECT (SELECT min(seq) FROM changes), (SELECT max(seq) FROM changes)`)
	addChange    = statement(`INSERT INTO changes (seq, project, kind, object, version, at, origin)
		VALUES (1 + coalesce((SELECT max(seq) FROM changes), 0), ?1, ?2, ?3, ?4, ?5, ?6)`)
	dropChanges = statement(`DELETE FROM changes WHERE seq IN (SELECT seq FROM changes WHERE seq <= ?1 AND seq < (SELECT max(seq) FROM changes)
		ORDER BY seq LIMIT ?2)`)

	peerByAID   = peers.query(`WHERE aid = ?1`)
	peerByKey   = peers.query(`WHERE key_hash = ?1`)
	peersByAID  = peers.query(`ORDER BY aid`)
	replacePeer = statement(`INSERT INTO peers (aid, endpoint, repo, state, trust, legacy, native, key_hash, sealed, health, fails, fault, seen, added_at, grants_json, acts_for_json)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)
		ON CONFLICT (aid) DO UPDATE SET endpoint = ?2, repo = ?3, state = ?4, trust = ?5, legacy = ?6, native = ?7, key_hash = ?8, sealed = ?9,
		health = ?10, fails = ?11, fault = ?12, seen = ?13, added_at = ?14, grants_json = ?15, acts_for_json = ?16`)

	outboxOf      = outboxes.query(`WHERE peer = ?1`)
	replaceOutbox = statement(`INSERT INTO outboxes (peer, sent, catch_up, tries, next_try, fault) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
		ON CONFLICT (peer) DO UPDATE SET sent = ?2, catch_up = ?3, tries = ?4, next_try = ?5, fault = ?6`)

	deadLettersOf   = deadLetters.query(`WHERE peer = ?1 ORDER BY id DESC LIMIT ?2`)
	trimDeadLetters = statement(`DELETE FROM dead_letters WHERE peer = ?1 AND id <=
		(SELECT id FROM dead_letters WHERE peer = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)`)

	tokenByID   = tokens.query(`WHERE id = ?1`)
	dropTokens  = statement(`DELETE FROM tokens WHERE expires_at < ?1`)
	liveTokens  = tokens.query(`WHERE revoked_at IS NULL AND (agent = ?1 OR id = ?2)`)
	revokeToken = statement(`UPDATE tokens SET revoked_at = ?2 WHERE id = ?1`)

	useInvite = invites.update(1, "redeemed_at", ` AND redeemed_at IS NULL AND revoked_at IS NULL`)
)

func (r *reader) Changes(seq int64, limit int) ([]hub.Change, error) {
	return changes.all(r, changesAfter, seq, max(limit, 0))
}

func (r *reader) ChangeSpan() (oldest, newest int64, err error) {
	q := r.query(changeSpan)
	if q.next() {
		oldest, newest = q.s.ColumnInt64(0), q.s.ColumnInt64(1)
	}
	return oldest, newest, engineError("store.ChangeSpan", q.done())
}

func (t *tx) AddChange(c hub.Change) error {
	_, err := t.run("store.AddChange", addChange, string(c.Project), string(c.Kind), c.Object, c.Version, c.At, orNull(c.Origin))
	return err
}

func (t *tx) DropChanges(upTo int64, limit int) (int, error) {
	n, err := t.run("store.DropChanges", dropChanges, upTo, max(limit, 0))
	return int(n), err
}

func (r *reader) Peer(aid coord.AID) (hub.Peer, error) {
	return peers.one(r, string(aid), peerByAID, string(aid))
}

func (r *reader) PeerByKey(hash string) (hub.Peer, error) {
	return peers.one(r, "with that key", peerByKey, hash)
}

func (r *reader) Peers() ([]hub.Peer, error) { return peers.all(r, peersByAID) }

func (t *tx) PutPeer(p hub.Peer) error {
	_, err := peers.write(t, replacePeer, &p)
	if hub.CodeOf(err) == hub.CodeConflict {
		return hub.Errorf(hub.CodeConflict, peers.op(), "another peer has that key")
	}
	return err
}

func (r *reader) Outbox(peer coord.AID) (hub.Outbox, error) {
	return outboxes.one(r, string(peer), outboxOf, string(peer))
}

func (t *tx) PutOutbox(o hub.Outbox) error {
	_, err := outboxes.write(t, replaceOutbox, &o)
	if hub.CodeOf(err) == hub.CodeNotFound {
		return notFound(outboxes.op(), "peer", string(o.Peer))
	}
	return err
}

func (r *reader) DeadLetters(peer coord.AID, limit int) ([]hub.DeadLetter, error) {
	return deadLetters.all(r, deadLettersOf, string(peer), max(limit, 0))
}

func (t *tx) AddDeadLetter(d hub.DeadLetter) error {
	err := deadLetters.add(t, "of "+string(d.Peer), &d)
	if hub.CodeOf(err) == hub.CodeNotFound {
		return notFound(deadLetters.op(), "peer", string(d.Peer))
	}
	if err == nil {
		_, err = t.run(deadLetters.op(), trimDeadLetters, string(d.Peer), deadLettersKept)
	}
	return err
}

func (r *reader) Invites(f hub.InviteQuery) ([]hub.Invite, error) {
	var w filter
	w.equal("id", f.ID)
	w.equal("hash", f.Hash)
	w.equal("project", string(f.Project))
	return invites.filtered(r, w, `ORDER BY id DESC`, f.Limit)
}

func (t *tx) PutInvite(i hub.Invite) error {
	if i.RedeemedAt.IsZero() && i.RevokedAt.IsZero() {
		return invites.add(t, i.ID, &i)
	}
	return invites.put(t, i.ID, useInvite, &i)
}

func (r *reader) Token(id string) (hub.Token, error) { return tokens.one(r, id, tokenByID, id) }

func (r *reader) Tokens(project coord.ProjectID, limit int) ([]hub.Token, error) {
	var w filter
	w.equal("project", string(project))
	return tokens.filtered(r, w, `ORDER BY created_at DESC, id`, limit)
}

func (t *tx) AddToken(token hub.Token) error {
	if _, err := t.run(tokens.op(), dropTokens, token.CreatedAt); err != nil {
		return err
	}
	return tokens.add(t, token.ID, &token)
}

func (t *tx) RevokeTokens(agent coord.AID, id string, at hub.Time) ([]string, error) {
	live, err := tokens.all(&t.reader, liveTokens, orNull(agent), orNull(id))
	var ids []string
	for _, token := range live {
		if err == nil {
			_, err = t.run(tokens.op(), revokeToken, token.ID, at)
		}
		ids = append(ids, token.ID)
	}
	return ids, err
}

package sqlite

import (
	"encoding/json"

	"github.com/ncruces/go-sqlite3"

	"github.com/parley-agents/parley/hub"
)

func (r *reader) Changes(seq int64, limit int) ([]hub.Change, error) {
	q := r.c.query(stmtChanges)
	q.int(seq)
	q.int(int64(max(limit, 0)))
	return collect("sqlite.Changes", &q, func(s *sqlite3.Stmt) (hub.Change, error) {
		return hub.Change{
			Seq: s.ColumnInt64(0), Project: hub.ProjectID(s.ColumnText(1)), Kind: hub.ChangeKind(s.ColumnText(2)), Object: s.ColumnText(3),
			Version: s.ColumnInt(4), At: columnTime(s, 5), Origin: hub.AID(s.ColumnText(6)),
		}, nil
	})
}

func (r *reader) ChangeSpan() (oldest, newest int64, err error) {
	for id, to := range map[stmtID]*int64{stmtFirstChange: &oldest, stmtLastChange: &newest} {
		q := r.c.query(id)
		if q.next() {
			*to = q.s.ColumnInt64(0)
		}
		if err := q.done(); err != nil {
			return 0, 0, engineError("sqlite.ChangeSpan", err)
		}
	}
	return oldest, newest, nil
}

func (t *tx) AddChange(c hub.Change) error {
	q := t.c.query(stmtAddChange)
	q.text(string(c.Project))
	q.text(string(c.Kind))
	q.text(c.Object)
	q.int(int64(c.Version))
	q.text(c.At.String())
	q.some(string(c.Origin))
	_, err := t.change("sqlite.AddChange", &q)
	return err
}

func (t *tx) DropChanges(upTo int64, limit int) (int, error) {
	q := t.c.query(stmtDropChanges)
	q.int(upTo)
	q.int(int64(max(limit, 0)))
	n, err := t.change("sqlite.DropChanges", &q)
	return int(n), err
}

// scanPeer reads a row of peerHead.
func scanPeer(s *sqlite3.Stmt) (hub.Peer, error) {
	return hub.Peer{
		AID: hub.AID(s.ColumnText(0)), Endpoint: s.ColumnText(1), Repo: s.ColumnText(2), State: hub.PeerState(s.ColumnText(3)),
		Trust: hub.TrustLevel(s.ColumnText(4)), Legacy: s.ColumnText(5), Native: s.ColumnBool(6), KeyHash: s.ColumnText(7), Sealed: s.ColumnText(8),
		Health: hub.PeerHealth(s.ColumnText(9)), Fails: s.ColumnInt(10), Fault: s.ColumnText(11), Seen: columnInstant(s, 12), AddedAt: columnInstant(s, 13),
	}, nil
}

func (r *reader) Peer(aid hub.AID) (hub.Peer, error) {
	q := r.c.query(stmtPeer)
	q.text(string(aid))
	return one("sqlite.Peer", "peer", string(aid), &q, scanPeer)
}

func (r *reader) PeerByKey(hash string) (hub.Peer, error) {
	q := r.c.query(stmtPeerByKey)
	q.text(hash)
	return one("sqlite.PeerByKey", "peer with that", "key", &q, scanPeer)
}

func (r *reader) Peers() ([]hub.Peer, error) {
	q := r.c.query(stmtPeers)
	return collect("sqlite.Peers", &q, scanPeer)
}

func (t *tx) PutPeer(p hub.Peer) error {
	const op = "sqlite.PutPeer"
	q := t.c.query(stmtPutPeer)
	q.text(string(p.AID))
	q.text(p.Endpoint)
	q.some(p.Repo)
	q.text(string(p.State))
	q.text(string(p.Trust))
	q.some(p.Legacy)
	q.int(boolInt(p.Native))
	q.some(p.KeyHash)
	q.some(p.Sealed)
	q.text(string(p.Health))
	q.int(int64(p.Fails))
	q.some(p.Fault)
	q.instant(p.Seen)
	q.int(p.AddedAt.Micro())
	_, err := t.change(op, &q)
	if hub.CodeOf(err) == hub.CodeConflict {
		return hub.Errorf(hub.CodeConflict, op, "another peer has that key")
	}
	return err
}

// scanOutbox reads a row of outboxHead.
func scanOutbox(s *sqlite3.Stmt) (hub.Outbox, error) {
	return hub.Outbox{
		Peer: hub.AID(s.ColumnText(0)), Sent: s.ColumnInt64(1), CatchUp: s.ColumnBool(2), Tries: s.ColumnInt(3), NextTry: columnInstant(s, 4),
		Fault: s.ColumnText(5),
	}, nil
}

func (r *reader) Outbox(peer hub.AID) (hub.Outbox, error) {
	q := r.c.query(stmtOutbox)
	q.text(string(peer))
	return one("sqlite.Outbox", "outbox of", string(peer), &q, scanOutbox)
}

func (r *reader) Outboxes() ([]hub.Outbox, error) {
	q := r.c.query(stmtOutboxes)
	return collect("sqlite.Outboxes", &q, scanOutbox)
}

func (t *tx) PutOutbox(o hub.Outbox) error {
	const op = "sqlite.PutOutbox"
	q := t.c.query(stmtPutOutbox)
	q.text(string(o.Peer))
	q.int(o.Sent)
	q.int(boolInt(o.CatchUp))
	q.int(int64(o.Tries))
	q.instant(o.NextTry)
	q.some(o.Fault)
	_, err := t.change(op, &q)
	if hub.CodeOf(err) == hub.CodeNotFound {
		return notFound(op, "peer", string(o.Peer))
	}
	return err
}

// deadLettersKept is how many a peer has at most; the oldest go.
const deadLettersKept = 1000

func (r *reader) DeadLetters(peer hub.AID, limit int) ([]hub.DeadLetter, error) {
	q := r.c.query(stmtDeadLetters)
	q.text(string(peer))
	q.int(int64(max(limit, 0)))
	return collect("sqlite.DeadLetters", &q, func(s *sqlite3.Stmt) (hub.DeadLetter, error) {
		d := hub.DeadLetter{Peer: peer, Fault: s.ColumnText(1), At: columnInstant(s, 2)}
		return d, json.Unmarshal(s.ColumnRawText(0), &d.Change)
	})
}

func (t *tx) AddDeadLetter(d hub.DeadLetter) error {
	const op = "sqlite.AddDeadLetter"
	change, err := encodeJSON(d.Change)
	if err != nil {
		return engineError(op, err)
	}
	q := t.c.query(stmtAddDeadLetter)
	q.text(string(d.Peer))
	q.text(change)
	q.text(d.Fault)
	q.int(d.At.Micro())
	if _, err := t.change(op, &q); err != nil {
		if hub.CodeOf(err) == hub.CodeNotFound {
			return notFound(op, "peer", string(d.Peer))
		}
		return err
	}
	q = t.c.query(stmtTrimDeadLetters)
	q.text(string(d.Peer))
	q.int(deadLettersKept)
	_, err = t.change(op, &q)
	return err
}

// scanInvite reads a row of inviteHead.
func scanInvite(s *sqlite3.Stmt) (hub.Invite, error) {
	i := hub.Invite{
		ID: s.ColumnText(0), Hash: s.ColumnText(1), Hint: s.ColumnText(2), Project: hub.ProjectID(s.ColumnText(3)), Repo: s.ColumnText(4),
		By: hub.AgentID(s.ColumnText(6)), CreatedAt: columnInstant(s, 7), ExpiresAt: columnInstant(s, 8), RedeemedAt: columnInstant(s, 9),
		RedeemedBy: hub.AID(s.ColumnText(10)), RevokedAt: columnInstant(s, 11),
	}
	return i, json.Unmarshal(s.ColumnRawText(5), &i.Permissions)
}

func (r *reader) Invite(id string) (hub.Invite, error) {
	q := r.c.query(stmtInvite)
	q.text(id)
	return one("sqlite.Invite", "invite", id, &q, scanInvite)
}

func (r *reader) InviteByHash(hash string) (hub.Invite, error) {
	q := r.c.query(stmtInviteByHash)
	q.text(hash)
	return one("sqlite.InviteByHash", "such", "invite", &q, scanInvite)
}

func (r *reader) Invites(project hub.ProjectID, limit int) ([]hub.Invite, error) {
	id := stmtInvites
	if project != "" {
		id = stmtInvitesOf
	}
	q := r.c.query(id)
	q.int(int64(max(limit, 0)))
	if project != "" {
		q.text(string(project))
	}
	return collect("sqlite.Invites", &q, scanInvite)
}

func (t *tx) AddInvite(i hub.Invite) error {
	const op = "sqlite.AddInvite"
	permissions, err := encodeJSON(append([]string{}, i.Permissions...))
	if err != nil {
		return engineError(op, err)
	}
	q := t.c.query(stmtAddInvite)
	q.text(i.ID)
	q.text(i.Hash)
	q.text(i.Hint)
	q.text(string(i.Project))
	q.text(i.Repo)
	q.text(permissions)
	q.text(string(i.By))
	q.int(i.CreatedAt.Micro())
	q.int(i.ExpiresAt.Micro())
	q.instant(i.RedeemedAt)
	q.some(string(i.RedeemedBy))
	q.instant(i.RevokedAt)
	_, err = t.change(op, &q)
	if hub.CodeOf(err) == hub.CodeConflict {
		return hub.Errorf(hub.CodeConflict, op, "there is an invite %s already", i.ID)
	}
	return err
}

func (t *tx) PutInvite(i hub.Invite) error {
	const op = "sqlite.PutInvite"
	q := t.c.query(stmtPutInvite)
	q.text(i.ID)
	q.instant(i.RedeemedAt)
	q.some(string(i.RedeemedBy))
	q.instant(i.RevokedAt)
	n, err := t.change(op, &q)
	if err == nil && n == 0 {
		return hub.Errorf(hub.CodeConflict, op, "invite %s is redeemed or revoked, or does not exist", i.ID)
	}
	return err
}

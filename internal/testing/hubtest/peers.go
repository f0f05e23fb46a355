package hubtest

import (
	"fmt"
	"slices"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
)

// peer stores an approved peer.
func (w *world) peer(aid coord.AID) hub.Peer {
	w.Helper()
	p := hub.Peer{
		AID: aid, Endpoint: "https://" + string(aid), Repo: "front", State: hub.PeerApproved, Access: coord.AccessFull, Legacy: "10.0.0.1", Native: true,
		KeyHash: "hash of " + string(aid), Sealed: "sealed", Health: hub.HealthDown, Fails: 2, Fault: "refused", Seen: at(5), AddedAt: at(1),
		Grants:  []coord.Grant{{Project: "p", Repos: []string{"front"}, Permissions: coord.Contributor}, {Project: "q", Permissions: []coord.Permission{}, Host: true, Ours: coord.Contributor}},
		ActsFor: []coord.AID{"aid://c/d@1.0.0"},
	}
	w.update(func(tx hub.Tx) error { return tx.PutPeer(p) })
	return p
}

var peerTests = []storeTest{
	{"changes are numbered in order and read after a number", func(w *world) {
		add := func(c hub.Change) { w.update(func(tx hub.Tx) error { return tx.AddChange(c) }) }
		want := []hub.Change{
			{Seq: 1, Project: "p", Kind: hub.ChangeProject, Object: "p", At: epoch},
			{Seq: 2, Project: "p", Kind: hub.ChangeContract, Object: "c", Version: 3, At: epoch, Origin: "aid://a/b@1.0.0"},
			{Seq: 3, Project: "p", Kind: hub.ChangePacket, Object: "k", At: epoch},
		}
		for _, c := range want {
			add(c)
		}
		w.store = w.reopen()
		w.view(func(r hub.Reader) error {
			all, err := r.Changes(0, 10)
			same(w, "all", all, want)
			if err != nil {
				return err
			}
			rest, err := r.Changes(1, 1)
			same(w, "after the first", rest, want[1:2])
			return err
		})
	}},
	{"old changes are dropped, but no number is given twice", func(w *world) {
		span := func() (a, b int64) {
			w.view(func(r hub.Reader) (err error) {
				a, b, err = r.ChangeSpan()
				return err
			})
			return a, b
		}
		drop := func(upTo int64, limit int) (n int) {
			w.update(func(tx hub.Tx) (err error) {
				n, err = tx.DropChanges(upTo, limit)
				return err
			})
			return n
		}
		if a, b := span(); a != 0 || b != 0 {
			w.Errorf("an empty log: got %d to %d", a, b)
		}
		for range 5 {
			w.update(func(tx hub.Tx) error {
				return tx.AddChange(hub.Change{Project: "p", Kind: hub.ChangeRepo, Object: "r", At: epoch})
			})
		}
		same(w, "limit", drop(3, 2), 2)
		same(w, "rest", drop(3, 9), 1)
		same(w, "all but the newest", drop(99, 9), 1)
		if a, b := span(); a != 5 || b != 5 {
			w.Errorf("got %d to %d, want 5 to 5", a, b)
		}
		w.store = w.reopen()
		w.update(func(tx hub.Tx) error {
			return tx.AddChange(hub.Change{Project: "p", Kind: hub.ChangeRepo, Object: "r", At: epoch})
		})
		if _, b := span(); b != 6 {
			w.Errorf("got %d, want 6", b)
		}
	}},
	{"a peer comes back as it was stored, by id and by key", func(w *world) {
		want := w.peer("b")
		w.peer("a")
		w.view(func(r hub.Reader) error {
			got, err := r.Peer("b")
			same(w, "by id", got, want)
			if err != nil {
				return err
			}
			got, err = r.PeerByKey("hash of b")
			same(w, "by key", got, want)
			if err != nil {
				return err
			}
			all, err := r.Peers()
			if len(all) != 2 || all[0].AID != "a" {
				w.Errorf("got %v", all)
			}
			return err
		})
		want.State = hub.PeerRemoved
		want.Health = hub.HealthUp
		want.Fails = 0
		want.Fault = ""
		want.KeyHash = ""
		w.update(func(tx hub.Tx) error { return tx.PutPeer(want) })
		w.view(func(r hub.Reader) error {
			got, err := r.Peer("b")
			same(w, "again", got, want)
			return err
		})
		for _, grants := range [][]coord.Grant{{}, nil} { // no project, and all of them
			want.Grants, want.ActsFor = grants, nil
			w.update(func(tx hub.Tx) error { return tx.PutPeer(want) })
			w.view(func(r hub.Reader) error {
				got, err := r.Peer("b")
				same(w, "without grants", got, want)
				return err
			})
		}
		w.miss(hub.CodeNotFound, func(r hub.Reader) error { _, err := r.PeerByKey("hash of b"); return err })
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { want.KeyHash = "hash of a"; return tx.PutPeer(want) })
	}},
	{"an outbox belongs to a peer", func(w *world) {
		w.peer("a")
		box := hub.Outbox{Peer: "a", Sent: 7, CatchUp: true, Tries: 3, NextTry: at(9), Fault: "down"}
		w.miss(hub.CodeNotFound, func(r hub.Reader) error { _, err := r.Outbox("a"); return err })
		w.update(func(tx hub.Tx) error { return tx.PutOutbox(hub.Outbox{Peer: "a"}) })
		w.update(func(tx hub.Tx) error { return tx.PutOutbox(box) })
		w.refuse(hub.CodeNotFound, func(tx hub.Tx) error { return tx.PutOutbox(hub.Outbox{Peer: "nobody"}) })
		w.view(func(r hub.Reader) error {
			got, err := r.Outbox("a")
			same(w, "outbox", got, box)
			return err
		})
	}},
	{"of dead letters the newest 1,000 are kept", func(w *world) {
		w.peer("a")
		w.update(func(tx hub.Tx) error {
			for i := range 1005 {
				c := hub.Change{Seq: int64(i), Project: "p", Kind: hub.ChangeContract, Object: "c", At: epoch}
				if err := tx.AddDeadLetter(hub.DeadLetter{Peer: "a", Change: c, Fault: fmt.Sprint(i), At: at(i)}); err != nil {
					return err
				}
			}
			return nil
		})
		w.view(func(r hub.Reader) error {
			all, err := r.DeadLetters("a", 2000)
			if len(all) != 1000 || all[0].Fault != "1004" || all[999].Fault != "5" || all[0].Change.Seq != 1004 {
				w.Errorf("got %d, from %+v", len(all), all[0])
			}
			return err
		})
		w.refuse(hub.CodeNotFound, func(tx hub.Tx) error { return tx.AddDeadLetter(hub.DeadLetter{Peer: "nobody"}) })
	}},
	{"project tokens are revoked by id and by agent, and leave after they expired", func(w *world) {
		token := func(id string, agent coord.AID, project coord.ProjectID, made, expires hub.Time) hub.Token {
			t := hub.Token{ID: id, Agent: agent, Project: project, Permissions: coord.Contributor, By: hub.Operator, CreatedAt: made, ExpiresAt: expires}
			w.update(func(tx hub.Tx) error { return tx.AddToken(t) })
			return t
		}
		later := epoch.Add(time.Hour)
		want := token("t1", "a", "p", epoch, later)
		token("t2", "a", "q", epoch.Add(time.Second), later)
		token("t3", "b", "p", epoch.Add(2*time.Second), later)
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.AddToken(want) })
		revoke := func(agent coord.AID, id string, want ...string) {
			w.Helper()
			w.update(func(tx hub.Tx) error {
				got, err := tx.RevokeTokens(agent, id, later)
				slices.Sort(got)
				same(w, "revoked", got, want)
				return err
			})
		}
		revoke("", "t3", "t3")
		revoke("b", "")
		revoke("a", "", "t1", "t2")
		list := func(project coord.ProjectID, want ...string) {
			w.Helper()
			w.view(func(r hub.Reader) error {
				all, err := r.Tokens(project, 10)
				var got []string
				for _, t := range all {
					got = append(got, t.ID)
				}
				same(w, "tokens", got, want)
				return err
			})
		}
		list("", "t3", "t2", "t1")
		list("p", "t3", "t1")
		w.view(func(r hub.Reader) error {
			got, err := r.Token("t1")
			want.RevokedAt = later
			same(w, "token", got, want)
			return err
		})
		token("t4", "b", "p", later.Add(time.Hour), later.Add(2*time.Hour))
		list("", "t4")
		w.miss(hub.CodeNotFound, func(r hub.Reader) error { _, err := r.Token("t1"); return err })
	}},
	{"an invite is redeemed or revoked once", func(w *world) {
		want := hub.Invite{ID: "1", Hash: "h", Hint: "f00", Project: "p", Repo: "front", Permissions: []coord.Permission{"project:read"}, By: "operator", CreatedAt: at(1), ExpiresAt: at(9)}
		w.update(func(tx hub.Tx) error { return tx.PutInvite(want) })
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.PutInvite(want) })
		other := hub.Invite{ID: "2", Hash: "h2", Project: "q", Permissions: []coord.Permission{}}
		w.update(func(tx hub.Tx) error { return tx.PutInvite(other) })
		redeemed := want
		redeemed.RedeemedAt, redeemed.RedeemedBy = at(2), "aid://a/b@1.0.0"
		w.update(func(tx hub.Tx) error { return tx.PutInvite(redeemed) })
		revoked := want
		revoked.RevokedAt = at(3)
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.PutInvite(revoked) })
		w.view(func(r hub.Reader) error {
			for _, tt := range []struct {
				q    hub.InviteQuery
				want []hub.Invite
			}{
				{hub.InviteQuery{Hash: "h"}, []hub.Invite{redeemed}}, {hub.InviteQuery{ID: "1"}, []hub.Invite{redeemed}},
				{hub.InviteQuery{}, []hub.Invite{other, redeemed}}, {hub.InviteQuery{Project: "p"}, []hub.Invite{redeemed}},
				{hub.InviteQuery{Hash: "x"}, nil}, {hub.InviteQuery{ID: "1", Project: "q"}, nil},
			} {
				tt.q.Limit = 10
				got, err := r.Invites(tt.q)
				if err != nil {
					return err
				}
				same(w, fmt.Sprintf("%+v", tt.q), got, tt.want)
			}
			first, err := r.Invites(hub.InviteQuery{Limit: 1})
			same(w, "a page", first, []hub.Invite{other})
			return err
		})
	}},
}

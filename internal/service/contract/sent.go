package contract

import (
	"context"
	"fmt"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
)

// fetchedKey is the key of the fact which version of a contract a peer fetched last.
func fetchedKey(peer coord.AID, c coord.ContractID) string {
	return fmt.Sprintf("peer.fetched/%s/%s", peer, c)
}

// noteFetched records that a peer fetched a contract. One that cannot be reached gets
// versions only so.
func (s *Service) noteFetched(ctx context.Context, caller hub.Caller, c coord.Contract) error {
	if caller.Kind != hub.CallerPeer || c.Version == 1 {
		return nil
	}
	key := fetchedKey(caller.AID, c.ID)
	known, err := hub.Read(ctx, s.store, func(r hub.Reader) (int, error) { return hub.ReadMeta[int](r, key) })
	if err != nil || known == c.Version {
		return err
	}
	return s.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error { return hub.WriteMeta(tx, key, c.Version) })
}

// maxUnsent is the number of unsent changes that are searched for a contract. A peer that
// is further behind has not been sent its newest version.
const maxUnsent = 10_000

// sentVersion returns the newest version of a contract that the caller has for certain: the
// head, unless the caller is a peer that neither fetched it nor confirmed the changes of the
// contract. Every change before the cursor of its outbox is confirmed, unless a comparison
// is due.
func sentVersion(r hub.Reader, caller hub.Caller, c coord.Contract) (int, error) {
	if caller.AID == "" || caller.Local() || c.Version == 1 {
		return c.Version, nil
	}
	if _, err := r.Peer(caller.AID); err != nil {
		if hub.CodeOf(err) == hub.CodeNotFound {
			err = nil // no changes are sent to it
		}
		return c.Version, err
	}

	known, err := hub.ReadMeta[int](r, fetchedKey(caller.AID, c.ID))
	if err != nil || known == c.Version {
		return known, err
	}
	known = max(known, 1)
	for _, a := range c.Agreements {
		if a.Agent == caller.AID {
			known = max(known, a.Version)
		}
	}

	box, err := r.Outbox(caller.AID)
	if hub.CodeOf(err) == hub.CodeNotFound || (err == nil && box.CatchUp) {
		return min(known, c.Version-1), nil
	}
	if err != nil {
		return 0, err
	}
	changes, err := r.Changes(box.Sent, maxUnsent)
	if err != nil || len(changes) == maxUnsent {
		return min(known, c.Version-1), err
	}
	for _, change := range changes {
		if change.Kind == hub.ChangeContract && change.Project == c.Project && change.Object == string(c.ID) {
			return min(max(known, change.Version-1), c.Version-1), nil
		}
	}
	return c.Version, nil
}

// agreesTo refuses an agreement to a version that was replaced. An agreement without a
// version, as the protocol has it, is to the newest one that its sender was sent.
func agreesTo(r hub.Reader, op string, caller hub.Caller, c coord.Contract, named int) error {
	if named != 0 {
		return sameVersion(op, c, named)
	}
	sent, err := sentVersion(r, caller, c)
	if err != nil || sent == c.Version {
		return err
	}
	return hub.Errorf(hub.CodeConflict, op, "contract %s is now at version %d; without a version, %s agrees to version %d, the newest that it was sent", c.ID, c.Version, caller.AID, sent).
		WithHint("read it with {contract.show} %s, then agree to version %d", c.ID, c.Version)
}

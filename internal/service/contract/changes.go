package contract

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/federation"
)

// maxChanges is the largest page of changes.
const maxChanges = 1000

// Changes returns the log of changes after a number, in order.
func (s *Service) Changes(ctx context.Context, after int64, limit int) ([]hub.Change, error) {
	limit, err := page("contract.Changes", limit, maxChanges)
	if err != nil {
		return nil, err
	}
	return hub.Read(ctx, s.store, func(r hub.Reader) ([]hub.Change, error) { return r.Changes(after, limit) })
}

// Newest returns the number of the newest change.
func (s *Service) Newest(ctx context.Context) (int64, error) {
	return hub.Read(ctx, s.store, func(r hub.Reader) (int64, error) {
		_, newest, err := r.ChangeSpan()
		return newest, err
	})
}

// Copies returns the present state of changed things, each once: first projects,
// because a copy cannot be merged without its project, then the rest in the order of
// its last change. A thing of which all changes came from the peer "to" is left out:
// the peer has the state that it sent, but not one that was merged with others.
func (s *Service) Copies(ctx context.Context, to coord.AID, changes []hub.Change) ([]federation.Copy, error) {
	type thing struct {
		project coord.ProjectID
		kind    hub.ChangeKind
		object  string
	}

	// A thing is copied at its last change, and only if some change of it did not come from the
	// peer.
	last, wanted := map[thing]int64{}, map[thing]bool{}
	for _, c := range changes {
		t := thing{c.Project, c.Kind, c.Object}
		last[t], wanted[t] = c.Seq, wanted[t] || c.Origin == "" || c.Origin != to
	}

	return hub.Read(ctx, s.store, func(r hub.Reader) ([]federation.Copy, error) {
		var out []federation.Copy
		for _, c := range changes {
			if t := (thing{c.Project, c.Kind, c.Object}); last[t] != c.Seq || !wanted[t] {
				continue
			}
			copied, err := load(r, c)
			if hub.CodeOf(err) == hub.CodeNotFound {
				continue
			}
			if err != nil {
				return nil, err
			}
			out = append(out, copied)
		}

		isHead := func(c federation.Copy) bool { return c.Head != nil }
		slices.SortStableFunc(out, func(a, b federation.Copy) int { return compareBools(isHead(b), isHead(a)) })
		return out, nil
	})
}

// load returns the present state of a changed thing.
func load(r hub.Reader, change hub.Change) (federation.Copy, error) {
	out := federation.Copy{Project: change.Project}

	switch change.Kind {
	case hub.ChangeProject:
		p, err := r.Coordination().Project(change.Project)
		out.Head = &p
		return out, err
	case hub.ChangeRepo:
		p, err := r.Coordination().Project(change.Project)
		if err != nil {
			return out, err
		}
		repo, ok := p.Repo(coord.RepoID(change.Object))
		if !ok {
			return out, hub.Errorf(hub.CodeNotFound, "contract.Copies", "no repository %s in project %s", change.Object, change.Project)
		}
		out.Repo = &repo
		return out, nil
	case hub.ChangePacket:
		p, err := r.Coordination().Packet(change.Project, coord.PacketID(change.Object))
		out.Packet = &p
		return out, err
	}

	// All other changes are changes of a contract.
	c, err := r.Coordination().Contract(change.Project, coord.ContractID(change.Object))
	if err == nil {
		c, err = withVersions(r, c)
	}
	out.Contract = &c
	return out, err
}

// The log of changes keeps the rows that an approved peer has not confirmed, and at
// least the newest changesKept for those that watch.
const (
	changesKept = 10_000
	trimEvery   = 10 * time.Minute
	trimAtOnce  = 2000
)

// Run tells people of events, and trims the log of changes and sends notices that were held
// from time to time, until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	var people sync.WaitGroup
	people.Go(func() { s.tellPeople(ctx) })
	defer people.Wait()

	tick, notices := time.NewTicker(trimEvery), time.NewTicker(noticeEvery)
	defer tick.Stop()
	defer notices.Stop()
	for {
		if err := s.Trim(ctx); err != nil && ctx.Err() == nil {
			s.o.Log.Warn("cannot trim the log of changes", "err", err)
		}
		for trim := false; !trim; {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
				trim = true
			case <-notices.C:
				if err := s.SendHeld(ctx); err != nil && ctx.Err() == nil {
					s.o.Log.Warn("cannot send notices", "err", err)
				}
			}
		}
	}
}

// Trim removes changes that every approved peer confirmed, except the newest.
func (s *Service) Trim(ctx context.Context) error { return s.trim(ctx, changesKept) }

func (s *Service) trim(ctx context.Context, keep int64) error {
	return hub.Alone(ctx, s.store, "contract.Trim", 2*trimEvery, func(store hub.Store) error {
		for {
			dropped := 0
			err := store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
				upTo, err := confirmed(tx, keep)
				if err == nil {
					dropped, err = tx.DropChanges(upTo, trimAtOnce)
				}
				return err
			})
			if err != nil || dropped < trimAtOnce {
				return err
			}
		}
	})
}

// confirmed returns the number of the last change that every approved peer
// confirmed and that is not among the newest, as many as keep says.
func confirmed(r hub.Reader, keep int64) (int64, error) {
	_, newest, err := r.ChangeSpan()
	if err != nil {
		return 0, err
	}
	upTo := newest - keep
	peers, err := r.Peers()
	if err != nil {
		return 0, err
	}
	for _, peer := range peers {
		if peer.State != hub.PeerApproved {
			continue
		}
		box, err := r.Outbox(peer.AID)
		if err == nil {
			upTo = min(upTo, box.Sent)
		} else if hub.CodeOf(err) != hub.CodeNotFound {
			return 0, err
		}
	}
	return upTo, nil
}

// Summary returns the sums of a project, maxChanges contracts at a time.
func (s *Service) Summary(ctx context.Context, id coord.ProjectID, after coord.ContractID) (federation.Summary, error) {
	const op = "contract.Summary"
	return readIn(ctx, s, op, id, func(r hub.Reader, p coord.Project) (federation.Summary, error) {
		sums, err := r.Coordination().Sums(id)
		if err != nil {
			return federation.Summary{}, err
		}
		out := federation.Summary{Project: id, Head: p.Sum(), Contracts: []coord.ContractSum{}, Buckets: sums.Buckets}
		found, err := r.Coordination().ContractSums(id, after, s.pageOf(maxChanges))
		out.Contracts = append(out.Contracts, found...)
		if len(found) == s.pageOf(maxChanges) {
			out.Next = found[len(found)-1].ID
		}
		return out, err
	})
}

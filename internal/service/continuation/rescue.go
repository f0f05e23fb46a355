package continuation

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

// A Listing is a list of continuations, the newest first.
type Listing struct {
	Continuations []hub.Continuation            `json:"continuations"`
	ShortIDs      map[hub.HandoffID]hub.ShortID `json:"short_ids,omitempty"` // of their handoffs
}

// A Continued is a continuation with the short ids of its handoffs.
type Continued struct {
	hub.Continuation
	ShortIDs map[hub.HandoffID]hub.ShortID `json:"short_ids,omitempty"`
}

// Named adds the short ids of the handoffs of a continuation.
func (s *Service) Named(ctx context.Context, c hub.Continuation) (Continued, error) {
	short, err := hub.Read(ctx, s.store, func(rd hub.Reader) (map[hub.HandoffID]hub.ShortID, error) { return shortIDs(rd, c) })
	return Continued{c, short}, err
}

// shortIDs returns the short ids of the handoffs of continuations.
func shortIDs(rd hub.Reader, all ...hub.Continuation) (map[hub.HandoffID]hub.ShortID, error) {
	out := map[hub.HandoffID]hub.ShortID{}
	for _, c := range all {
		for _, id := range []hub.HandoffID{c.Handoff, c.Next} {
			if id == "" || out[id] != "" {
				continue
			}
			short, err := rd.ShortID(string(id))
			switch {
			case hub.CodeOf(err) == hub.CodeNotFound: // it keeps its long one
			case err != nil:
				return nil, err
			default:
				out[id] = short
			}
		}
	}
	return out, nil
}

// List returns the newest continuations. Agents that do not audit see those of their own tasks.
func (s *Service) List(ctx context.Context, actor hub.Caller, open bool) (Listing, error) {
	q := hub.ContinuationQuery{Limit: maxPage}
	if open {
		q.States = []hub.ContinuationState{hub.ContinuationWaiting, hub.ContinuationOffered, hub.ContinuationRefused}
	}
	out, err := hub.Read(ctx, s.store, func(rd hub.Reader) (out Listing, err error) {
		out.Continuations = []hub.Continuation{}
		all, err := rd.Continuations().Continuations(q)
		if err != nil {
			return out, err
		}
		for _, c := range all {
			if sees(actor) || c.Of == actor.ID || c.To == actor.ID {
				out.Continuations = append(out.Continuations, c)
			}
		}
		out.ShortIDs, err = shortIDs(rd, out.Continuations...)
		return out, err
	})
	if err != nil {
		return Listing{}, fmt.Errorf("continuation: list: %w", err)
	}
	return out, nil
}

// sees reports whether a caller may see the work of all agents.
func sees(actor hub.Caller) bool { return actor.Audits() || actor.Outside() }

// Rescues is a list of rescues, the newest first.
type Rescues struct {
	Rescues []hub.Rescue `json:"rescues"`
}

// Rescues returns the rescues that are kept. Agents that do not audit see their own.
func (s *Service) Rescues(ctx context.Context, actor hub.Caller) (Rescues, error) {
	all, err := hub.Read(ctx, s.store, func(rd hub.Reader) ([]hub.Rescue, error) { return rd.Continuations().Rescues(maxPage) })
	if err != nil {
		return Rescues{}, fmt.Errorf("continuation: list rescues: %w", err)
	}
	out := Rescues{Rescues: []hub.Rescue{}}
	for _, r := range all {
		if sees(actor) || r.Agent == actor.ID {
			out.Rescues = append(out.Rescues, r)
		}
	}
	return out, nil
}

// A RescuePatch is a rescue with its work as a patch.
type RescuePatch struct {
	hub.Rescue
	Patch string `json:"patch"`
	Cut   bool   `json:"cut,omitempty"` // the patch has more
}

// maxPatch bounds the bytes of a patch that is shown.
const maxPatch = 1 << 20

// Show returns a rescue with its patch, to the operator and to the agent whose work it is.
func (s *Service) Show(ctx context.Context, actor hub.Caller, id hub.RescueID) (RescuePatch, error) {
	r, err := s.rescue(ctx, "continuation.Show", actor, id)
	if err != nil {
		return RescuePatch{}, err
	}
	out := RescuePatch{Rescue: r}
	out.Patch, out.Cut, err = s.trees.Patch(ctx, r, maxPatch)
	return out, err
}

// rescue returns a rescue that a caller may read: file texts are for the operator and the agent
// alone.
func (s *Service) rescue(ctx context.Context, op string, actor hub.Caller, id hub.RescueID) (hub.Rescue, error) {
	r, err := hub.Read(ctx, s.store, func(rd hub.Reader) (hub.Rescue, error) { return rd.Continuations().Rescue(id) })
	isAllowed := actor.IsOperator() || (err == nil && r.Agent == actor.ID)
	if hub.CodeOf(err) == hub.CodeNotFound || !isAllowed {
		return hub.Rescue{}, hub.Errorf(hub.CodeNotFound, op, "no rescue %.30q", id).WithHint("parley files kept shows them")
	}
	return r, err
}

// An Applied says which files a rescue changed. Waits and Conflicts mean that nothing was changed.
type Applied = hub.AppliedRescue

// Apply brings the work of a rescue into a folder, default the one that it is from, as changes
// that are not committed. Nothing of a person is overwritten. Only the operator may.
func (s *Service) Apply(ctx context.Context, actor hub.Caller, id hub.RescueID, folder string) (Applied, error) {
	const op = "continuation.Apply"
	if err := actor.OperatorOnly(op); err != nil {
		return Applied{}, err
	}
	r, err := s.rescue(ctx, op, actor, id)
	if err != nil {
		return Applied{}, err
	}
	folder = firstOf(folder, r.Folder)
	out, err := s.trees.Apply(ctx, r, folder)
	out.Folder = folder
	if out.Paths == nil {
		out.Paths = []string{}
	}
	return out, err
}

// Drop forgets a rescue: its commit is removed from the hub's copy some time later. Only the
// operator may.
func (s *Service) Drop(ctx context.Context, actor hub.Caller, id hub.RescueID) error {
	const op = "continuation.Drop"
	if err := actor.OperatorOnly(op); err != nil {
		return err
	}
	r, err := s.rescue(ctx, op, actor, id)
	if err != nil {
		return err
	}
	return s.drop(ctx, actor, r)
}

// drop removes the row of a rescue and its name in the copy. A copy that is gone has no name.
func (s *Service) drop(ctx context.Context, actor hub.Caller, r hub.Rescue) error {
	err := s.update(ctx, actor, func(x *change) error {
		if err := x.tx.WriteContinuations().RemoveRescue(r.ID); err != nil {
			return err
		}
		return x.record(actions.RescueDropped, string(r.ID), map[string]any{"agent": r.Agent, "commit": r.Commit})
	})
	if err != nil {
		return err
	}
	if err := s.trees.Drop(ctx, r); err != nil {
		s.o.Log.Warn("the name of a dropped rescue stays in the copy", "op", "continuation.Drop", "rescue", r.ID, "err", err)
	}
	return nil
}

const (
	sweepEvery = time.Hour        // between two looks for rescues that are too old
	lookEvery  = 30 * time.Second // between two looks for agents whose terminals were killed
)

// findClosed makes continuations for agents whose terminals ended without a word, such as those of
// a machine that was switched off.
func (s *Service) findClosed(ctx context.Context) {
	gone, err := hub.Read(ctx, s.store, s.closedAgents)
	if err != nil && ctx.Err() == nil {
		s.o.Log.Warn("agents whose terminals ended cannot be read", "op", "continuation.Run", "err", err)
	}
	for _, agent := range gone {
		s.stop(ctx, Cause{Agent: agent, Reason: hub.ContinueClosed})
	}
}

// closedAgents returns the agents that own a task, whose sessions in terminals all ended, and for
// whose task nothing was done since.
func (s *Service) closedAgents(rd hub.Reader) (out []hub.AgentID, err error) {
	active, err := owned(rd, "", maxPage)
	if err != nil {
		return nil, err
	}
	for _, h := range active {
		at, closed, err := s.agents.Closed(rd, h.To)
		if err != nil {
			return nil, err
		}
		isNew := closed && !at.Before(h.AcceptedAt.Time)
		if !isNew || slices.Contains(out, h.To) {
			continue
		}
		last, err := newest(rd, h)
		if err != nil {
			return nil, err
		}
		if last == nil || (last.State == hub.ContinuationTaken && last.MovedAt.Before(at.Time)) {
			out = append(out, h.To)
		}
	}
	return out, nil
}

// Run drops rescues whose time is over, makes the continuations that Later was told of, withdraws
// offers without an answer, offers tasks again that no agent took, tells the senders of mail that is not answered, and moves the
// reserved files of continued tasks, until ctx ends.
func (s *Service) Run(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	look := time.NewTicker(min(lookEvery, s.o.Patience))
	defer look.Stop()
	s.remember(ctx)
	s.sweep(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.sweep(ctx)
		case <-look.C:
			s.findClosed(ctx)
			s.settle(ctx)
			s.recall(ctx)
			s.offerAgain(ctx)
			s.forwardRest(ctx)
			s.tellSenders(ctx)
		case c := <-s.taken:
			s.hand(ctx, c)
		case c := <-s.stops:
			s.stop(ctx, c)
		}
	}
}

// sweep drops the rescues whose time is over, and the work that a killed hub kept without a rescue.
func (s *Service) sweep(ctx context.Context) {
	s.making.Lock() // work that is being kept has no rescue yet
	defer s.making.Unlock()
	all, err := hub.Read(ctx, s.store, func(rd hub.Reader) ([]hub.Rescue, error) { return rd.Continuations().Rescues(maxSwept) })
	now := s.o.Clock.Now()
	for _, r := range all {
		if err == nil && now.After(r.Until.Time) {
			err = s.drop(ctx, hub.Caller{ID: hub.Self}, r)
		}
	}
	if err == nil && len(all) < maxSwept {
		err = s.dropUnnamed(ctx, all)
	}
	if err != nil && ctx.Err() == nil {
		s.o.Log.Warn("old rescues were not dropped", "op", "continuation.Run", "err", err)
	}
}

// maxSwept is the number of rescues that a sweep looks at.
const maxSwept = 10 * maxPage

// dropUnnamed drops the kept work that is not that of one of the rescues.
func (s *Service) dropUnnamed(ctx context.Context, rescues []hub.Rescue) error {
	kept, err := s.trees.Names(ctx)
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, r := range rescues {
		known[r.Ref] = true // a name has an id of the hub in it
	}
	for _, r := range kept {
		if !known[r.Ref] {
			s.dropRef(ctx, r)
		}
	}
	return nil
}

// hand gives the reserved files of a continued task to its next owner.
func (s *Service) hand(ctx context.Context, c hub.Continuation) {
	if s.files == nil || c.Folder == "" || c.To == c.Of {
		return
	}
	if err := s.files.MoveFiles(ctx, c.Folder, c.Of, c.To, c.Next); err != nil && ctx.Err() == nil {
		s.o.Log.Warn("the reserved files of a task did not move to its next owner", "op", "continuation.Run", "continuation", c.ID, "err", err)
	}
}

package landing

import (
	"context"
	"slices"

	"github.com/parley-agents/parley/hub"
)

// look reads the world outside of the queue from time to time: new commits on the branches of
// returned entries, and completed handoffs.
func (w *worker) look(ctx context.Context) error {
	now := w.s.clock.Now()
	if now.Sub(w.looked.Time) < lookEvery {
		return nil
	}
	w.looked = now
	if err := w.lookAtBranches(ctx); err != nil {
		return err
	}
	return w.lookAtHandoffs(ctx)
}

// lookAtBranches queues returned entries again whose branches have new commits.
func (w *worker) lookAtBranches(ctx context.Context) error {
	returned, err := hub.Read(ctx, w.s.store, func(r hub.Reader) ([]hub.LandingEntry, error) {
		return r.Landings().Entries(hub.LandingQuery{Queue: w.id, States: []hub.LandingState{hub.EntryReturned}, Newest: true, Limit: maxReturned})
	})
	if err != nil {
		return err
	}
	for _, e := range returned {
		if e.Branch == "" {
			continue
		}
		now, err := w.s.git.Branch(ctx, w.policy.Repository, e.Branch)
		if err != nil || now.ID == e.Commit {
			continue // the branch may be gone
		}
		if err := w.queueAgain(ctx, e, now); err != nil {
			return err
		}
	}
	return nil
}

// queueAgain queues a returned entry with a new commit.
func (w *worker) queueAgain(ctx context.Context, e hub.LandingEntry, now Commit) error {
	if _, err := w.s.git.Resolve(ctx, w.policy.Repository, now.ID); err != nil {
		return ignoreMissing(err)
	}
	piece, err := w.s.pieceOf(ctx, e)
	if err != nil {
		return err
	}
	e.Commit = now.ID
	e.Tree = now.Tree
	ask, err := w.s.question(ctx, w.policy, e, piece)
	if err != nil {
		return err
	}
	return w.update(ctx, func(c *change) error {
		e.QueuedAt = c.now
		if e.Tries >= maxTries {
			e.Approved = ""
		}
		_, err := c.admit(w.policy, e, ask)
		return err
	})
}

// pieceOf returns the work of an entry's handoff; nil if it has none, or the handoff cannot be
// read any more.
func (s *Service) pieceOf(ctx context.Context, e hub.LandingEntry) (*Piece, error) {
	if e.Handoff == "" || s.work == nil {
		return nil, nil
	}
	piece, err := s.work.Piece(ctx, hub.Caller{ID: hub.Self, Auditor: true}, e.Handoff)
	if err != nil {
		return nil, ignoreMissing(err)
	}
	return &piece, nil
}

// lookAtHandoffs queues completed handoffs, if the policy says so, and asks for their reviews.
func (w *worker) lookAtHandoffs(ctx context.Context) error {
	if w.s.work == nil {
		return nil
	}
	done, err := w.s.work.Completed(ctx, w.policy.SetAt, maxCompleted)
	if err != nil {
		return err
	}
	for _, id := range done {
		if slices.Contains(w.passed, id) {
			continue
		}
		isDone, err := w.takeHandoff(ctx, id)
		if err != nil {
			w.s.log.Warn("cannot land a handoff", "op", "landing.auto", "handoff", id, "err", err)
			continue
		}
		if isDone {
			w.passed = append(w.passed, id)
		}
	}
	if n := len(w.passed) - 2*maxCompleted; n > 0 {
		w.passed = slices.Delete(w.passed, 0, n)
	}
	return nil
}

// takeHandoff queues the work of a completed handoff, and reports whether there is nothing more
// to do for it.
func (w *worker) takeHandoff(ctx context.Context, id hub.HandoffID) (isDone bool, err error) {
	known, err := hub.Read(ctx, w.s.store, func(r hub.Reader) ([]hub.LandingEntry, error) {
		return r.Landings().Entries(hub.LandingQuery{Handoff: id, Limit: 1})
	})
	if err != nil || len(known) > 0 {
		return true, err
	}
	actor := hub.Caller{ID: hub.Self, Auditor: true}
	piece, err := w.s.work.Piece(ctx, actor, id)
	if err != nil {
		return true, ignoreMissing(err)
	}
	repository, err := w.s.git.Repository(ctx, piece.Folder)
	if err != nil || repository != w.policy.Repository {
		return true, nil // it is the work of another repository, or of none
	}
	if piece.Missing != "" {
		return false, nil // its checks may still run
	}

	isAuto := w.policy.By == hub.LandingAuto
	if !isAuto {
		return w.askForHandoff(ctx, piece)
	}
	p, e, got, err := w.s.compose(ctx, actor, Request{Handoff: id, Into: w.policy.Into})
	if err != nil {
		return true, err
	}
	_, err = w.s.enter(ctx, actor, p, e, got)
	return true, err
}

// askForHandoff asks for the review of a handoff that is not queued by itself.
func (w *worker) askForHandoff(ctx context.Context, piece Piece) (isDone bool, err error) {
	c, err := w.s.git.Resolve(ctx, w.policy.Repository, piece.Commit)
	if err != nil {
		return true, ignoreMissing(err)
	}
	e := hub.LandingEntry{Machine: w.policy.Machine, Repository: w.policy.Repository, Into: w.policy.Into, Commit: c.ID, Tree: c.Tree, Owner: piece.Owner, Handoff: piece.Handoff, Ref: string(piece.Handoff)}
	ask, err := w.s.question(ctx, w.policy, e, &piece)
	if err != nil || ask == nil {
		return true, err
	}
	return true, w.update(ctx, func(c *change) error { return c.ask(piece.Handoff, e, ask) })
}

// lookForReviews asks for the reviews of completed handoffs whose repositories have no queue.
func (s *Service) lookForReviews(ctx context.Context, policies []hub.LandingPolicy) error {
	now := s.clock.Now()
	if s.work == nil || now.Sub(s.looked.Time) < lookEvery {
		return nil
	}
	s.looked = now
	done, err := s.work.Completed(ctx, now.Add(-reviewAge), maxCompleted)
	if err != nil {
		return err
	}
	for _, id := range done {
		if slices.Contains(s.passed, id) {
			continue
		}
		isDone, err := s.reviewHandoff(ctx, id, policies)
		if err != nil {
			s.log.Warn("cannot ask for the review of a handoff", "op", "landing.Reviews", "handoff", id, "err", err)
		}
		if isDone || err != nil {
			s.passed = append(s.passed, id)
		}
	}
	if n := len(s.passed) - 2*maxCompleted; n > 0 {
		s.passed = slices.Delete(s.passed, 0, n)
	}
	return nil
}

// reviewHandoff asks for the review of a completed handoff, and reports whether there is nothing
// more to do for it.
func (s *Service) reviewHandoff(ctx context.Context, id hub.HandoffID, policies []hub.LandingPolicy) (isDone bool, err error) {
	piece, err := s.work.Piece(ctx, hub.Caller{ID: hub.Self, Auditor: true}, id)
	isAsked := piece.Review != "" || piece.Doubt != ""
	if err != nil || !isAsked || piece.Base == "" {
		return true, ignoreMissing(err)
	}
	repository, err := s.git.Repository(ctx, piece.Folder)
	hasQueue := slices.ContainsFunc(policies, func(p hub.LandingPolicy) bool { return p.Machine == s.machine && p.Repository == repository })
	if err != nil || hasQueue {
		return true, nil // the queue asks
	}
	if piece.Missing != "" {
		return false, nil // its checks may still run
	}
	for _, revision := range []string{piece.Base, piece.Commit} {
		if _, err := s.git.Resolve(ctx, repository, revision); err != nil {
			return true, err
		}
	}

	e := hub.LandingEntry{Machine: s.machine, Repository: repository, Commit: piece.Commit, Owner: piece.Owner, Handoff: id, Ref: string(id)}
	ask, err := s.question(ctx, hub.LandingPolicy{Repository: repository}, e, &piece)
	if err != nil || ask == nil {
		return true, err
	}
	return true, s.update(ctx, self, nil, func(c *change) error { return c.ask(id, e, ask) })
}

package landing

import (
	"context"
	"slices"

	"github.com/parley-agents/parley/hub"
)

// look reads the world outside of the queue from time to time: new commits on the branches of
// returned entries, and finished work.
func (w *worker) look(ctx context.Context) error {
	now := w.s.clock.Now()
	if now.Sub(w.looked.Time) < lookEvery {
		return nil
	}
	w.looked = now
	if err := w.lookAtBranches(ctx); err != nil {
		return err
	}
	return w.lookAtWork(ctx)
}

// lookAtBranches queues returned entries again whose branches have new commits. The work of a
// handoff or a task is queued again when its owner completes it.
func (w *worker) lookAtBranches(ctx context.Context) error {
	returned, err := hub.Read(ctx, w.s.store, func(r hub.Reader) ([]hub.LandingEntry, error) {
		return r.Landings().Entries(hub.LandingQuery{Queue: w.id, States: []hub.LandingState{hub.EntryReturned}, Newest: true, Limit: maxReturned})
	})
	if err != nil {
		return err
	}
	for _, e := range returned {
		if e.Branch == "" || e.Subject() != "" {
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
	e.Commit = now.ID
	e.Tree = now.Tree
	e.Fewer = ""
	e.Judged = nil
	ask, err := w.s.question(ctx, w.policy, e, nil)
	if err != nil {
		return err
	}
	return w.update(ctx, func(c *change) error {
		e.QueuedAt = c.now
		_, err := c.admit(w.policy, e, ask)
		return err
	})
}

// pieceOf returns the work of an entry's handoff or task; nil if it has none, or it cannot be read
// any more.
func (s *Service) pieceOf(ctx context.Context, e hub.LandingEntry) (*Piece, error) {
	if e.Subject() == "" || s.work == nil {
		return nil, nil
	}
	piece, err := s.work.Piece(ctx, hub.Caller{ID: hub.Self, Auditor: true}, Subject{e.Handoff, e.Task})
	if err != nil {
		return nil, ignoreMissing(err)
	}
	return &piece, nil
}

// lookAtWork queues finished work, if the policy says so, and asks for its reviews. Work that was
// returned is queued again once its owner has completed it again.
func (w *worker) lookAtWork(ctx context.Context) error {
	if w.s.work == nil {
		return nil
	}
	since := w.s.clock.Now().Add(-reviewAge) // of reviews; older work is not queued by itself
	if w.policy.SetAt.Before(since.Time) {
		since = w.policy.SetAt
	}
	done, err := w.s.work.Completed(ctx, since, maxCompleted)
	if err != nil {
		return err
	}
	for _, f := range done {
		if slices.Contains(w.passed, f) {
			continue
		}
		isDone, err := w.takeWork(ctx, f)
		if err != nil {
			w.s.log.Warn("cannot land finished work", "op", "landing.auto", "subject", f.Subject, "err", err)
			continue
		}
		if isDone {
			w.passed = append(w.passed, f)
		}
	}
	if n := len(w.passed) - 2*maxCompleted; n > 0 {
		w.passed = slices.Delete(w.passed, 0, n)
	}
	return nil
}

// takeWork queues finished work, and reports whether there is nothing more to do for it.
func (w *worker) takeWork(ctx context.Context, f Finished) (isDone bool, err error) {
	known, err := hub.Read(ctx, w.s.store, func(r hub.Reader) ([]hub.LandingEntry, error) {
		return r.Landings().Entries(hub.LandingQuery{Subject: f.String(), Newest: true, Limit: 1})
	})
	if err != nil {
		return true, err
	}
	isRepaired := len(known) > 0 && known[0].State == hub.EntryReturned && known[0].MovedAt.Before(f.At.Time)
	if len(known) > 0 && !isRepaired {
		return true, nil
	}
	actor := hub.Caller{ID: hub.Self, Auditor: true}
	piece, err := w.s.work.Piece(ctx, actor, f.Subject)
	if err != nil {
		return true, ignoreMissing(err)
	}
	repository, err := w.s.git.Repository(ctx, piece.Folder)
	if err != nil || repository != w.policy.Repository {
		return true, nil // it is the work of another repository, or of none
	}
	isNew := !f.At.Before(w.policy.SetAt.Time)
	isQueued := (w.policy.By == hub.LandingAuto && isNew) || isRepaired
	if piece.Missing != "" {
		if piece.Review != "" && piece.IsDone { // it cannot land, and is reviewed
			return w.askForHandoff(ctx, piece)
		}
		return false, nil // its checks may still run
	}
	if !isQueued {
		return w.askForHandoff(ctx, piece)
	}
	if piece.Task != "" && !isRepaired {
		if isIn, err := w.hasCommit(ctx, piece.Commit); err != nil || isIn {
			return true, err // the task changed nothing
		}
	}
	p, e, got, err := w.s.compose(ctx, actor, Request{Handoff: f.Handoff, Task: f.Task, Into: w.policy.Into})
	if err != nil {
		return true, err
	}
	_, err = w.s.enter(ctx, actor, p, e, got)
	return true, err
}

// hasCommit reports whether the target has a commit.
func (w *worker) hasCommit(ctx context.Context, commit string) (bool, error) {
	c, err := w.s.git.Resolve(ctx, w.policy.Repository, commit)
	if err != nil {
		return false, err
	}
	head, err := w.s.git.Branch(ctx, w.policy.Repository, w.policy.Into)
	if err == nil {
		head, err = w.s.git.Resolve(ctx, w.policy.Repository, head.ID)
	}
	if err != nil {
		return false, err
	}
	return w.s.git.Contains(ctx, w.policy.Repository, head.ID, c.ID)
}

// askForHandoff asks for the review of a handoff that is not queued by itself. The review of a task
// is that of its team, until it is queued.
func (w *worker) askForHandoff(ctx context.Context, piece Piece) (isDone bool, err error) {
	if piece.Handoff == "" {
		return true, nil
	}
	c, err := w.s.git.Resolve(ctx, w.policy.Repository, piece.Commit)
	if err != nil {
		return true, ignoreMissing(err)
	}
	e := hub.LandingEntry{Machine: w.policy.Machine, Repository: w.policy.Repository, Into: w.policy.Into, Commit: c.ID, Tree: c.Tree, Owner: piece.Owner, Handoff: piece.Handoff, Ref: piece.ref()}
	ask, err := w.s.question(ctx, w.policy, e, &piece)
	if err != nil || !ask.isAsked() {
		return true, err
	}
	return true, w.update(ctx, func(c *change) error { return c.ask(piece.Handoff, e, ask) })
}

// lookForReviews asks for the reviews of completed handoffs whose repositories have no queue. The
// review of a task is that of its team.
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
	for _, f := range done {
		if f.Handoff == "" || slices.Contains(s.passed, f) {
			continue
		}
		isDone, err := s.reviewHandoff(ctx, f.Handoff, policies)
		if err != nil {
			s.log.Warn("cannot ask for the review of a handoff", "op", "landing.Reviews", "handoff", f.Handoff, "err", err)
		}
		if isDone || err != nil {
			s.passed = append(s.passed, f)
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
	piece, err := s.work.Piece(ctx, hub.Caller{ID: hub.Self, Auditor: true}, Subject{Handoff: id})
	isAsked := piece.Review != "" || piece.Fewer != ""
	if err != nil || !isAsked || piece.Commit == "" {
		return true, ignoreMissing(err)
	}
	repository, err := s.git.Repository(ctx, piece.Folder)
	if err != nil {
		return true, s.askUnread(ctx, piece, err)
	}
	hasQueue := slices.ContainsFunc(policies, func(p hub.LandingPolicy) bool { return p.Machine == s.machine && p.Repository == repository })
	if hasQueue {
		return true, nil // the queue asks
	}
	if piece.Missing != "" && !piece.IsDone {
		return false, nil // its checks may still run
	}
	if piece.Base == "" { // the task was accepted before the repository had a commit, or elsewhere
		piece.Base = piece.Commit
	}
	for _, revision := range []string{piece.Base, piece.Commit} {
		if _, err := s.git.Resolve(ctx, repository, revision); err != nil {
			return true, s.askUnread(ctx, piece, err)
		}
	}

	e := hub.LandingEntry{Machine: s.machine, Repository: repository, Commit: piece.Commit, Owner: piece.Owner, Handoff: id, Ref: piece.ref()}
	ask, err := s.question(ctx, hub.LandingPolicy{Repository: repository}, e, &piece)
	if err != nil || !ask.isAsked() {
		return true, err
	}
	return true, s.update(ctx, self, nil, func(c *change) error { return c.ask(id, e, ask) })
}

// askUnread asks the operator for the review of work that the hub cannot read: no review is dropped.
func (s *Service) askUnread(ctx context.Context, piece Piece, cause error) error {
	if ctx.Err() != nil || hub.Unavailable(cause) || piece.Review == "" {
		return cause
	}
	q := &question{
		all: []string{piece.Review}, who: piece.Review, commit: piece.Commit, authors: append([]hub.AgentID{piece.Owner}, piece.Authors...), title: piece.Title, cut: true,
		note: "the hub cannot read the work: " + cause.Error(),
	}
	if err := s.keepPatch(q, Patch{}); err != nil {
		return err
	}
	e := hub.LandingEntry{Machine: s.machine, Repository: piece.Folder, Commit: piece.Commit, Owner: piece.Owner, Handoff: piece.Handoff, Ref: piece.ref()}
	return s.update(ctx, self, nil, func(c *change) error { return c.ask(piece.Handoff, e, q) })
}

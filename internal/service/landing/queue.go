package landing

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

// A Request asks to land a change.
type Request struct {
	Ref      string        // a branch or a commit; ignored for a handoff and a task
	Handoff  hub.HandoffID // whose work lands
	Task     hub.TaskID    // of a team, whose work lands
	Folder   string        // in the repository; not needed for a handoff and a task
	Into     string        // the target branch; "" if the repository has one queue
	Priority hub.Priority  // "" for normal
}

// subject returns the handoff or the task of a request; the zero value for none.
func (q Request) subject() Subject {
	if q.Handoff != "" {
		return Subject{Handoff: q.Handoff}
	}
	return Subject{Task: q.Task}
}

// Land puts a change into the queue of its repository. An entry for the same handoff, task or branch
// that is open or was returned gets the new commit. Agents may queue their own work.
func (s *Service) Land(ctx context.Context, actor hub.Caller, q Request) (hub.LandingEntry, error) {
	const op = "landing.Land"
	if err := mayQueue(op, actor, q); err != nil {
		return hub.LandingEntry{}, err
	}
	p, e, piece, err := s.compose(ctx, actor, q)
	if err != nil {
		return e, err
	}
	return s.enter(ctx, actor, p, e, piece)
}

// mayQueue refuses callers that queue nothing, and requests that are not well formed.
func mayQueue(op string, actor hub.Caller, q Request) error {
	switch {
	case actor.Paused:
		return hub.Errorf(hub.CodeDenied, op, "%s is paused", actor.ID)
	case q.subject() == (Subject{}) && (q.Ref == "" || len(q.Ref) > maxRef || strings.HasPrefix(q.Ref, "-")):
		return hub.Errorf(hub.CodeInvalid, op, "a handoff, task, branch or commit is required, got %.100q", q.Ref)
	case q.Priority != "" && !q.Priority.Known():
		return hub.Errorf(hub.CodeInvalid, op, "unknown priority %.50q", q.Priority)
	case q.Priority != "" && !actor.IsOperator():
		return hub.Errorf(hub.CodeDenied, op, "only the operator sets the priority of an entry")
	}
	return nil
}

// compose finds the policy and the commit of a request. The piece is that of a handoff or a task.
func (s *Service) compose(ctx context.Context, actor hub.Caller, q Request) (hub.LandingPolicy, hub.LandingEntry, *Piece, error) {
	const op = "landing.Land"
	var piece *Piece
	revision := q.Ref
	owner := actor.ID
	subject := q.subject()
	if subject != (Subject{}) {
		if s.work == nil {
			return hub.LandingPolicy{}, hub.LandingEntry{}, nil, hub.Errorf(hub.CodeNotEnabled, op, "this hub cannot land handoffs and tasks")
		}
		got, err := s.work.Piece(ctx, actor, subject)
		if err != nil {
			return hub.LandingPolicy{}, hub.LandingEntry{}, nil, err
		}
		if got.Owner != actor.ID && !actor.IsOperator() && actor.ID != hub.Self {
			return hub.LandingPolicy{}, hub.LandingEntry{}, nil, hub.Errorf(hub.CodeDenied, op, "%s did this work: only it and the operator may land it", got.Owner)
		}
		if got.Missing != "" {
			return hub.LandingPolicy{}, hub.LandingEntry{}, nil, hub.Errorf(hub.CodeConflict, op, "%s cannot land: %s", subject, got.Missing)
		}
		piece = &got
		q.Folder = got.Folder
		revision = got.Commit
		owner = got.Owner
		q.Ref = got.ref()
		if q.Priority == "" {
			q.Priority = got.Priority
		}
	}
	if q.Priority == "" {
		q.Priority = hub.PriorityNormal
	}

	p, err := s.Policy(ctx, q.Folder, q.Into)
	if err != nil {
		return p, hub.LandingEntry{}, nil, err
	}
	c, err := s.git.Resolve(ctx, p.Repository, revision)
	if err != nil {
		return p, hub.LandingEntry{}, nil, err
	}
	e := hub.LandingEntry{
		Machine: p.Machine, Repository: p.Repository, Into: p.Into, Ref: q.Ref, Commit: c.ID, Tree: c.Tree, Owner: owner, Handoff: subject.Handoff, Task: subject.Task, Priority: q.Priority,
		State: hub.EntryQueued,
	}
	if piece != nil {
		e.Branch = piece.Branch
		e.Checks = piece.Checks
	} else if head, err := s.git.Branch(ctx, p.Repository, q.Ref); err == nil && head.ID == c.ID {
		e.Branch = q.Ref
	}
	if piece != nil && e.Branch == p.Into {
		e.Branch = "" // the work was done on the target itself
	}
	if e.Branch == p.Into {
		return p, e, nil, hub.Errorf(hub.CodeInvalid, op, "%s is the target itself", p.Into).WithHint("commit on another branch, and land that one")
	}
	if piece == nil {
		if e, err = s.withHolder(ctx, actor, e); err != nil {
			return p, e, nil, err
		}
	}
	return p, e, piece, nil
}

// withHolder returns an entry that was queued as a branch or a commit with the handoff whose work it
// has: the review and the checks of that package count here, too. The operator's own commits are held
// only by what the operator asked for.
func (s *Service) withHolder(ctx context.Context, actor hub.Caller, e hub.LandingEntry) (hub.LandingEntry, error) {
	if s.work == nil {
		return e, nil
	}
	held, err := s.work.Held(ctx, e.Repository, s.clock.Now().Add(-heldFor), maxHeld)
	if err != nil || len(held) == 0 {
		return e, err
	}
	head, err := s.git.Branch(ctx, e.Repository, e.Into)
	if err != nil {
		return e, err
	}
	if head, err = s.git.Resolve(ctx, e.Repository, head.ID); err != nil {
		return e, err
	}
	held = slices.DeleteFunc(held, func(p Piece) bool { return p.Review == "" && len(p.Checks) == 0 })
	missing, err := s.git.Missing(ctx, e.Repository, head.ID, e.Commit, commitsOf(held))
	if err != nil {
		return e, err
	}
	for _, piece := range held {
		has, isMissing := missing[piece.Commit]
		same, err := s.isSameWork(ctx, head.ID, e, piece, isMissing)
		if err != nil {
			return e, err
		}
		isPersons := actor.IsOperator() && piece.Asker != hub.Operator
		if !has && (!same || isPersons) {
			continue
		}
		switch {
		case piece.Task != "": // its team did not accept it yet
			e.Asks = append(e.Asks, piece.Review)
		case e.Holder == "" || piece.Review != "":
			e.Holder = piece.Handoff
		}
		for _, name := range piece.Checks {
			if !slices.Contains(e.Checks, name) {
				e.Checks = append(e.Checks, name)
			}
		}
	}
	return e, nil
}

// commitsOf returns the commits of some work.
func commitsOf(all []Piece) (out []string) {
	for _, p := range all {
		if p.Commit != "" {
			out = append(out, p.Commit)
		}
	}
	return out
}

// isSameWork reports whether an entry has the work of a handoff or a task though not its commit: it has
// its branch, or a commit with the same patch. isMissing says that the target lacks the commit.
func (s *Service) isSameWork(ctx context.Context, head string, e hub.LandingEntry, piece Piece, isMissing bool) (bool, error) {
	isBranch := piece.Branch != "" && piece.Branch == e.Branch
	switch {
	case isBranch && !isMissing && piece.Commit != "":
		isLanded, err := s.git.Contains(ctx, e.Repository, head, piece.Commit)
		return !isLanded, err
	case isBranch:
		return true, nil
	case !isMissing:
		return false, nil
	}
	if _, err := s.git.Resolve(ctx, e.Repository, piece.Commit); err != nil { // it is gone
		return false, ignoreMissing(err)
	}
	return s.git.SamePatch(ctx, e.Repository, head, e.Commit, piece.Commit)
}

// heldIn returns the work whose commits a change has and the target has not.
func (s *Service) heldIn(ctx context.Context, repository, target, commit string) (out []Piece, err error) {
	if s.work == nil {
		return nil, nil
	}
	held, err := s.work.Held(ctx, repository, s.clock.Now().Add(-heldFor), maxHeld)
	if err != nil || len(held) == 0 {
		return nil, err
	}
	missing, err := s.git.Missing(ctx, repository, target, commit, commitsOf(held))
	return slices.DeleteFunc(held, func(p Piece) bool { return !missing[p.Commit] }), err
}

// enter stores an entry in the state in which it enters the queue. An entry for the same work
// takes the new commit.
func (s *Service) enter(ctx context.Context, actor hub.Caller, p hub.LandingPolicy, e hub.LandingEntry, piece *Piece) (hub.LandingEntry, error) {
	const op = "landing.Land"
	before, err := hub.Read(ctx, s.store, func(r hub.Reader) (hub.LandingEntry, error) { return sameWork(r, e) })
	if err != nil {
		return e, err
	}
	before.Handoff = e.Handoff
	before.Task = e.Task
	before.Owner = e.Owner
	before.Ref = e.Ref
	if before.Commit != e.Commit {
		before.Fewer = ""
		before.TakesBack = ""
		before.Judged = nil
	}
	before.Checks = e.Checks
	before.Commit = e.Commit
	before.Repository = e.Repository
	before.Holder = e.Holder
	before.Asks = e.Asks
	ask, err := s.question(ctx, p, before, piece)
	if err != nil {
		return e, err
	}
	var out hub.LandingEntry
	err = s.update(ctx, actor, nil, func(c *change) error {
		known, err := sameWork(c.tx, e)
		if err != nil {
			return err
		}
		isRepeated := piece != nil && known.MovedAt.Before(piece.Ended.Time) // its owner completed it again
		switch {
		case known.ID == "":
			known = e
			known.QueuedAt = c.now
			if err := c.hasRoom(op); err != nil {
				return err
			}
		case known.Owner != actor.ID && !actor.IsOperator() && actor.ID != hub.Self:
			return hub.Errorf(hub.CodeDenied, op, "%s of %s has this work in the queue", known.ID, known.Owner)
		case s.isMoving(known):
			return hub.Errorf(hub.CodeConflict, op, "%s is landing now", known.ID)
		case known.Commit == e.Commit && known.State == hub.EntryReturned && !isRepeated:
			return hub.Errorf(hub.CodeConflict, op, "%.12s was returned: %s", e.Commit, known.Reason).
				WithHint("commit a repair and land that, or try the same again: parley land retry %s", known.ID)
		case known.Commit == e.Commit && known.State != hub.EntryReturned && !(actor.IsOperator() && known.Waits == hub.WaitsForOperator):
			out = known
			return nil
		default:
			if known.Commit != e.Commit {
				known.Fewer = ""
				known.TakesBack = ""
				known.Takes = nil
			}
			known.Commit = e.Commit
			known.Tree = e.Tree
			known.Ref = e.Ref
			known.QueuedAt = c.now
		}
		known.Checks = e.Checks
		known.Holder = e.Holder
		known.Asks = e.Asks
		if actor.IsOperator() {
			known.Approved = hub.Operator
		}
		if out, err = c.admit(p, known, ask); err != nil {
			return err
		}
		return c.tellHolder(out)
	})
	return out, err
}

// tellHolder tells the owner of a handoff that another agent queued its work.
func (c *change) tellHolder(e hub.LandingEntry) error {
	if e.Holder == "" {
		return nil
	}
	h, err := c.tx.Handoff(e.Holder)
	if err != nil || h.To == e.Owner {
		return ignoreMissing(err)
	}
	reason := e.Reason
	if reason == "" {
		reason = "it is tried now"
	}
	return c.post(notice{
		to: []hub.AgentID{h.To}, priority: hub.PriorityNormal, summary: fmt.Sprintf("%s queued your work (%s) as %s for %s: %s", e.Owner, e.Ref, e.ID, e.Into, reason),
		next: "parley show " + string(e.ID), members: map[string]any{"landing": e.ID, "ref": e.Ref, "commit": e.Commit, "handoff_id": e.Holder},
	})
}

// sameWork returns the entry with the handoff, the task or the branch of another, if it is open or was
// returned; one without an id if there is none.
func sameWork(r hub.Reader, e hub.LandingEntry) (hub.LandingEntry, error) {
	q := hub.LandingQuery{Queue: e.Queue(), Subject: e.Subject(), States: append(slices.Clone(hub.OpenLandings), hub.EntryReturned), Newest: true, Limit: maxOpen}
	all, err := r.Landings().Entries(q)
	for _, known := range all {
		isSame := known.Commit == e.Commit || (e.Branch != "" && known.Branch == e.Branch)
		if known.Undoes == e.Undoes && (e.Subject() != "" || isSame) {
			return known, err
		}
	}
	return hub.LandingEntry{}, err
}

// hasRoom refuses an entry beyond the limit of open entries.
func (c *change) hasRoom(op string) error {
	open, err := c.tx.Landings().Entries(hub.LandingQuery{States: hub.OpenLandings, Limit: maxOpen})
	if err == nil && len(open) >= maxOpen {
		err = hub.Errorf(hub.CodeTooLarge, op, "%d entries wait to land, which is the most", maxOpen).WithHint("wait, or cancel some: parley land cancel ID")
	}
	return err
}

// admit puts an entry into the queue, or lets it wait for the review or the operator.
func (c *change) admit(p hub.LandingPolicy, e hub.LandingEntry, ask *question) (hub.LandingEntry, error) {
	review, err := reviewed(c.tx, e, ask)
	if err != nil {
		return e, err
	}
	wait, reason := admission(p, e, review, ask)
	state := hub.EntryQueued
	if wait != "" {
		state = hub.EntryWaiting
	}
	if e.ID == "" { // the next steps in its answer name it
		e.State = hub.EntryQueued
		if e.ID, err = c.nextEntry(); err != nil {
			return e, err
		}
	}
	if e, err = e.Advance(state, c.now); err != nil {
		return e, err
	}
	e.Waits = wait
	e.Reason = reason
	e.Reviewers = nil
	if ask != nil {
		e.Reviewers = ask.all
		e.Judged = ask.judged
		if wait == hub.WaitsForReview {
			e.Missing = missingReview(e, ask.who, ask.why())
			if why := ask.noOther(); why != "" {
				e.Missing = missingReview(e, string(hub.Operator), joined(ask.why(), why))
				e.Missing[0].Next += ", or start an agent of another vendor"
			}
		}
	}
	if e, err = c.put(e, actions.LandingQueued); err != nil {
		return e, err
	}

	switch wait {
	case hub.WaitsForReview:
		return e, c.ask(ask.handoffOf(e), e, ask)
	case hub.WaitsForOperator:
		return e, c.tellOperator(fmt.Sprintf("%s of %s waits for your yes to land in %s", e.ID, e.Owner, e.Into),
			"parley approve "+string(e.ID), hub.NoticeSubject{Kind: hub.NoticeLanding, ID: string(e.ID)})
	}
	return e, nil
}

// nextEntry returns the id that the store gives to a new entry of this transaction.
func (c *change) nextEntry() (hub.LandingID, error) {
	last, err := c.tx.Landings().Entries(hub.LandingQuery{Newest: true, Limit: 1})
	if err != nil || len(last) == 0 {
		return hub.NewLandingID(1), err
	}
	return hub.NewLandingID(last[0].ID.Number() + 1), nil
}

// admission returns what an entry has to wait for before it is tried; "" for nothing.
func admission(p hub.LandingPolicy, e hub.LandingEntry, review hub.ReviewState, ask *question) (hub.LandingWait, string) {
	isApproved := e.Approved != ""
	switch {
	case e.Returns >= maxReturns && !isApproved:
		return hub.WaitsForOperator, fmt.Sprintf("it was returned %d times: the operator decides", e.Returns)
	case ask.isAsked() && review != hub.ReviewStateApproved:
		reason := "waits for the review of " + ask.who
		if why := joined(ask.why(), ask.noOther()); why != "" {
			reason += ": " + why
		}
		return hub.WaitsForReview, reason
	case p.By == hub.LandingOperator && !isApproved:
		return hub.WaitsForOperator, "waits for the operator"
	}
	return "", ""
}

// Cancel takes an entry out of its queue: its owner, or the operator.
func (s *Service) Cancel(ctx context.Context, actor hub.Caller, id hub.LandingID, reason string) (out hub.LandingEntry, err error) {
	const op = "landing.Cancel"
	err = s.update(ctx, actor, nil, func(c *change) error {
		e, err := c.owned(op, id)
		if err != nil {
			return err
		}
		if s.isMoving(e) {
			return hub.Errorf(hub.CodeConflict, op, "%s is landing now", id).WithHint("undo it afterwards: parley land undo %s", id)
		}
		out, err = c.advance(e, hub.EntryCancelled, actions.LandingCancelled, func(e *hub.LandingEntry) {
			e.Reason = reason
			if reason == "" {
				e.Reason = "cancelled by " + string(actor.ID)
			}
		})
		if err != nil || e.Owner == actor.ID {
			return err
		}
		return c.post(notice{to: []hub.AgentID{e.Owner}, priority: hub.PriorityNormal, summary: fmt.Sprintf("%s (%s) was cancelled: %s", e.ID, e.Ref, out.Reason),
			members: map[string]any{"landing": e.ID}})
	})
	return out, err
}

// Retry queues an entry again: one that was returned, or one that waits. The yes of the operator
// counts for an entry that waits for it.
func (s *Service) Retry(ctx context.Context, actor hub.Caller, id hub.LandingID) (out hub.LandingEntry, err error) {
	const op = "landing.Retry"
	var e hub.LandingEntry
	var p hub.LandingPolicy
	err = s.store.View(ctx, func(r hub.Reader) (err error) {
		if e, err = r.Landings().Entry(id); err != nil {
			return err
		}
		p, err = policyOf(r, e.Queue())
		return err
	})
	if err != nil {
		return e, err
	}
	piece, err := s.pieceOf(ctx, e)
	if err != nil {
		return e, err
	}
	if piece != nil && piece.Missing != "" && !e.Waived() {
		return e, hub.Errorf(hub.CodeConflict, op, "%s cannot land: %s", piece.Subject, piece.Missing).WithHint("it is queued again when its owner completes it")
	}
	ask, err := s.question(ctx, p, e, piece)
	if err != nil {
		return e, err
	}

	err = s.update(ctx, actor, nil, func(c *change) error {
		e, err := c.owned(op, id)
		if err != nil {
			return err
		}
		if e.State != hub.EntryReturned && e.State != hub.EntryWaiting {
			return hub.Errorf(hub.CodeConflict, op, "%s is %s: only entries that were returned or wait are tried again", id, e.State)
		}
		if actor.IsOperator() {
			e.Approved = hub.Operator
		}
		e.QueuedAt = c.now
		out, err = c.admit(p, e, ask)
		return err
	})
	return out, err
}

// Undo queues a commit that takes back a landing. An agent's undo needs the word of the reviewer of the
// policy, else of the operator; the operator's has it, and gives it to the undo of an agent that waits.
func (s *Service) Undo(ctx context.Context, actor hub.Caller, id hub.LandingID, because string) (out hub.LandingEntry, err error) {
	const op = "landing.Undo"
	if len(because) > maxReason {
		return out, hub.Errorf(hub.CodeTooLarge, op, "the reason must be at most %d bytes, got %d", maxReason, len(because))
	}
	e, p, err := s.entryWithPolicy(ctx, op, id)
	if err != nil {
		return out, err
	}
	undo := hub.LandingEntry{
		Machine: e.Machine, Repository: e.Repository, Into: e.Into, Ref: "undo " + string(id), Commit: e.LandedCommit, Owner: actor.ID, Priority: hub.PriorityHigh,
		Undoes: id, State: hub.EntryQueued, Because: because,
	}
	var ask *question
	isUndoable := e.State == hub.EntryLanded && e.LandedCommit != ""
	if !actor.IsOperator() && isUndoable {
		undo.TakesBack = fmt.Sprintf("takes back %s (%s) of %s", id, e.Ref, e.Owner)
		if ask, err = s.question(ctx, p, undo, nil); err != nil {
			return out, err
		}
	}
	err = s.update(ctx, actor, nil, func(c *change) error {
		e, err := c.owned(op, id)
		if err != nil {
			return err
		}
		if e.State != hub.EntryLanded {
			return hub.Errorf(hub.CodeConflict, op, "%s is %s: only a landing can be undone", id, e.State)
		}
		before, err := c.tx.Landings().Entries(hub.LandingQuery{Queue: e.Queue(), Undoes: id, Newest: true, Limit: 1})
		if err != nil {
			return err
		}
		isTwice := len(before) > 0 && before[0].State != hub.EntryCancelled && before[0].State != hub.EntryUndone
		if isTwice {
			out = before[0]
			hasWord := out.State == hub.EntryLanded || (out.State.Open() && out.Approved != "")
			if !actor.IsOperator() || hasWord {
				return undoneTwice(op, id, out)
			}
			if out.State.Open() {
				out, err = c.adoptUndo(op, p, out, because)
				return err
			}
			_, err := c.advance(out, hub.EntryCancelled, actions.LandingCancelled, func(e *hub.LandingEntry) { e.Reason = "the operator undoes " + string(id) + " instead" })
			if err != nil {
				return err
			}
		}
		if err := c.hasRoom(op); err != nil {
			return err
		}
		undo.QueuedAt = c.now
		undo.MovedAt = c.now
		if actor.IsOperator() {
			undo.Approved = hub.Operator
		}
		out, err = c.admit(p, undo, ask)
		return err
	})
	return out, err
}

// undoneTwice refuses the undo of a landing that another entry undoes, with the next step of that one.
func undoneTwice(op string, id hub.LandingID, undo hub.LandingEntry) error {
	err := hub.Errorf(hub.CodeConflict, op, "%s undoes %s already and is %s", undo.ID, id, undo.State)
	switch {
	case undo.State == hub.EntryReturned:
		return err.WithHint("try it again: parley land retry %s", undo.ID)
	case undo.State == hub.EntryWaiting && len(undo.Missing) > 0:
		return err.WithHint("it waits for %s: %s", undo.Missing[0].Who, undo.Missing[0].Next)
	}
	return err.WithHint("parley show %s", undo.ID)
}

// adoptUndo gives the operator's word to an undo of an agent that is open: it needs no other.
func (c *change) adoptUndo(op string, p hub.LandingPolicy, e hub.LandingEntry, because string) (hub.LandingEntry, error) {
	if c.s.isMoving(e) {
		return e, hub.Errorf(hub.CodeConflict, op, "%s is landing now", e.ID).WithHint("parley show %s", e.ID)
	}
	reviews, err := reviewsOf(c.tx, e)
	if err != nil {
		return e, err
	}
	for _, v := range reviews {
		if v.State.Over() {
			continue
		}
		if v, err = v.Advance(hub.ReviewStateReplaced); err != nil {
			return e, err
		}
		if _, err := c.putReview(v, actions.ReviewGiven); err != nil {
			return e, err
		}
	}
	e.Approved = c.actor.ID
	e.Because = cmp.Or(because, e.Because)
	e.QueuedAt = c.now
	return c.admit(p, e, nil)
}

// owned returns an entry that the actor may change: its own, or any as the operator.
func (c *change) owned(op string, id hub.LandingID) (hub.LandingEntry, error) {
	e, err := c.tx.Landings().Entry(id)
	if hub.CodeOf(err) == hub.CodeNotFound {
		return e, hub.Errorf(hub.CodeNotFound, op, "no landing %.50q", id).WithHint("{landings} lists them")
	}
	if err == nil && e.Owner != c.actor.ID && !c.actor.IsOperator() {
		return e, hub.Errorf(hub.CodeDenied, op, "%s belongs to %s", id, e.Owner)
	}
	return e, err
}

package landing

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/shape"
)

// Handoffs is the part of the service of handoffs that landings need.
type Handoffs interface {
	// Work returns the work of a handoff that the actor may see.
	Work(ctx context.Context, actor hub.Caller, id hub.HandoffID) (hub.HandoffWork, error)
	// Return and Reviewed are those of Work, for a handoff.
	Return(tx hub.Tx, id hub.HandoffID, reason string) (active bool, posted []hub.Message, err error)
	Reviewed(tx hub.Tx, id hub.HandoffID, review *hub.Review) (posted []hub.Message, err error)
}

// Tasks is the part of the service of teams that landings need.
type Tasks interface {
	// Readable returns a task that the actor may see.
	Readable(r hub.Reader, actor hub.Caller, id hub.TaskID) (hub.Task, error)
	// Return is that of Work, for a task.
	Return(tx hub.Tx, id hub.TaskID, reason string) (active bool, posted []hub.Message, err error)
}

// Results reads the results of checks.
type Results interface {
	// Seen returns results by their ids, as readers see them.
	Seen(r hub.Reader, ids []hub.CheckResultID, withTails bool) ([]hub.CheckResult, error)
}

// Folders reads the folders of work.
type Folders interface {
	// Repository and Resolve are those of Git.
	Repository(ctx context.Context, folder string) (string, error)
	Resolve(ctx context.Context, repository, revision string) (Commit, error)
	// BranchOf returns the branch that is checked out in a folder under a root.
	BranchOf(ctx context.Context, folder string) (string, error)
	// CheckedOut returns the branch that is checked out in a folder; "" if that cannot be read.
	CheckedOut(ctx context.Context, folder string) string
}

// Pieces are the parts of which the Work of a hub is made.
type Pieces struct {
	Handoffs Handoffs
	Tasks    Tasks // nil on a hub without teams
	Results  Results
	Git      Folders
}

// NewWork returns the work of the handoffs, and of the tasks of teams, in a store.
func NewWork(store hub.Store, o Pieces) Work { return pieces{store, o} }

// pieces is the work of the handoffs and tasks of a hub.
type pieces struct {
	store hub.Store
	o     Pieces
}

// Piece implements Work.
func (l pieces) Piece(ctx context.Context, actor hub.Caller, s Subject) (Piece, error) {
	if s.Task == "" {
		return l.handoffPiece(ctx, actor, s.Handoff)
	}
	if l.o.Tasks == nil {
		return Piece{}, hub.Errorf(hub.CodeNotEnabled, "landing.Work", "this hub has no teams")
	}
	return l.taskPiece(ctx, actor, s.Task)
}

// Return implements Work.
func (l pieces) Return(tx hub.Tx, s Subject, reason string) (bool, []hub.Message, error) {
	if s.Task == "" {
		return l.o.Handoffs.Return(tx, s.Handoff, reason)
	}
	if l.o.Tasks == nil {
		return false, nil, nil
	}
	return l.o.Tasks.Return(tx, s.Task, reason)
}

// Reviewed implements Work.
func (l pieces) Reviewed(tx hub.Tx, id hub.HandoffID, review *hub.Review) ([]hub.Message, error) {
	return l.o.Handoffs.Reviewed(tx, id, review)
}

// Held implements Work.
func (l pieces) Held(ctx context.Context, repository string, since hub.Time, limit int) (out []Piece, err error) {
	folders := map[string]string{} // by piece
	err = l.store.View(ctx, func(r hub.Reader) error {
		found, err := r.Handoffs(hub.HandoffQuery{Owned: true, Limit: limit})
		for _, h := range found {
			if err != nil {
				return err
			}
			if h.InitiatedAt.Before(since.Time) || (h.Status == hub.HandoffClosed && h.Ending != hub.EndedDone) {
				continue
			}
			p, err := r.Checks().Progress(string(h.ID))
			if err != nil {
				return err
			}
			pkg, err := shape.DecodePackage(h.Package)
			if err != nil {
				continue
			}
			piece := Piece{
				Subject: Subject{Handoff: h.ID}, Folder: cmp.Or(p.Worktree, pkg.WorkState.Worktree), Commit: p.Commit, Base: p.Base, Branch: pkg.WorkState.Branch, Owner: h.To,
				Review: pkg.Review, Asker: h.From, Checks: pkg.Checks,
			}
			if piece.Folder != "" {
				folders[piece.Folder] = ""
				out = append(out, piece)
			}
		}
		if err != nil {
			return err
		}

		// Tasks of teams that were not accepted yet: their reviewer has to approve.
		tasks, err := r.Teamspaces().Tasks(hub.TaskQuery{States: []hub.TaskState{hub.TaskInProgress, hub.TaskInReview, hub.TaskRework}, Newest: true, Limit: limit})
		for _, t := range tasks {
			who := string(t.Reviewer)
			if who == "" && t.State == hub.TaskInReview {
				who = hub.ReviewerRolePrefix + string(hub.RoleReviewer)
			}
			if who == "" || t.Worktree == "" || t.Handoff != "" {
				continue
			}
			p, err := r.Checks().Progress(string(t.ID))
			if err != nil {
				return err
			}
			folders[t.Worktree] = ""
			out = append(out, Piece{Subject: Subject{Task: t.ID}, Folder: t.Worktree, Commit: p.Commit, Owner: t.Owner, Authors: t.Executors, Review: who, Asker: t.CreatedBy})
		}
		return err
	})
	if err != nil {
		return nil, err
	}

	for folder := range folders {
		if at, err := l.o.Git.Repository(ctx, folder); err == nil { // else the folder is gone
			folders[folder] = at
		}
	}
	out = slices.DeleteFunc(out, func(p Piece) bool { return folders[p.Folder] != repository })
	for i, p := range out {
		if p.Commit != "" {
			continue
		}
		branch, err := l.o.Git.BranchOf(ctx, p.Folder) // work under way, or submitted without a commit
		if err != nil {
			return nil, err
		}
		out[i].Branch = cmp.Or(p.Branch, branch)
		head, err := l.o.Git.Resolve(ctx, p.Folder, "HEAD")
		if err != nil && hub.CodeOf(err) != hub.CodeNotFound {
			return nil, err
		}
		out[i].Commit = head.ID
	}
	return out, nil
}

// unpassed has the texts about checks that keep work from
var unpassed = map[hub.ChecksWord]string{hub.ChecksRunning: "its checks run", hub.ChecksFailed: "its checks failed"}

// taskPiece returns the work of a task of a team. The work of a task that its owner got by a
// handoff is that of the handoff.
func (l pieces) taskPiece(ctx context.Context, actor hub.Caller, id hub.TaskID) (Piece, error) {
	var t hub.Task
	var p hub.Progress
	err := l.store.View(ctx, func(r hub.Reader) (err error) {
		if t, err = l.o.Tasks.Readable(r, actor, id); err != nil {
			return err
		}
		p, err = r.Checks().Progress(string(id))
		return err
	})
	if err != nil {
		return Piece{}, err
	}

	out := Piece{
		Subject: Subject{Task: id}, Folder: p.Worktree, Commit: p.Commit, Base: p.Base, Owner: t.Owner, Authors: t.Executors, Title: t.Title, Priority: hub.PriorityNormal, Checks: t.Checks, Ended: t.DoneAt,
	}
	if out.Folder == "" {
		out.Folder = t.Worktree
	}
	switch {
	case t.State != hub.TaskDone:
		out.Missing = "it is " + string(t.State)
	case t.Handoff != "":
		out.Missing = "its work belongs to the handoff " + string(t.Handoff)
	case unpassed[p.Checks] != "":
		out.Missing = unpassed[p.Checks]
	case out.Commit == "":
		out.Missing = "it has no commit"
	}
	out.Note, out.Fewer, err = l.results(ctx, p)
	return out, err
}

// handoffPiece returns the work of a handoff.
func (l pieces) handoffPiece(ctx context.Context, actor hub.Caller, id hub.HandoffID) (Piece, error) {
	r, err := l.o.Handoffs.Work(ctx, actor, id)
	if err != nil {
		return Piece{}, err
	}
	var p hub.Progress
	var short hub.ShortID
	err = l.store.View(ctx, func(r hub.Reader) (err error) {
		if p, err = r.Checks().Progress(string(id)); err != nil {
			return err
		}
		short, err = r.ShortID(string(id))
		return err
	})
	if err != nil {
		return Piece{}, err
	}
	pkg, err := shape.DecodePackage(r.Package)
	if err != nil {
		return Piece{}, err
	}

	out := Piece{
		Subject: Subject{Handoff: id}, Short: short, Folder: p.Worktree, Commit: p.Commit, Base: p.Base, Branch: pkg.WorkState.Branch, Owner: r.To, Title: r.Title, Criteria: pkg.Task.Criteria, Priority: pkg.Task.Priority, Review: pkg.Review, Asker: r.From, Checks: pkg.Checks, Ended: r.ResolvedAt,
	}
	if r.Restricted {
		out.Title = hub.RestrictedText
		out.Criteria = nil
	}
	if out.Folder == "" {
		out.Folder = pkg.WorkState.Worktree
	}
	if out.Commit == "" {
		out.Commit = r.Commit
	}
	for _, c := range r.Attribution {
		out.Authors = append(out.Authors, c.Agent)
	}
	if out.Branch == "" && out.Folder != "" {
		out.Branch = l.o.Git.CheckedOut(ctx, out.Folder)
	}

	out.IsDone = r.Ending == hub.EndedDone && unpassed[p.Checks] == ""

	// What is missing before the work may land.
	switch {
	case unpassed[p.Checks] != "":
		out.Missing = unpassed[p.Checks]
	case r.Ending != hub.EndedDone:
		out.Missing = "it is not completed"
	case r.Proof != hub.ProofVerified:
		out.Missing = "its work is not proven: " + string(r.Proof)
	case out.Commit == "":
		out.Missing = "its work is not committed"
	}
	out.Note, out.Fewer, err = l.results(ctx, p)
	return out, err
}

// results returns the results of the checks of work in one line, for its reviewer, and the note of
// one with fewer tests than before.
func (l pieces) results(ctx context.Context, p hub.Progress) (line, fewer string, err error) {
	all, err := hub.Read(ctx, l.store, func(r hub.Reader) ([]hub.CheckResult, error) { return l.o.Results.Seen(r, p.Results, false) })
	var parts []string
	for _, v := range all {
		text := v.Name + " " + string(v.State)
		if v.Note != "" {
			text += " (" + v.Note + ")"
		}
		if v.Fewer && fewer == "" {
			fewer = v.Note
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; "), fewer, err
}

// Completed implements Work.
func (l pieces) Completed(ctx context.Context, since hub.Time, limit int) ([]Finished, error) {
	return hub.Read(ctx, l.store, func(r hub.Reader) (out []Finished, err error) {
		found, err := r.Handoffs(hub.HandoffQuery{States: []hub.HandoffState{hub.HandoffClosed, hub.HandoffCompleted}, Limit: limit})
		for _, h := range found {
			if h.Ending == hub.EndedDone && !h.ResolvedAt.Before(since.Time) {
				out = append(out, Finished{Subject: Subject{Handoff: h.ID}, At: h.ResolvedAt})
			}
		}
		if err != nil || l.o.Tasks == nil {
			return out, err
		}
		tasks, err := r.Teamspaces().Tasks(hub.TaskQuery{States: []hub.TaskState{hub.TaskDone}, Newest: true, Limit: limit})
		for _, t := range tasks {
			isWork := t.Handoff == "" && t.Worktree != ""
			if isWork && !t.DoneAt.Before(since.Time) {
				out = append(out, Finished{Subject: Subject{Task: t.ID}, At: t.DoneAt})
			}
		}
		return out, err
	})
}

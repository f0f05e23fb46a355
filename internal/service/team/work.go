package team

import (
	"cmp"
	"context"
	"fmt"

	"github.com/parley-agents/parley/hub"
)

// A beginning is the state of a task's worktree when its owner began the work.
type beginning struct {
	Owner hub.AgentID   `json:"owner"`
	Name  hub.HandoffID `json:"name"` // under which the state is kept
	State hub.WorkState `json:"state"`
}

// beginningKey is where the beginning of a task is stored.
func beginningKey(id hub.TaskID) string { return "team/work/" + string(id) }

// readBeginning reads a task and the beginning of its owner's work, which is zero if none was recorded.
func readBeginning(r hub.Reader, id hub.TaskID) (t hub.Task, b beginning, err error) {
	if t, err = r.Teamspaces().Task(id); err != nil {
		return t, b, err
	}
	b, err = hub.ReadMeta[beginning](r, beginningKey(id))
	if b.Owner != t.Owner {
		b = beginning{}
	}
	return t, b, err
}

// beginWork records the state of the worktree of a task that gets an owner, or whose owner begins the
// work, for the transaction that changes the task. It returns a zero beginning if the hub cannot read the
// worktree: then the work is not compared.
func (s *Service) beginWork(ctx context.Context, owner hub.AgentID, worktree string) beginning {
	if s.works == nil || owner == "" || worktree == "" {
		return beginning{}
	}
	b := beginning{Owner: owner, Name: hub.HandoffID(s.ids.Next())}
	var err error
	if b.State, err = s.works.State(ctx, worktree, b.Name); err != nil {
		return beginning{}
	}
	return b
}

// beginAgain is beginWork for a task of a team that exists. A beginning of the same owner stays.
func (s *Service) beginAgain(ctx context.Context, in call, id hub.TaskID, owner hub.AgentID) beginning {
	var t hub.Task
	var known beginning
	err := s.store.View(ctx, func(rd hub.Reader) (err error) {
		t, known, err = readBeginning(rd, id)
		return err
	})
	owner = cmp.Or(owner, t.Owner)
	isKnown := known.Name != "" && known.Owner == owner
	if err != nil || t.Team != in.team || isKnown {
		return beginning{}
	}
	return s.beginWork(ctx, owner, t.Worktree)
}

// putBeginning stores the beginning of the work on a task, if there is one.
func (c *change) putBeginning(id hub.TaskID, b beginning) error {
	if b.Name == "" {
		return nil
	}
	return hub.WriteMeta(c.tx, beginningKey(id), b)
}

// checkWork refuses to submit a task for which nothing was done in its worktree, or only something
// trivial, unless the reason says why. It returns what a reviewer must know.
func (s *Service) checkWork(ctx context.Context, op string, in call, r MoveTask) (note string, err error) {
	if s.works == nil || r.State != hub.TaskInReview {
		return "", nil
	}
	var t hub.Task
	var b beginning
	err = s.store.View(ctx, func(rd hub.Reader) (err error) {
		t, b, err = readBeginning(rd, r.Task)
		return err
	})
	isAtWork := err == nil && t.Team == in.team && t.State == hub.TaskInProgress
	if !isAtWork || b.Name == "" {
		return "", nil // the transaction refuses what is wrong
	}

	change, err := s.works.Compare(ctx, hub.Comparison{Path: t.Worktree, Since: b.State, Keep: b.Name, Owner: t.Owner, Scope: t.Scope, Trivial: r.Reason != ""})
	switch code := hub.CodeOf(err); {
	case code == hub.CodeUnreachable, code == hub.CodeNotEnabled:
		return "", nil
	case err != nil:
		return "", hub.Errorf(hub.CodeUnproven, op, "the worktree %s could be read when the work began, and cannot be read now", t.Worktree).WithHint("restore it, then submit the task again")
	}
	missing := change.NoWork(t.Owner, t.Worktree, "the work on "+string(t.ID)+" began")
	if missing == "" {
		missing = change.OnlyTrivial()
	}
	switch {
	case missing == "":
		return "", nil
	case r.Reason == "":
		return "", hub.Errorf(hub.CodeUnproven, op, "%s", missing).WithHint("do the work, or say why the task needs no more: give a reason with the state")
	}
	return fmt.Sprintf("%s; %q, says %s", missing, r.Reason, t.Owner), nil
}

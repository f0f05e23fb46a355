package team

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/parley-agents/parley/hub"
)

const (
	maxScope     = 64   // paths of a task
	maxScopePath = 1000 // bytes
)

// checkScope refuses a scope whose paths are not in a worktree that the task names, and a worktree
// without scope and checks.
func checkScope(op string, r CreateTask) error {
	worktree, scope := r.Worktree, r.Scope
	switch {
	case len(scope) > maxScope:
		return hub.Errorf(hub.CodeTooLarge, op, "scope: a task has at most %d paths, got %d", maxScope, len(scope))
	case len(scope) > 0 && worktree == "":
		return hub.Errorf(hub.CodeInvalid, op, "scope: the task names no worktree").WithHint("name it in worktree_path")
	case len(scope) == 0 && len(r.Checks) == 0 && worktree != "":
		return hub.Errorf(hub.CodeInvalid, op, "worktree_path is for the files in scope and for checks").WithHint("name some in scope or in checks")
	case worktree != "" && (!filepath.IsAbs(worktree) || len(worktree) > maxScopePath || !utf8.ValidString(worktree)):
		return hub.Errorf(hub.CodeInvalid, op, "worktree_path must be an absolute path, got %q", cut(worktree, 200))
	}
	for _, path := range scope {
		isText := utf8.ValidString(path) && !strings.ContainsFunc(path, func(r rune) bool { return r < ' ' })
		if !isText || len(path) > maxScopePath || !filepath.IsLocal(filepath.FromSlash(path)) {
			return hub.Errorf(hub.CodeInvalid, op, "scope: %q is not a file path relative to the worktree", cut(path, 200))
		}
	}
	return nil
}

// reserve reserves the files of a task that its owner has started. Files that cannot be reserved
// are no reason to refuse the start: the warnings name them, and every edit is asked about again.
func (s *Service) reserve(ctx context.Context, actor hub.Caller, t hub.Task) (reserved, warnings []string) {
	if s.files == nil || len(t.Scope) == 0 {
		return nil, nil
	}
	return s.files.ReserveScope(ctx, actor, hub.FileScope{Owner: t.Owner, Tree: t.Worktree, Paths: t.Scope, Task: t.ID})
}

// restStates are the states of a task in which no agent changes its files.
var restStates = []hub.TaskState{hub.TaskBacklog, hub.TaskInReview, hub.TaskDone, hub.TaskDropped}

// freeFiles frees the files that were reserved for a task that is about to be stored, if its owner
// changes or no agent works on it any more.
func (c *change) freeFiles(t hub.Task) error {
	if c.s.files == nil || t.Revision == 0 {
		return nil
	}
	was, err := c.tx.Teamspaces().Task(t.ID)
	if err != nil {
		return err
	}
	rests := slices.Contains(restStates, t.State) && t.State != was.State
	if was.Owner == "" || (was.Owner == t.Owner && !rests) {
		return nil
	}
	posted, err := c.s.files.Done(c.tx, c.actor, t.ID, "")
	c.posted = append(c.posted, posted...)
	return err
}

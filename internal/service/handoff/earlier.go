package handoff

import (
	"strings"

	"github.com/parley-agents/parley/hub"
)

// readSteps returns the history of a handoff. Checks that an earlier version stored have
// their facts in sentences alone: they get the members Kind and Compared here, where they
// are read, and no other code looks into their texts. The store returns them as they are,
// because the journal has a digest of each step as it was stored.
func readSteps(r hub.Reader, id hub.HandoffID) ([]hub.HandoffStep, error) {
	steps, err := r.HandoffSteps(id)
	for _, step := range steps {
		for i := range step.Checks {
			if c := &step.Checks[i]; c.Kind == "" {
				completeEarlier(c)
			}
		}
	}
	return steps, err
}

// completeEarlier sets the members that a check of an earlier version lacks. Its subject
// began with its kind; that of the files of a worktree was "files in" with the path, and
// its detail was one of two sentences with the whole name of the commit.
func completeEarlier(c *hub.Check) {
	kind, _, _ := strings.Cut(c.What, " ")
	c.Kind = hub.CheckKind(kind)

	path, ok := strings.CutPrefix(c.What, "files in ")
	if !ok || c.Result != hub.CheckVerified {
		return
	}
	rest, clean := strings.CutPrefix(c.Detail, "clean: the files are those of ")
	if !clean {
		rest, ok = strings.CutPrefix(c.Detail, "not clean, compared with ")
	}
	if commit, _, _ := strings.Cut(strings.ReplaceAll(rest, ":", " "), " "); ok && commit != "" {
		c.Compared = hub.ComparedFiles{Path: path, Commit: commit, Clean: clean}
	}
}

// onlyDeclared reports whether the check of the work is one of an earlier version, in which
// a declaration that nothing had to change counted as verified. Its detail ended with these
// words; checks of this version have a Change.
func onlyDeclared(work hub.Check) bool {
	return work.Change == nil && strings.HasSuffix(work.Detail, "as the owner declared")
}

package handoff

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/shape"
	"github.com/parley-agents/parley/internal/ground/text/plaintext"
)

// checkReason refuses a declaration without a reason that people can read.
func checkReason(op, name, why string) error {
	if len(why) > maxReason || !utf8.ValidString(why) || !strings.ContainsFunc(why, visibleRune) {
		return hub.Errorf(hub.CodeInvalid, op, "%s must explain why, in text of at most %d bytes", name, maxReason)
	}
	return nil
}

// acceptedState returns the state of the worktree when the task was accepted. If none was
// recorded, the state is the commit that was checked out, provided that the files were
// those of the commit.
func acceptedState(steps []hub.HandoffStep) (hub.WorkState, bool) {
	var commit hub.WorkState
	for _, step := range steps {
		for _, c := range step.Checks {
			switch {
			case c.State != nil:
				return *c.State, true
			case c.Compared.Clean:
				commit = hub.WorkState{Path: c.Compared.Path, Commit: c.Compared.Commit}
			}
		}
	}
	return commit, commit.Commit != ""
}

// proveWork checks the claims of a completion. The last check is the one of the work.
func (s *Service) proveWork(ctx context.Context, h hub.Handoff, x setting, c Completion) []hub.Check {
	ctx, cancel := context.WithTimeout(ctx, s.inspect)
	defer cancel()
	checks, pkg, ok := provePackage(h)
	if !ok {
		return checks
	}
	made := s.proveArtifacts(ctx, c.Artifacts, pkg.WorkState.Worktree)
	checks = append(checks, made...)
	var work hub.Check
	switch {
	case c.NoChanges && len(pkg.Expect.Paths) > 0:
		work = hub.Check{
			What: checkWork, Kind: hub.CheckKindWork, Result: hub.CheckFailed, Detail: notTouched(pkg.Expect.Paths),
			Change: &hub.WorkChange{Untouched: pkg.Expect.Paths},
		}
	case c.NoChanges:
		work = unverifiable(hub.CheckKindWork, checkWork, fmt.Sprintf("nothing to change, says %s", h.To))
	case !x.known || s.inspector == nil:
		work = withoutState(h, pkg, x, c, made)
	default:
		work = s.compareWork(ctx, h, pkg, x, c)
	}
	if work.Change == nil {
		work.Change = &hub.WorkChange{}
	}
	return append(checks, work)
}

// compareWork checks the work in a worktree: what changed since a state.
func (s *Service) compareWork(ctx context.Context, h hub.Handoff, pkg shape.Package, x setting, c Completion) hub.Check {
	path := pkg.WorkState.Worktree
	q := hub.Comparison{
		Path: path, Since: x.since, Before: x.accepted, Keep: h.ID, Owner: h.To, Others: x.others(), Known: x.commits, Elsewhere: x.elsewhere,
		Expect: pkg.Expect.Paths, Scope: pkg.Scope, Merge: pkg.Expect.Merge, Trivial: c.Trivial != "",
	}
	for _, a := range c.Artifacts {
		if a.Type == "file" {
			q.Named = append(q.Named, a.Path)
		}
	}

	change, err := s.inspector.Compare(ctx, q)
	switch hub.CodeOf(err) {
	case "":
	case hub.CodeUnreachable, hub.CodeNotEnabled:
		return unverifiable(hub.CheckKindWork, checkWork, "the worktree "+path+" cannot be compared: "+err.Error())
	default:
		return hub.Check{What: checkWork, Kind: hub.CheckKindWork, Result: hub.CheckFailed, Detail: "the worktree " + path + " could be read when the task was accepted, and cannot be read now"}
	}

	// Agents that worked in the worktree are credited with the files that their commits changed.
	change.Credits = slices.Clone(x.credits)
	for i, credit := range change.Credits {
		for _, other := range change.ByOthers {
			if other.Agent == credit.Agent {
				change.Credits[i].Files = other.Files
			}
		}
	}

	// An author of a commit, and the owner of a merged task, are credited if they are not yet.
	named, err := s.agentsAmong(ctx, change.Authors)
	if err != nil {
		return unverifiable(hub.CheckKindWork, checkWork, "the authors of the commits cannot be looked up")
	}
	credits := change.Merged
	for _, agent := range named {
		credits = append(credits, hub.Credit{Agent: agent, Why: "author of a commit"})
	}
	for _, credit := range credits {
		known := func(c hub.Credit) bool { return c.Agent == credit.Agent }
		if credit.Agent != h.To && !slices.ContainsFunc(change.Credits, known) {
			change.Credits = append(change.Credits, credit)
		}
	}

	return judgeWork(h, pkg, x, c, change)
}

// judgeWork decides whether a change is the work of a task, and what qualifies it.
func judgeWork(h hub.Handoff, pkg shape.Package, x setting, c Completion, change hub.WorkChange) hub.Check {
	path := pkg.WorkState.Worktree
	check := hub.Check{What: checkWork, Kind: hub.CheckKindWork, Result: hub.CheckVerified, Detail: change.Text, Change: &change}
	fail := func(format string, args ...any) hub.Check {
		check.Result, check.Detail = hub.CheckFailed, fmt.Sprintf(format, args...)
		return check
	}

	// Missing work fails the check. Work that proves nothing leaves it unverifiable.
	since := "the task was accepted"
	if x.base != "" {
		since = fmt.Sprintf("you completed %s: a change counts for one task", x.base)
	}
	switch missing := change.NoWork(h.To, path, since); {
	case missing != "":
		return fail("%s", missing)
	case len(change.Untouched) > 0:
		return fail("%s", notTouched(change.Untouched))
	case len(change.NotChanged) > 0:
		check.Result, check.Detail = hub.CheckUnverifiable, some(change.NotChanged)+": named, not changed"
	case change.Trivial && c.Trivial == "":
		check.Result, check.Detail = hub.CheckUnverifiable, change.OnlyTrivial()
	}

	if check.Result == hub.CheckVerified {
		if change.Trivial {
			change.TrivialWhy = c.Trivial
		}
		change.Notes = qualifications(h, pkg, x, change)
	}
	return check
}

// notTouched is the refusal of work without the files that the task expects to change.
func notTouched(paths []string) string { return "expected to change, and did not: " + some(paths) }

// qualifications returns the facts that a reader of the proof must know, each in a few
// words. The words of the owner come first: see Report.shortNotes.
func qualifications(h hub.Handoff, pkg shape.Package, x setting, change hub.WorkChange) (notes []string) {
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }

	if change.TrivialWhy != "" {
		note("%s, says %s", trivialNote(change.TrivialWhy), h.To)
	}
	if x.same != "" {
		note("same change as %s", x.same)
	}
	if pkg.Expect.Merge && change.OldCommits > 0 {
		note("a merge, as the task expects")
	}

	switch {
	case change.Uncommitted > 0 && change.Uncommitted == change.Files:
		note("not committed")
	case change.Uncommitted > 0:
		note("%d of %d files not committed", change.Uncommitted, change.Files)
	}

	// The work is shared if commits of the owner do not account for all files.
	if len(change.Credits) > 0 && change.ByOwner < change.Files {
		names := make([]string, len(change.Credits))
		for i, credit := range change.Credits {
			names[i] = string(credit.Agent)
		}
		note("shared with %s", some(names))
	}

	if removed := namedByTask(pkg, change.Removed); len(removed) > 0 {
		note("removes %s, which the task names", some(removed))
	}
	if len(change.Outside) > 0 {
		note("outside the scope: %s", some(change.Outside))
	}
	if change.NotCompared != "" {
		note("other branches were not compared: %s", change.NotCompared)
	}
	return notes
}

// namedByTask returns the files that the task is about: its package has them as artifacts
// or expects them to change, or its texts name them.
func namedByTask(pkg shape.Package, files []string) (named []string) {
	texts := append([]string{pkg.Task.Title, pkg.Task.Objective, pkg.WorkState.NextStep}, pkg.Task.Criteria...)
	for _, file := range files {
		inText := func(text string) bool { return hasWord(text, file) || hasWord(text, filepath.Base(file)) }
		isExpected := func(pattern string) bool { return filepath.ToSlash(filepath.Clean(pattern)) == file }
		isArtifact := func(a shape.PackageArtifact) bool {
			return a.Ref.Type == "file" && a.Ref.Path == filepath.Join(pkg.WorkState.Worktree, filepath.FromSlash(file))
		}
		if slices.ContainsFunc(texts, inText) || slices.ContainsFunc(pkg.Artifacts, isArtifact) || slices.ContainsFunc(pkg.Expect.Paths, isExpected) {
			named = append(named, file)
		}
	}
	return named
}

// hasWord reports whether a text has a name that does not continue before or after it.
func hasWord(text, name string) bool {
	for rest := text; ; {
		at := strings.Index(rest, name)
		if at < 0 || name == "" {
			return false
		}
		before, _ := utf8.DecodeLastRuneInString(rest[:at])
		after, _ := utf8.DecodeRuneInString(rest[at+len(name):])
		if (at == 0 || !partOfName(before)) && !partOfName(after) {
			return true
		}
		rest = rest[at+len(name):]
	}
}

// partOfName reports whether a character continues the name of a file. A full stop ends a
// sentence as well.
func partOfName(r rune) bool {
	return r == '_' || r == '-' || (r >= '0' && r <= '9') || (r >= 'a' && r <= 'z') || (r >= 'A' && r <= 'Z')
}

// some lists a few names.
func some(names []string) string {
	const most = 5
	var listed []string
	for _, name := range names[:min(len(names), most)] {
		if strings.ContainsFunc(name, unicode.IsSpace) { // it could pass for words of the hub
			name = strconv.Quote(name)
		}
		listed = append(listed, cut(plaintext.Line(name), 200))
	}
	text := strings.Join(listed, ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// completionHint says what the owner of a task can do about a claim that was refused.
func completionHint(h hub.Handoff, x setting, c Completion, bad hub.Check) string {
	same := "if the change of another of your tasks did this one, too: {same_change_as} ID"
	if done := x.taskWith(bad.Change); done != "" {
		same = fmt.Sprintf("if the change of %s did this task, too: {same_change_as} %s", done, done)
	}
	lacksFiles := bad.Change != nil && len(bad.Change.Untouched) > 0 && (bad.Change.Files > 0 || c.NoChanges)
	switch {
	case bad.Kind != hub.CheckKindWork:
		return "name only artifacts that exist; the handoff is still " + string(h.Status)
	case lacksFiles:
		return "change these files; if the task does not need it, ask its sender or the operator"
	case bad.Change != nil && len(bad.Change.Branches) > 0:
		return same + "; if the task needs nothing but that branch, declare it: {no_changes}; else do the work; a task that is a merge says so when it is handed over: {expect_merge}"
	case bad.Change != nil && bad.Change.Before > 0:
		return "do the work; " + same + "; a task that is a merge says so when it is handed over: {expect_merge}"
	}
	return "do the work, or declare that the task needed no change: {no_changes}; " + same
}

// maxMessage is the most bytes of the message of a commit.
const maxMessage = 5000

// checkMessage refuses a message that git would not take.
func checkMessage(op, message string) error {
	hidden := func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) }
	switch {
	case message == "":
		return nil
	case len(message) > maxMessage:
		return hub.Errorf(hub.CodeTooLarge, op, "commit_message must be at most %d bytes, got %d", maxMessage, len(message))
	case !utf8.ValidString(message) || strings.ContainsFunc(message, hidden) || !strings.ContainsFunc(message, visibleRune):
		return hub.Errorf(hub.CodeInvalid, op, "commit_message must be text")
	}
	return nil
}

// commitWork commits the files of a completion for their owner, and notes it in the check of
// the work.
func (s *Service) commitWork(ctx context.Context, op string, h hub.Handoff, x setting, c Completion, work *hub.Check) error {
	_, pkg, ok := provePackage(h)
	change := work.Change
	if !ok || change.Now.Tree == "" {
		return hub.Errorf(hub.CodeInvalid, op, "commit_message: the task has no worktree to commit in")
	}

	// Artifacts in the worktree are committed; without any, all files are, if they are only the
	// owner's and all of them are known.
	var files []string
	for _, a := range c.Artifacts {
		if rel, err := filepath.Rel(change.Now.Path, a.Path); a.Type == "file" && err == nil && filepath.IsLocal(rel) {
			files = append(files, filepath.ToSlash(rel))
		}
	}
	switch {
	case len(files) > 0:
	case len(x.credits) > 0:
		return hub.Errorf(hub.CodeInvalid, op, "commit_message: %s also works in %s; name your files as artifacts", x.credits[0].Agent, change.Now.Path)
	case len(change.Loose) < change.Uncommitted:
		return hub.Errorf(hub.CodeTooLarge, op, "commit_message: %s not committed; name the ones to commit as artifacts", filesAre(change.Uncommitted))
	default:
		files = change.Loose
	}

	commit := hub.NewCommit{Path: pkg.WorkState.Worktree, Files: files, Message: c.CommitMessage, Author: h.To, Head: change.Now.Commit, At: hub.At(s.clock())}
	id, err := s.inspector.MakeCommit(ctx, commit)
	if err != nil {
		return err
	}

	// The check describes the work after the commit.
	change.Now.Commit = id
	left := slices.DeleteFunc(slices.Clone(change.Loose), func(name string) bool { return slices.Contains(files, name) })
	change.Uncommitted = len(left)
	if work.Result == hub.CheckVerified {
		change.Notes = qualifications(h, pkg, x, *change)
	}
	return nil
}

package landing

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
)

// maxLandings bounds the landings with which a change is compared: the newest.
const maxLandings = 200

// A taking is what a change takes back of the work of others: the files, each with the landing or the
// branch that has them.
type taking struct {
	paths map[string]string
	by    []hub.LandingID
}

// text names the files, such as "takes back src/alice.go, landed l4".
func (t taking) text() string {
	const most = 3
	var parts []string
	for _, path := range slices.Sorted(maps.Keys(t.paths)) {
		if len(parts) == most {
			parts = append(parts, fmt.Sprintf("%d more", len(t.paths)-most))
			break
		}
		parts = append(parts, path+", "+t.paths[path])
	}
	if len(parts) == 0 {
		return ""
	}
	return "takes back " + strings.Join(parts, "; ")
}

// takesBack returns what an entry takes back of the work of others when it is merged onto a tip of the
// target. A file counts whose content in the result differs from the target's, which the target
// changed since the change left it, and that
//
//   - has the content from before a landing of another owner, or
//   - differs, in a merge commit of the change, from what git makes of its parents without a conflict.
//
// It costs a difference of files for each landing since the fork and each merge commit of the change.
func (w *worker) takesBack(ctx context.Context, tip, made Commit, e hub.LandingEntry) (out taking, err error) {
	out.paths = map[string]string{}
	git, repo := w.s.git, w.policy.Repository
	fork, err := git.Fork(ctx, repo, tip.ID, e.Commit)
	if err != nil || fork == "" || fork == tip.ID {
		return out, err
	}
	changed, err := git.Files(ctx, repo, tip.ID, made.ID)
	if err != nil {
		return out, err
	}
	moved, err := git.Files(ctx, repo, fork, tip.ID)
	if err != nil {
		return out, err
	}
	results := map[string]string{}
	for _, f := range changed {
		if slices.ContainsFunc(moved, func(m File) bool { return m.Path == f.Path }) {
			results[f.Path] = f.After
		}
	}
	if len(results) == 0 {
		return out, nil
	}

	// The landings since the fork, with the files of each.
	landings, err := w.landingsSince(ctx, fork, tip.ID)
	if err != nil {
		return out, err
	}
	own, err := w.undoneWork(ctx, tip.ID, e)
	if err != nil {
		return out, err
	}
	lastOf := map[string]hub.LandingEntry{} // the newest landing of a file
	for _, l := range landings {
		undidIt := slices.ContainsFunc(own, func(u hub.LandingEntry) bool { return u.UndoneBy == l.ID })
		if undidIt { // which is brought back on purpose
			continue
		}
		files, err := git.Files(ctx, repo, l.LandedCommit+"^1", l.LandedCommit)
		if err != nil {
			return out, err
		}
		for _, f := range files {
			result, isChanged := results[f.Path]
			if !isChanged {
				continue
			}
			if _, known := lastOf[f.Path]; !known {
				lastOf[f.Path] = l
			}
			if result == f.Before && l.Owner != e.Owner {
				out.add(f.Path, l)
			}
		}
	}

	joins, err := git.Joins(ctx, repo, tip.ID, e.Commit)
	if err != nil {
		return out, err
	}
	for _, j := range joins {
		lost, err := w.dropped(ctx, j)
		if err != nil {
			return out, err
		}
		for _, path := range lost {
			if _, isChanged := results[path]; !isChanged || out.paths[path] != "" {
				continue
			}
			l, known := lastOf[path]
			switch {
			case !known:
				out.paths[path] = "which " + w.policy.Into + " has since"
			case l.Owner != e.Owner:
				out.add(path, l)
			}
		}
	}
	return out, nil
}

func (t *taking) add(path string, l hub.LandingEntry) {
	t.paths[path] = "landed " + string(l.ID)
	if !slices.Contains(t.by, l.ID) {
		t.by = append(t.by, l.ID)
	}
}

// landingsSince returns the landings of the queue that came into the target after a commit, the newest
// first.
func (w *worker) landingsSince(ctx context.Context, fork, tip string) (out []hub.LandingEntry, err error) {
	all, err := w.newestLanded(ctx, maxLandings)
	if err != nil {
		return nil, err
	}
	for _, l := range all {
		if l.LandedCommit == l.Commit { // the target had it already
			continue
		}
		wasThere, err := w.s.git.Contains(ctx, w.policy.Repository, fork, l.LandedCommit)
		if err != nil {
			return nil, err
		}
		if wasThere {
			break // and those before it
		}
		isIn, err := w.s.git.Contains(ctx, w.policy.Repository, tip, l.LandedCommit)
		if err != nil {
			return nil, err
		}
		if isIn {
			out = append(out, l)
		}
	}
	return out, nil
}

// newestLanded returns the newest landings of the queue that the target has.
func (w *worker) newestLanded(ctx context.Context, limit int) ([]hub.LandingEntry, error) {
	return hub.Read(ctx, w.s.store, func(r hub.Reader) ([]hub.LandingEntry, error) {
		return r.Landings().Entries(hub.LandingQuery{Queue: w.id, States: []hub.LandingState{hub.EntryLanded}, Newest: true, Limit: limit})
	})
}

// dropped returns the files in which a merge commit differs from what git makes of its parents without
// a conflict.
func (w *worker) dropped(ctx context.Context, j Join) (out []string, err error) {
	for _, parent := range j.Parents[1:] {
		tree, conflicts, err := w.s.git.Combine(ctx, w.policy.Repository, "", j.Parents[0], parent)
		if err != nil {
			return nil, err
		}
		files, err := w.s.git.Files(ctx, w.policy.Repository, tree, j.ID)
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			if !slices.Contains(conflicts, f.Path) && !slices.Contains(out, f.Path) {
				out = append(out, f.Path)
			}
		}
	}
	return out, nil
}

// undoneWork returns the landings of an entry's work that the target has and that were taken back
// since, the oldest first. A change that has the undo in its own history was made with it in sight.
func (w *worker) undoneWork(ctx context.Context, onto string, e hub.LandingEntry) (out []hub.LandingEntry, err error) {
	all, err := hub.Read(ctx, w.s.store, func(r hub.Reader) ([]hub.LandingEntry, error) {
		return r.Landings().Entries(hub.LandingQuery{Queue: w.id, States: []hub.LandingState{hub.EntryUndone}, Limit: maxListed})
	})
	for _, u := range all {
		if err != nil {
			return nil, err
		}
		isSame := u.Commit == e.Commit || (u.Branch != "" && u.Branch == e.Branch) || (u.Subject() != "" && u.Subject() == e.Subject())
		if !isSame || u.LandedCommit == "" || u.Undoes != "" {
			continue
		}
		has := func(head, commit string) bool {
			isIn, readErr := w.s.git.Contains(ctx, w.policy.Repository, head, commit)
			if readErr != nil {
				err = readErr
			}
			return isIn
		}
		sawUndo := false
		if u.UndoneBy != "" {
			undo, readErr := hub.Read(ctx, w.s.store, func(r hub.Reader) (hub.LandingEntry, error) { return r.Landings().Entry(u.UndoneBy) })
			if readErr != nil {
				return nil, readErr
			}
			sawUndo = undo.LandedCommit != "" && has(e.Commit, undo.LandedCommit)
		}
		if has(onto, u.LandedCommit) && has(e.Commit, u.Commit) && !sawUndo {
			out = append(out, u)
		}
	}
	return out, err
}

// mergeAgain merges an entry whose earlier landings were taken back: it brings each of them back, which
// is the revert of the revert, and merges what is new. It is one commit.
func (w *worker) mergeAgain(ctx context.Context, onto Commit, e hub.LandingEntry, undone []hub.LandingEntry) (Merge, error) {
	git, repo := w.s.git, w.policy.Repository
	tip := onto
	for _, u := range undone {
		tree, conflicts, err := git.Combine(ctx, repo, u.LandedCommit+"^1", tip.ID, u.LandedCommit)
		if err != nil {
			return Merge{}, err
		}
		if len(conflicts) > 0 {
			return Merge{Conflicts: pathsOnly(conflicts)}, nil
		}
		if tip, err = git.Compose(ctx, repo, tree, mergeMessage(e), tip.ID); err != nil {
			return Merge{}, err
		}
	}
	made, err := git.Merge(ctx, repo, tip, Commit{ID: e.Commit, Tree: e.Tree}, mergeMessage(e))
	if err != nil || len(made.Conflicts) > 0 {
		return made, err
	}
	if made.Commit.Tree == onto.Tree {
		return Merge{Commit: onto}, nil
	}
	made.Commit, err = git.Compose(ctx, repo, made.Commit.Tree, mergeMessage(e), onto.ID, e.Commit)
	return made, err
}

// pathsOnly returns conflicts without texts.
func pathsOnly(paths []string) (out []Conflict) {
	for _, p := range paths {
		out = append(out, Conflict{Path: p})
	}
	return out
}

// isThere reports whether a landing is still in the target: merging it once more changes nothing.
func (w *worker) isThere(ctx context.Context, head Commit, l hub.LandingEntry) (bool, error) {
	tree, conflicts, err := w.s.git.Combine(ctx, w.policy.Repository, l.LandedCommit+"^1", head.ID, l.LandedCommit)
	return len(conflicts) == 0 && tree == head.Tree, err
}

// takenBack returns those of some landings of which every file got back the content from before it
// between two heads of the target.
func (w *worker) takenBack(ctx context.Context, old, now string, of []hub.LandingEntry) (out []hub.LandingEntry, err error) {
	moved, err := w.s.git.Files(ctx, w.policy.Repository, old, now)
	if err != nil || len(moved) == 0 {
		return nil, err
	}
	after := map[string]string{}
	for _, f := range moved {
		after[f.Path] = f.After
	}
	for _, l := range of {
		isOlder, err := w.s.git.Contains(ctx, w.policy.Repository, old, l.LandedCommit)
		if err != nil {
			return nil, err
		}
		if !isOlder || l.LandedCommit == l.Commit {
			continue
		}
		files, err := w.s.git.Files(ctx, w.policy.Repository, l.LandedCommit+"^1", l.LandedCommit)
		if err != nil {
			return nil, err
		}
		isKept := func(f File) bool {
			text, isMoved := after[f.Path]
			return !isMoved || text != f.Before
		}
		if len(files) > 0 && !slices.ContainsFunc(files, isKept) {
			out = append(out, l)
		}
	}
	return out, nil
}

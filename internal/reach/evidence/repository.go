package evidence

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
)

// A RepositoryClaim claims facts about a repository. An empty member claims nothing;
// Path is needed.
type RepositoryClaim struct {
	Path     string // the top folder of a working tree, or a bare repository
	Branch   string // a local branch, with or without refs/heads/
	Commit   string // 7 to 64 lower-case hexadecimal digits
	Worktree bool   // Path is a working tree that its repository knows
}

// parts checks that the repository exists, that the branch exists, that the commit
// exists and is reachable from the branch (from any ref if no branch is claimed),
// and that the worktree belongs to the repository.
//
// If a worktree is claimed, the last part states the difference of the files from the
// commit that is checked out there. They are hashed, not compared by date; line endings
// may differ, submodules are left out, and files that git would pass through a filter or
// another encoding are not judged.
func (c RepositoryClaim) parts(in *Inspector) ([]part, func()) {
	r := &repositoryCheck{in: in, claim: c}
	parts := []part{{what: WhatRepository, check: r.open}}
	for _, p := range []struct {
		part
		claimed bool
	}{
		{part{what: WhatBranch, check: r.branch}, c.Branch != ""},
		{part{what: WhatCommit, check: r.commit}, c.Commit != ""},
		{part{what: WhatWorktree, check: r.worktree}, c.Worktree},
		{part{what: WhatClean, check: r.clean, compared: func() hub.ComparedFiles { return r.compared }}, c.Worktree},
	} {
		if p.claimed {
			parts = append(parts, p.part)
		}
	}
	return parts, r.close
}

// A repositoryCheck is the check of one claim. The scratch is made when the first part
// needs it.
type repositoryCheck struct {
	in       *Inspector
	claim    RepositoryClaim
	repo     *repository
	borrowed *scratch
	compared hub.ComparedFiles // by clean; zero before
}

func (r *repositoryCheck) open(context.Context) (found string, err error) {
	r.repo, err = r.in.openRepository(r.claim.Path)
	return fmt.Sprintf("%s is a git repository", show(r.claim.Path)), err
}

func (r *repositoryCheck) close() {
	if r.repo != nil {
		r.repo.close()
	}
	if r.borrowed != nil {
		r.borrowed.close()
	}
}

// scratch returns the scratch for the repository's objects.
func (r *repositoryCheck) scratch(ctx context.Context) (_ *scratch, err error) {
	if r.borrowed == nil {
		r.borrowed, err = r.in.newScratch(ctx, r.repo)
	}
	return r.borrowed, err
}

// tip returns the commit at the end of the branch claimed.
func (r *repositoryCheck) tip() (string, error) {
	const op = "evidence.Repository"
	name := strings.TrimPrefix(r.claim.Branch, branchPrefix)
	if !validRef(name) {
		return "", hub.Errorf(hub.CodeInvalid, op, "%s is not a valid branch name", show(r.claim.Branch))
	}
	found, err := r.repo.resolve(branchPrefix + name)
	if hub.CodeOf(err) == hub.CodeNotFound {
		return "", hub.Errorf(hub.CodeNotFound, op, "no branch named %s", show(name))
	}
	return found.id, err
}

func (r *repositoryCheck) branch(ctx context.Context) (string, error) {
	id, err := r.tip()
	if err != nil {
		return "", err
	}
	s, err := r.scratch(ctx)
	if err != nil {
		return "", err
	}
	_, err = s.commit(ctx, id)
	return fmt.Sprintf("branch %s is at %s", show(r.claim.Branch), id), err
}

func (r *repositoryCheck) commit(ctx context.Context) (string, error) {
	const op = "evidence.Repository"
	if name := r.claim.Commit; len(name) < minCommit || len(name) > sha256Digits || !lowerHex(name) {
		return "", hub.Errorf(hub.CodeInvalid, op, "%s is not a commit hash: use %d to %d lower-case hexadecimal digits", show(name), minCommit, sha256Digits)
	}

	s, err := r.scratch(ctx)
	if err != nil {
		return "", err
	}
	id, err := s.commit(ctx, r.claim.Commit)
	if err != nil {
		return "", err
	}

	// The commit must be in the named branch or, without one, in any branch or tag.
	from, tips := "a branch or tag", []string{""}
	if r.claim.Branch != "" {
		from = "branch " + show(r.claim.Branch)
		tips[0], err = r.tip()
	} else {
		tips, err = r.repo.tips(ctx)
	}
	if err != nil {
		return "", err
	}

	switch ok, err := s.reachable(ctx, id, tips); {
	case err != nil:
		return "", err
	case !ok:
		return "", hub.Errorf(hub.CodeConflict, op, "commit %s exists but is not reachable from %s", id, from)
	}
	return fmt.Sprintf("commit %s exists and is reachable from %s", id, from), nil
}

func (r *repositoryCheck) worktree(context.Context) (string, error) {
	if err := r.in.mustBeRegistered(r.repo, r.claim.Path); err != nil {
		return "", err
	}
	where := "has no commit yet"
	switch head, err := r.repo.resolve("HEAD"); {
	case err == nil && head.name == "HEAD":
		where = "is at " + head.id
	case err == nil:
		where = fmt.Sprintf("is on branch %s at %s", show(strings.TrimPrefix(head.name, branchPrefix)), head.id)
	case hub.CodeOf(err) != hub.CodeNotFound:
		return "", err
	}
	return fmt.Sprintf("%s is a working tree of the repository and %s", show(r.claim.Path), where), nil
}

func (r *repositoryCheck) clean(ctx context.Context) (string, error) {
	d, err := r.difference(ctx, "", readAll)
	if err != nil {
		return "", err
	}
	r.compared = hub.ComparedFiles{Path: r.claim.Path, Commit: d.commit, Clean: d.clean()}
	return d.String(), d.judge()
}

// difference returns the difference of the working tree from the commit that is
// checked out there, or from the given one.
func (r *repositoryCheck) difference(ctx context.Context, commit string, how reading) (*difference, error) {
	if err := r.in.mustBeRegistered(r.repo, r.claim.Path); err != nil {
		return nil, err
	}
	head, err := r.repo.resolve("HEAD")
	if hub.CodeOf(err) == hub.CodeNotFound {
		return nil, hub.Errorf(hub.CodeNotEnabled, "evidence.Repository", "no commit to compare the working tree with yet")
	}
	if err != nil {
		return nil, err
	}
	s, err := r.scratch(ctx)
	if err != nil {
		return nil, err
	}
	return r.in.difference(ctx, s, r.repo, cmp.Or(commit, head.id), how)
}

// Limits of a difference that is shown to people. Its cost follows from them and from the
// files of the commit: files that git does not track are listed, and read only if they are
// shown.
const (
	maxDiffFiles = 200       // in the patch; the others are counted
	maxDiffFile  = 256 << 10 // bytes of a file, so that one does not fill the patch
	diffRoom     = 16 << 20  // bytes of all new contents
	maxDiffWalk  = 100_000   // files and folders of the working tree
)

// Diff returns the difference of a working tree from a commit, or from the one that is
// checked out if none is given. Files that git ignores or would convert are left out.
// Links, files that are not read because of a limit, and those that do not fit into the
// patch are counted in More. Changes of tracked files go first.
func (in *Inspector) Diff(ctx context.Context, worktree, from string) (hub.Patch, error) {
	if from != "" && !objectID(from) {
		return hub.Patch{}, hub.Errorf(hub.CodeInvalid, "evidence.Diff", "%s is not a full commit hash", show(from))
	}
	ctx, end, err := in.begin(ctx)
	defer end()
	if err == nil {
		in, err = in.current(ctx)
	}
	if err != nil {
		return hub.Patch{}, err
	}
	r := &repositoryCheck{in: in, claim: RepositoryClaim{Path: worktree}}
	defer r.close()
	if _, err := r.open(ctx); err != nil {
		return hub.Patch{}, err
	}
	d, err := r.difference(ctx, from, readTracked)
	if err != nil {
		return hub.Patch{}, in.late(ctx, err)
	}
	out, err := r.patch(ctx, d)
	return out, in.late(ctx, err)
}

// patch returns a difference as a unified diff. The new contents are written into a
// scratch of their own, which reads the objects of the repository through the first: in
// that one the folders of objects are those of the repository.
func (r *repositoryCheck) patch(ctx context.Context, d *difference) (hub.Patch, error) {
	out := hub.Patch{Commit: d.commit}
	s, err := r.in.emptyScratch(len(d.commit), map[string][]byte{})
	if err != nil {
		return out, err
	}
	defer s.close()
	lender := filepath.Join(r.borrowed.gitDir(), "objects") + "\n"
	if err := os.WriteFile(filepath.Join(s.gitDir(), "objects/info/alternates"), []byte(lender), 0o600); err != nil {
		return out, fmt.Errorf("evidence: %w", err)
	}
	s.objects = r.borrowed.objects

	// A file that cannot be stored is left out of the text and counted in More.
	names := slices.Concat(d.names(kindChanged, kindMissing), d.names(kindUntracked))
	o := &objectWriter{scratch: s, format: len(d.commit), room: diffRoom}
	before, after := map[string]blob{}, map[string]blob{}
	for _, name := range names[:min(len(names), maxDiffFiles)] {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		_, exists := d.tree.files[name]
		now, stored := r.store(o, name)
		if exists && !stored {
			continue
		}
		if stored {
			after[name] = now
		}
		if was, ok := d.was[name]; ok && was.mode != modeSubmodule {
			before[name] = was
		}
	}

	old, now, err := o.trees(before, after)
	if err != nil {
		return out, err
	}

	shown := 0
	out.Text, shown, err = o.beginning(ctx, old, now)
	out.More = len(names) - shown
	return out, err
}

// store writes the content of a file to the scratch as git would have it, and reports
// whether it did: not for a link, nor for a file over a limit.
func (r *repositoryCheck) store(o *objectWriter, name string) (blob, bool) {
	info, err := r.repo.tree.Lstat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxDiffFile {
		return blob{}, false
	}
	content, err := readSmall(r.repo.tree, name, maxDiffFile)
	if err != nil {
		return blob{}, false
	}
	id := hashOf(o.format, "blob", content)
	return blob{gitMode(info.Mode()), id}, o.add(id, content)
}

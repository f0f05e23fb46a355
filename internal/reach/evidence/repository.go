package evidence

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/parley-agents/parley/hub"
)

// A RepositoryClaim claims facts about a repository. An empty member claims nothing;
// Path or Worktree is needed.
type RepositoryClaim struct {
	Path     string // the top folder of a working tree, or a bare repository; default Worktree
	Branch   string // a local branch, with or without refs/heads/
	Commit   string // 7 to 64 lower-case hexadecimal digits
	Worktree string // the top folder of a working tree of the repository
	Clean    *bool  // whether the working tree is exactly its commit
}

// check checks that the repository exists, that the branch exists, that the commit
// exists and is reachable from the branch (from any ref if no branch is claimed),
// and that the worktree belongs to the repository. It answers each claimed part with
// a Check, the repository first.
//
// If a worktree is claimed, or whether it is clean, the last check states the
// difference of the files from the commit that is checked out there. They are
// hashed, not compared by date; line endings may differ, submodules are left out,
// and files that git would pass through a filter or another encoding are not judged.
func (c RepositoryClaim) check(ctx context.Context, in *Inspector) []Check {
	path := cmp.Or(c.Path, c.Worktree)
	r, err := c.open(in)
	if err != nil {
		return c.refuted(err)
	}
	defer r.close()
	checks := []Check{verified(WhatRepository, "%s is a git repository", show(path))}
	for _, part := range c.parts() {
		found, err := part.check(r, ctx)
		if err != nil {
			checks = append(checks, refuted(part.what, in.late(ctx, err)))
			continue
		}
		checks = append(checks, verified(part.what, "%s", found))
	}
	return checks
}

// A part is one fact that can be claimed about a repository. check returns the fact
// in words, or why the claim does not hold.
type part struct {
	what    string
	claimed func(RepositoryClaim) bool
	check   func(*repositoryCheck, context.Context) (found string, err error)
}

var repositoryParts = []part{
	{WhatBranch, func(c RepositoryClaim) bool { return c.Branch != "" }, (*repositoryCheck).branch},
	{WhatCommit, func(c RepositoryClaim) bool { return c.Commit != "" }, (*repositoryCheck).commit},
	{WhatWorktree, func(c RepositoryClaim) bool { return c.Worktree != "" }, (*repositoryCheck).worktree},
	{WhatClean, func(c RepositoryClaim) bool { return c.Worktree != "" || c.Clean != nil }, (*repositoryCheck).clean},
}

// parts returns the claimed parts in the order of the checks.
func (c RepositoryClaim) parts() []part {
	var parts []part
	for _, p := range repositoryParts {
		if p.claimed(c) {
			parts = append(parts, p)
		}
	}
	return parts
}

// refuted answers every part of the claim with the same reason.
func (c RepositoryClaim) refuted(err error) []Check {
	checks := []Check{refuted(WhatRepository, err)}
	for _, p := range c.parts() {
		checks = append(checks, refuted(p.what, err))
	}
	return checks
}

// A repositoryCheck is the check of one claim. It opens what its parts share when
// the first of them needs it.
type repositoryCheck struct {
	in    *Inspector
	claim RepositoryClaim
	repo  *repository

	work     *repository // the claimed working tree
	workErr  error       // why there is none
	borrowed *scratch
}

func (c RepositoryClaim) open(in *Inspector) (*repositoryCheck, error) {
	repo, err := in.openRepository(cmp.Or(c.Path, c.Worktree))
	return &repositoryCheck{in: in, claim: c, repo: repo}, err
}

func (r *repositoryCheck) close() {
	r.repo.close()
	if r.work != nil {
		r.work.close()
	}
	if r.borrowed != nil {
		r.borrowed.close()
	}
}

// scratch returns the scratch for the repository's objects.
func (r *repositoryCheck) scratch(ctx context.Context) (*scratch, error) {
	if r.borrowed != nil {
		return r.borrowed, nil
	}
	tips, err := r.repo.tips(ctx)
	if err != nil {
		return nil, err
	}
	format := sha1Digits
	if len(r.claim.Commit) == sha256Digits {
		format = sha256Digits
	}
	if len(tips) > 0 {
		format = len(tips[0])
	}
	r.borrowed, err = r.in.newScratch(ctx, r.repo, format)
	return r.borrowed, err
}

// tip returns the commit at the end of the branch claimed.
func (r *repositoryCheck) tip() (string, error) {
	const op = "evidence.Repository"
	name := strings.TrimPrefix(r.claim.Branch, branchPrefix)
	if problem := refProblem(name); problem != "" {
		return "", hub.Errorf(hub.CodeInvalid, op, "%s is not the name of a branch: it %s", show(r.claim.Branch), problem)
	}
	found, err := r.repo.resolve(branchPrefix + name)
	if hub.CodeOf(err) == hub.CodeNotFound {
		return "", hub.Errorf(hub.CodeNotFound, op, "there is no branch %s", show(name))
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
	if _, err := s.commit(ctx, id); err != nil {
		return "", err
	}
	return fmt.Sprintf("branch %s is at %s", show(r.claim.Branch), id), nil
}

func (r *repositoryCheck) commit(ctx context.Context) (string, error) {
	const op = "evidence.Repository"
	if problem := commitProblem(r.claim.Commit); problem != "" {
		return "", hub.Errorf(hub.CodeInvalid, op, "%s is not the name of a commit: it %s", show(r.claim.Commit), problem)
	}
	s, err := r.scratch(ctx)
	if err != nil {
		return "", err
	}
	id, err := s.commit(ctx, r.claim.Commit)
	if err != nil {
		return "", err
	}
	from, tips := "a branch or tag", []string(nil)
	if r.claim.Branch != "" {
		tip, err := r.tip()
		if err != nil {
			return "", err
		}
		from, tips = "branch "+show(r.claim.Branch), []string{tip}
	} else if tips, err = r.repo.tips(ctx); err != nil {
		return "", err
	}
	switch ok, err := s.reachable(ctx, id, tips); {
	case err != nil:
		return "", err
	case !ok:
		return "", hub.Errorf(hub.CodeConflict, op, "commit %s is there, but cannot be reached from %s", id, from)
	}
	return fmt.Sprintf("commit %s is there and can be reached from %s", id, from), nil
}

func (r *repositoryCheck) worktree(context.Context) (string, error) {
	r.work, r.workErr = r.openWorktree()
	if r.workErr != nil {
		return "", r.workErr
	}
	where := "has no commit yet"
	switch head, err := r.work.resolve("HEAD"); {
	case err == nil && head.name == "HEAD":
		where = "is at " + head.id
	case err == nil:
		where = fmt.Sprintf("is on branch %s at %s", show(strings.TrimPrefix(head.name, branchPrefix)), head.id)
	case hub.CodeOf(err) != hub.CodeNotFound:
		return "", err
	}
	return fmt.Sprintf("%s is a working tree of the repository and %s", show(r.claim.Worktree), where), nil
}

// openWorktree opens the working tree claimed, provided it belongs to the
// repository.
func (r *repositoryCheck) openWorktree() (*repository, error) {
	work, err := r.in.openRepository(r.claim.Worktree)
	if err != nil {
		return nil, err
	}
	ok, err := work.sameAs(r.repo)
	if ok && err == nil {
		ok, err = r.in.registered(work)
	}
	if err == nil && !ok {
		err = hub.Errorf(hub.CodeConflict, "evidence.Repository", "%s is not a working tree of the repository", show(r.claim.Worktree))
	}
	if err != nil {
		work.close()
		return nil, explain(r.claim.Worktree, err)
	}
	return work, nil
}

func (r *repositoryCheck) clean(ctx context.Context) (string, error) {
	d, _, err := r.difference(ctx)
	if err != nil {
		return "", err
	}
	if err := d.judge(r.claim.Clean); err != nil {
		return "", err
	}
	return d.String(), nil
}

// difference returns the difference of the working tree from the commit that is
// checked out there, and the working tree.
func (r *repositoryCheck) difference(ctx context.Context) (*difference, *repository, error) {
	const op = "evidence.Repository"
	work := r.repo
	if r.claim.Worktree != "" {
		if work = r.work; r.workErr != nil {
			return nil, nil, r.workErr
		}
	}
	if work.tree == nil {
		return nil, nil, hub.Errorf(hub.CodeConflict, op, "the repository is bare and has no working tree")
	}
	head, err := work.resolve("HEAD")
	if hub.CodeOf(err) == hub.CodeNotFound {
		return nil, nil, hub.Errorf(hub.CodeNotEnabled, op, "there is no commit yet to compare the working tree with")
	}
	if err != nil {
		return nil, nil, err
	}
	s, err := r.scratch(ctx)
	if err != nil {
		return nil, nil, err
	}
	d, err := r.in.difference(ctx, s, work, head.id)
	return d, work, err
}

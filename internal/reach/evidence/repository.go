package evidence

import (
	"context"
	"fmt"
	"strings"

	"github.com/parley-agents/parley/hub"
)

// A RepositoryClaim says what is in a repository. What is empty is not claimed;
// Path or Worktree is needed.
type RepositoryClaim struct {
	Path     string // the top folder of a working tree, or a bare repository; default Worktree
	Branch   string // a local branch, with or without refs/heads/
	Commit   string // 7 to 64 lower-case hexadecimal digits
	Worktree string // the top folder of a working tree of the repository
	Clean    *bool  // whether the working tree is exactly its commit
}

// Repository checks that the repository is there, that the branch exists, that
// the commit exists and is reachable from the branch (from any ref if no branch
// is claimed), and that the worktree belongs to the repository. It answers
// each part that is claimed with a Check of its own, the repository first.
//
// If a worktree is claimed, or whether it is clean, the last check states how
// the files differ from the commit that is checked out there. They are hashed,
// not compared by date; line endings may differ, submodules are left out, and
// files that git would pass through a filter or another encoding are not
// judged.
func (in *Inspector) Repository(ctx context.Context, claim RepositoryClaim) []Check {
	ctx, end, err := in.begin(ctx)
	if err != nil {
		return claim.refuted(err)
	}
	defer end()
	path := claim.Path
	if path == "" {
		path = claim.Worktree
	}
	repo, err := in.openRepository(path)
	if err != nil {
		return claim.refuted(err)
	}
	defer repo.close()
	l := &look{in: in, claim: claim, repo: repo}
	defer l.close()
	checks := []Check{verified(WhatRepository, "%s is a git repository", show(path))}
	for _, part := range claim.parts() {
		found, err := part.check(l, ctx)
		if err != nil {
			checks = append(checks, refuted(part.what, in.late(ctx, err)))
			continue
		}
		checks = append(checks, verified(part.what, "%s", found))
	}
	return checks
}

// A part is one thing that can be claimed about a repository. check says what
// was found, or why the claim does not hold.
type part struct {
	what    string
	claimed func(RepositoryClaim) bool
	check   func(*look, context.Context) (found string, err error)
}

var repositoryParts = []part{
	{WhatBranch, func(c RepositoryClaim) bool { return c.Branch != "" }, (*look).branch},
	{WhatCommit, func(c RepositoryClaim) bool { return c.Commit != "" }, (*look).commit},
	{WhatWorktree, func(c RepositoryClaim) bool { return c.Worktree != "" }, (*look).worktree},
	{WhatClean, func(c RepositoryClaim) bool { return c.Worktree != "" || c.Clean != nil }, (*look).clean},
}

// parts returns what is claimed, in the order of the checks.
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

// A look is one look at one repository. It opens what its parts share when the
// first of them needs it.
type look struct {
	in    *Inspector
	claim RepositoryClaim
	repo  *repository

	work    *repository // the working tree claimed
	workErr error       // why there is none
	borrow  *scratch
}

func (l *look) close() {
	if l.work != nil {
		l.work.close()
	}
	if l.borrow != nil {
		l.borrow.close()
	}
}

// scratch returns the scratch for the repository's objects.
func (l *look) scratch(ctx context.Context) (*scratch, error) {
	if l.borrow != nil {
		return l.borrow, nil
	}
	tips, err := l.repo.tips(ctx)
	if err != nil {
		return nil, err
	}
	format := sha1Digits
	if len(l.claim.Commit) == sha256Digits {
		format = sha256Digits
	}
	if len(tips) > 0 {
		format = len(tips[0])
	}
	l.borrow, err = l.in.newScratch(ctx, l.repo, format)
	return l.borrow, err
}

// tip returns the commit at the end of the branch claimed.
func (l *look) tip() (string, error) {
	const op = "evidence.Repository"
	name := strings.TrimPrefix(l.claim.Branch, branchPrefix)
	if problem := refProblem(name); problem != "" {
		return "", hub.Errorf(hub.CodeInvalid, op, "%s is not the name of a branch: it %s", show(l.claim.Branch), problem)
	}
	found, err := l.repo.resolve(branchPrefix + name)
	if hub.CodeOf(err) == hub.CodeNotFound {
		return "", hub.Errorf(hub.CodeNotFound, op, "there is no branch %s", show(name))
	}
	return found.id, err
}

func (l *look) branch(ctx context.Context) (string, error) {
	id, err := l.tip()
	if err != nil {
		return "", err
	}
	s, err := l.scratch(ctx)
	if err != nil {
		return "", err
	}
	if _, err := s.commit(ctx, id); err != nil {
		return "", err
	}
	return fmt.Sprintf("branch %s is at %s", show(l.claim.Branch), id), nil
}

func (l *look) commit(ctx context.Context) (string, error) {
	const op = "evidence.Repository"
	if problem := commitProblem(l.claim.Commit); problem != "" {
		return "", hub.Errorf(hub.CodeInvalid, op, "%s is not the name of a commit: it %s", show(l.claim.Commit), problem)
	}
	s, err := l.scratch(ctx)
	if err != nil {
		return "", err
	}
	id, err := s.commit(ctx, l.claim.Commit)
	if err != nil {
		return "", err
	}
	from, tips := "a branch or tag", []string(nil)
	if l.claim.Branch != "" {
		tip, err := l.tip()
		if err != nil {
			return "", err
		}
		from, tips = "branch "+show(l.claim.Branch), []string{tip}
	} else if tips, err = l.repo.tips(ctx); err != nil {
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

func (l *look) worktree(context.Context) (string, error) {
	l.work, l.workErr = l.openWorktree()
	if l.workErr != nil {
		return "", l.workErr
	}
	where := "has no commit yet"
	switch head, err := l.work.resolve("HEAD"); {
	case err == nil && head.name == "HEAD":
		where = "is at " + head.id
	case err == nil:
		where = fmt.Sprintf("is on branch %s at %s", show(strings.TrimPrefix(head.name, branchPrefix)), head.id)
	case hub.CodeOf(err) != hub.CodeNotFound:
		return "", err
	}
	return fmt.Sprintf("%s is a working tree of the repository and %s", show(l.claim.Worktree), where), nil
}

// openWorktree opens the working tree claimed, provided it belongs to the
// repository.
func (l *look) openWorktree() (*repository, error) {
	work, err := l.in.openRepository(l.claim.Worktree)
	if err != nil {
		return nil, err
	}
	ok, err := work.sameAs(l.repo)
	if ok && err == nil {
		ok, err = l.in.registered(work)
	}
	if err == nil && !ok {
		err = hub.Errorf(hub.CodeConflict, "evidence.Repository", "%s is not a working tree of the repository", show(l.claim.Worktree))
	}
	if err != nil {
		work.close()
		return nil, explain(l.claim.Worktree, err)
	}
	return work, nil
}

func (l *look) clean(ctx context.Context) (string, error) {
	d, _, err := l.difference(ctx)
	if err != nil {
		return "", err
	}
	if err := d.judge(l.claim.Clean); err != nil {
		return "", err
	}
	return d.String(), nil
}

// difference says how the working tree differs from the commit that is checked
// out there, and returns it for further looks.
func (l *look) difference(ctx context.Context) (*difference, *repository, error) {
	const op = "evidence.Repository"
	work := l.repo
	if l.claim.Worktree != "" {
		if work = l.work; l.workErr != nil {
			return nil, nil, l.workErr
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
	s, err := l.scratch(ctx)
	if err != nil {
		return nil, nil, err
	}
	d, err := l.in.compare(ctx, s, work, head.id)
	return d, work, err
}

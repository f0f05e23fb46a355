package contract

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/git"
)

// Git reads the repositories of this machine through the hub's own copies.
type Git interface {
	// Fetch returns the commit that a revision names. It reports CodeNotFound if there is none.
	Fetch(ctx context.Context, folder, revision string) (Commit, error)
	// Target returns the newest commit of the branch that work lands in; the zero Commit if there is no
	// such branch.
	Target(ctx context.Context, folder string) (Commit, error)
	// File returns a file of a commit, nil if there is none.
	File(ctx context.Context, folder, commit, name string) ([]byte, error)
}

// NewRepositories returns the Repositories of the hub with a store. The repositories of a hub are those that
// have checks, a landing policy or results of checks there.
func NewRepositories(store hub.Store, g Git) Repositories { return homes{store, g} }

// homes are the repositories of a hub.
type homes struct {
	store hub.Store
	git   Git
}

// Find returns the repository of this hub that is one of a project, and false if there is none. The repositories of this hub are those that have checks, a
// landing policy or results of checks here.
func (h homes) Find(ctx context.Context, r coord.Repo) (hub.Repository, bool, error) {
	here, err := hub.Read(ctx, h.store, func(rd hub.Reader) (all []hub.Repository, err error) {
		checks, err := rd.Checks().All()
		for _, k := range checks {
			all = append(all, k.Repository)
		}
		if err != nil {
			return nil, err
		}
		policies, err := rd.Landings().Policies()
		for _, p := range policies {
			all = append(all, hub.Repository{Machine: p.Machine, Path: p.Repository})
		}
		return all, err
	})
	if err != nil {
		return hub.Repository{}, false, err
	}
	slices.SortFunc(here, func(a, b hub.Repository) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Machine, b.Machine))
	})
	for _, one := range slices.Compact(here) {
		isNamed := filepath.Base(one.Path) == r.Name
		if r.URL != "" || !isNamed {
			remotes, err := git.Remotes(ctx, one.Path)
			if err != nil || !isRepository(r, one.Path, remotes) {
				continue // a folder that is gone is no repository
			}
		}
		return one, true, nil
	}
	return hub.Repository{}, false, nil
}

// Commit implements Repositories.
func (h homes) Commit(ctx context.Context, r hub.Repository, revision string) (Commit, error) {
	return h.git.Fetch(ctx, r.Path, revision)
}

// Target implements Repositories.
func (h homes) Target(ctx context.Context, r hub.Repository) (Commit, error) {
	return h.git.Target(ctx, r.Path)
}

// File implements Repositories.
func (h homes) File(ctx context.Context, r hub.Repository, commit, name string) ([]byte, error) {
	return h.git.File(ctx, r.Path, commit, name)
}

// isRepository reports whether a repository of a project is the one in a folder. The addresses of
// its remotes decide, if the project knows one; else the name of the folder, or the last part of an
// address.
func isRepository(r coord.Repo, folder string, remotes []string) bool {
	if r.URL != "" && len(remotes) > 0 {
		return slices.Contains(remotes, git.PlainAddress(r.URL))
	}
	isLast := func(remote string) bool { return path.Base(remote) == r.Name }
	return filepath.Base(folder) == r.Name || slices.ContainsFunc(remotes, isLast)
}

// maxHomes bounds the projects in which a repository is searched.
const maxHomes = 1000

// ByRepository answers questions about the contracts of a repository of this machine, in all projects that it
// is in.
type ByRepository struct{ *Service }

// ByRepository returns the questions about repositories of this machine.
func (s *Service) ByRepository() ByRepository { return ByRepository{s} }

// Version returns the version that a text such as User@2 names in a project of a repository.
func (l ByRepository) Version(ctx context.Context, r hub.Repository, text string) (hub.ContractRef, error) {
	const op = "check.Run"
	remotes, err := git.Remotes(ctx, r.Path)
	if err != nil {
		return hub.ContractRef{}, err
	}
	projects, err := hub.Read(ctx, l.store, func(rd hub.Reader) (out []coord.Project, err error) {
		all, err := rd.Coordination().Projects("", maxHomes)
		for _, p := range all {
			isIn := func(repo coord.Repo) bool { return isRepository(repo, r.Path, remotes) }
			if slices.ContainsFunc(p.Repos, isIn) {
				out = append(out, p)
			}
		}
		return out, err
	})
	if err != nil {
		return hub.ContractRef{}, err
	}
	var found []hub.ContractRef
	for _, p := range projects {
		ref, err := l.Service.Version(ctx, p.ID, text)
		if hub.CodeOf(err) == hub.CodeNotFound && len(projects) > 1 {
			continue
		}
		if err != nil {
			return hub.ContractRef{}, err
		}
		found = append(found, ref)
	}
	switch len(found) {
	case 0:
		return hub.ContractRef{}, hub.Errorf(hub.CodeNotFound, op, "no project of %s has a contract %.100q", r.Path, text).WithHint("{contract.list} lists the project's contracts")
	case 1:
		return found[0], nil
	}
	return hub.ContractRef{}, hub.Errorf(hub.CodeConflict, op, "%d projects of %s have a contract %.100q: name it by its id", len(found), r.Path, text)
}

// Test makes a check the only test of a contract in a repository.
func (l ByRepository) Test(ctx context.Context, actor hub.Caller, r hub.Repository, ref hub.ContractRef, check string) error {
	remotes, err := git.Remotes(ctx, r.Path)
	if err != nil {
		return err
	}
	p, err := l.Service.Project(ctx, actor, ref.Project)
	if err != nil {
		return err
	}
	for _, repo := range p.Repos {
		if isRepository(repo, r.Path, remotes) {
			_, err = l.Service.Test(ctx, actor, TestChange{InContract: Of(p.ID, ref.Contract), Repo: repo.Name, Check: check, Only: true})
			return err
		}
	}
	return hub.Errorf(hub.CodeNotFound, "check.Trust", "%s is no repository of project %s", r.Path, p.Name)
}

// A gatedRepo is a repository of a project.
type gatedRepo struct {
	project coord.Project
	repo    coord.Repo
}

// Broken returns a sentence about the first contract of a repository that does not hold, or for which a
// commit may not be merged, with the repositories that use it; "" if there is none. The zero Commit asks
// about the contracts alone. A contract with a provider is asked about the commit, as
// can-merge does; the others must hold, as contract check has it.
func (l ByRepository) Broken(ctx context.Context, repository string, c Commit) (string, error) {
	all, err := l.gated(ctx, repository)
	if err != nil {
		return "", err
	}
	for _, g := range all {
		broken, err := l.undirected(ctx, g)
		if err == nil && broken == "" && c.ID != "" {
			broken, err = l.directed(ctx, g, c)
		}
		if err != nil || broken != "" {
			return broken, err
		}
	}
	return "", nil
}

// Names returns the contracts about which Broken asks, by name and version, such as User@2.
func (l ByRepository) Names(ctx context.Context, repository string) (out []string, err error) {
	all, err := l.gated(ctx, repository)
	if err != nil {
		return nil, err
	}
	for _, g := range all {
		v, err := l.check(ctx, g)
		if err != nil {
			return nil, err
		}
		out = append(out, v.Asked...)
	}
	return out, nil
}

// gated returns the repositories of projects that are the one in a folder.
func (l ByRepository) gated(ctx context.Context, repository string) ([]gatedRepo, error) {
	remotes, err := git.Remotes(ctx, repository)
	if err != nil {
		return nil, err
	}
	return hub.Read(ctx, l.store, func(r hub.Reader) (out []gatedRepo, err error) {
		projects, err := r.Coordination().Projects("", maxHomes)
		for _, p := range projects {
			for _, repo := range p.Repos {
				if isRepository(repo, repository, remotes) {
					out = append(out, gatedRepo{p, repo})
				}
			}
		}
		return out, err
	})
}

// check asks whether all contracts of a repository hold.
func (l ByRepository) check(ctx context.Context, g gatedRepo) (Verdict, error) {
	return l.Service.Check(ctx, hub.Caller{ID: hub.Self}, Gate{InProject: In(g.project.ID), Repo: g.repo.Name, AllowNone: true})
}

// undirected returns a sentence about the first contract without a provider that does not hold.
func (l ByRepository) undirected(ctx context.Context, g gatedRepo) (string, error) {
	v, err := l.check(ctx, g)
	if err != nil || v.OK {
		return "", err
	}
	for _, f := range v.Failures {
		text, directed, err := l.describe(ctx, g, f)
		isOpen := f.Status == coord.ContractProposed || f.Status == coord.ContractNegotiating
		if err != nil || !directed || !isOpen {
			return text, err
		}
	}
	return "", nil
}

// directed returns the first reason why a commit may not be merged, with who must do what.
func (l ByRepository) directed(ctx context.Context, g gatedRepo, c Commit) (string, error) {
	got, err := l.Service.CanMerge(ctx, hub.Caller{ID: hub.Self}, Candidate{
		InProject: In(g.project.ID), Repo: g.repo.Name, Commit: c.ID, Tree: c.Tree, AllowNone: true, Directed: true,
	})
	if err != nil || got.OK() {
		return "", err
	}
	r := got.Reasons[0]
	return fmt.Sprintf("the contract %s of project %s: %s; next for %s: %s", r.Contract, g.project.ID, r.Reason, r.Who, r.Next), nil
}

// describe returns a sentence about a contract that does not hold, with the other repositories that
// use it, and reports whether it has a provider.
func (l ByRepository) describe(ctx context.Context, g gatedRepo, f Failure) (text string, directed bool, err error) {
	text = fmt.Sprintf("the contract %s (version %d) of project %s is %s", f.Name, f.Version, g.project.ID, f.Reason)
	c, err := hub.Read(ctx, l.store, func(r hub.Reader) (coord.Contract, error) { return r.Coordination().Contract(g.project.ID, f.Contract) })
	if hub.CodeOf(err) == hub.CodeNotFound { // it was not delivered
		return text, false, nil
	}
	var users []string
	for _, r := range c.Parties(g.project) {
		if r.ID != g.repo.ID {
			users = append(users, r.Name)
		}
	}
	if len(users) > 0 {
		text += "; used by " + strings.Join(users, ", ")
	}
	return text, c.Terms.Provider != "", err
}

package server

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/reach/clone"
	"github.com/parley-agents/parley/internal/service/check"
	"github.com/parley-agents/parley/internal/service/contract"
)

// contractRepositories reads the repositories of projects through the hub's own copies.
type contractRepositories struct{ repositories }

// Find implements contract.Repositories. The repositories of this hub are those that have checks, a
// landing policy or results of checks here.
func (c contractRepositories) Find(ctx context.Context, r coord.Repo) (hub.Repository, bool, error) {
	here, err := hub.Read(ctx, c.s.store, func(rd hub.Reader) (all []hub.Repository, err error) {
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
			remotes, err := remotesOf(ctx, one.Path)
			if err != nil || !isRepository(r, one.Path, remotes) {
				continue // a folder that is gone is no repository
			}
		}
		return one, true, nil
	}
	return hub.Repository{}, false, nil
}

// Commit implements contract.Repositories.
func (c contractRepositories) Commit(ctx context.Context, r hub.Repository, revision string) (contract.Commit, error) {
	got, err := c.Fetch(ctx, r.Path, revision)
	return contract.Commit{ID: got.ID, Tree: got.Tree}, err
}

// Target implements contract.Repositories.
func (c contractRepositories) Target(ctx context.Context, r hub.Repository) (contract.Commit, error) {
	copied, heads, err := c.targets(ctx, r.Path)
	if err != nil || len(heads) == 0 {
		return contract.Commit{}, err
	}
	got, err := copied.Fetch(ctx, heads[0])
	if errors.Is(err, clone.ErrNoCommit) {
		return contract.Commit{}, nil
	}
	return contract.Commit{ID: got.ID, Tree: got.Tree}, gitError(err)
}

// File implements contract.Repositories.
func (c contractRepositories) File(ctx context.Context, r hub.Repository, commit, name string) ([]byte, error) {
	return c.repositories.File(ctx, r.Path, commit, name)
}

// Start implements contract.Runner.
func (c contractRepositories) Start(ctx context.Context, caller hub.Caller, r hub.Repository, commit, name, version string) error {
	_, err := c.s.checks.Run(ctx, caller, check.Request{Folder: r.Path, Name: name, Commit: commit, Contract: version})
	return err
}

// contractVersions knows the contracts of the projects that a repository is in.
type contractVersions struct{ s *Server }

// Version implements check.Contracts.
func (c contractVersions) Version(ctx context.Context, r hub.Repository, text string) (hub.ContractRef, error) {
	const op = "check.Run"
	remotes, err := remotesOf(ctx, r.Path)
	if err != nil {
		return hub.ContractRef{}, err
	}
	projects, err := hub.Read(ctx, c.s.store, func(rd hub.Reader) (out []coord.Project, err error) {
		all, err := rd.Coordination().Projects("", maxProjects)
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
		ref, err := c.s.contracts.Version(ctx, p.ID, text)
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

// Test implements check.Contracts.
func (c contractVersions) Test(ctx context.Context, actor hub.Caller, r hub.Repository, ref hub.ContractRef, check string) error {
	remotes, err := remotesOf(ctx, r.Path)
	if err != nil {
		return err
	}
	p, err := c.s.contracts.Project(ctx, actor, ref.Project)
	if err != nil {
		return err
	}
	for _, repo := range p.Repos {
		if isRepository(repo, r.Path, remotes) {
			_, err = c.s.contracts.Test(ctx, actor, contract.TestChange{InContract: contract.Of(p.ID, ref.Contract), Repo: repo.Name, Check: check, Only: true})
			return err
		}
	}
	return hub.Errorf(hub.CodeNotFound, "check.Trust", "%s is no repository of project %s", r.Path, p.Name)
}

// Content implements check.Contracts.
func (c contractVersions) Content(ctx context.Context, ref hub.ContractRef) ([]byte, error) {
	return c.s.contracts.Content(ctx, ref)
}

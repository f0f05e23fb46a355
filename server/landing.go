package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/git"
	"github.com/parley-agents/parley/internal/ground/shape"
	"github.com/parley-agents/parley/internal/reach/clone"
	"github.com/parley-agents/parley/internal/service/check"
	"github.com/parley-agents/parley/internal/service/contract"
	"github.com/parley-agents/parley/internal/service/landing"
)

// openLandings builds the landing queues. Steps that a killed process had begun in working trees
// are finished first.
func (s *Server) openLandings(ctx context.Context) error {
	recovered, err := s.copies.Recover(ctx)
	if err != nil {
		return fmt.Errorf("server: finish the landings of a killed process: %w", err)
	}
	for _, r := range recovered {
		s.log.Info("a landing of a killed process was finished", "op", "server.openLandings", "repository", r.Repository, "branch", r.Branch, "landed", r.Landed, "failure", r.Failure)
	}

	repos := repositories{s}
	o := &landing.Options{Clock: s.clock, Bus: s.hints, Log: s.log, Work: landingWork{s}, Contracts: landingContracts{s}, Vendors: agentVendors{s}}
	if s.postgres != nil {
		o.Machine = s.postgres.Machine()
	}
	s.landings = landing.New(s.store, landingGit{repos}, landingChecks{s}, s.mail, o)
	return nil
}

// landingGit reads and writes repositories for the landing queues, through the hub's copies.
type landingGit struct{ repositories }

// Repository implements landing.Git.
func (g landingGit) Repository(ctx context.Context, folder string) (string, error) {
	found, err := g.Find(ctx, folder)
	return found.Path, err
}

// Resolve implements landing.Git.
func (g landingGit) Resolve(ctx context.Context, repository, revision string) (landing.Commit, error) {
	c, err := g.copyOf(ctx, repository)
	if err != nil {
		return landing.Commit{}, err
	}
	got, err := c.Fetch(ctx, revision)
	return landing.Commit(got), gitError(err)
}

// Branch implements landing.Git.
func (g landingGit) Branch(ctx context.Context, repository, branch string) (landing.Commit, error) {
	c, err := g.copyOf(ctx, repository)
	if err != nil {
		return landing.Commit{}, err
	}
	got, err := c.Head(ctx, branch)
	return landing.Commit(got), gitError(err)
}

// Contains implements landing.Git.
func (g landingGit) Contains(ctx context.Context, repository, head, commit string) (bool, error) {
	c, err := g.copyOf(ctx, repository)
	if err != nil {
		return false, err
	}
	isIn, err := isAncestor(ctx, c, commit, head)
	var exit *exec.ExitError
	if errors.As(err, &exit) { // the copy does not have the commit
		return false, nil
	}
	return isIn, err
}

// Merge implements landing.Git.
func (g landingGit) Merge(ctx context.Context, repository string, onto, change landing.Commit, message string) (landing.Merge, error) {
	c, err := g.copyOf(ctx, repository)
	if err != nil {
		return landing.Merge{}, err
	}
	got, err := c.Merge(ctx, clone.Commit(onto), clone.Commit(change), message)
	return mergeOf(got), gitError(err)
}

// Revert implements landing.Git.
func (g landingGit) Revert(ctx context.Context, repository string, onto landing.Commit, merged, message string) (landing.Merge, error) {
	c, err := g.copyOf(ctx, repository)
	if err != nil {
		return landing.Merge{}, err
	}
	got, err := c.Revert(ctx, clone.Commit(onto), merged, message)
	return mergeOf(got), gitError(err)
}

// mergeOf returns a merge of a copy in the form of the queue.
func mergeOf(m clone.Merge) landing.Merge {
	out := landing.Merge{Commit: landing.Commit(m.Commit)}
	for _, c := range m.Conflicts {
		out.Conflicts = append(out.Conflicts, landing.Conflict{Path: c.Path, Base: contentOf(c.Base), Ours: contentOf(c.Ours), Theirs: contentOf(c.Theirs)})
	}
	return out
}

// contentOf returns the text of one side of a conflict.
func contentOf(t *clone.Text) string {
	switch {
	case t == nil:
		return ""
	case t.Submodule:
		return "(the commit " + t.ID + " of a submodule)"
	case t.Binary:
		return fmt.Sprintf("(a binary file of %d bytes, blob %s)", t.Size, t.ID)
	}
	return t.Content
}

// Forward implements landing.Git.
func (g landingGit) Forward(ctx context.Context, repository, branch, from, to string) (landing.Forwarding, error) {
	c, err := g.copyOf(ctx, repository)
	if err != nil {
		return landing.Forwarding{}, err
	}
	got, err := c.Forward(ctx, branch, from, to)
	if errors.Is(err, clone.ErrMoved) || errors.Is(err, clone.ErrNotForward) {
		return landing.Forwarding{Stale: true}, nil
	}
	if err != nil {
		return landing.Forwarding{}, gitError(err)
	}
	if len(got.Kept) > 0 {
		g.s.log.Warn("files were written to while a branch was brought forward; their contents are kept", "op", "server.Forward", "files", got.Kept)
	}
	out := landing.Forwarding{Moved: got.Moved}
	var texts []string
	for _, w := range got.Waits {
		texts = append(texts, w.String())
		out.Paths = append(out.Paths, w.Paths...)
	}
	out.Waits = strings.Join(texts, "; ")
	return out, nil
}

// maxOutput bounds the bytes of a list that git writes about a copy.
const maxOutput = 4 << 20

// Change implements landing.Git.
func (g landingGit) Change(ctx context.Context, repository, target, commit string, most int) (out landing.Change, err error) {
	c, err := g.copyOf(ctx, repository)
	if err != nil {
		return out, err
	}
	if out.Base, err = c.Output(ctx, maxOutput, "merge-base", target, commit); err != nil {
		return out, gitError(err)
	}
	if out.Patch, err = g.differenceOf(ctx, c, repository, out.Base, commit, most); err != nil {
		return out, err
	}
	out.Authors, err = authorsOf(ctx, c, out.Base, commit)
	return out, gitError(err)
}

// addressesOfCLIs are the addresses in the trailers that agent CLIs write by themselves. Those at GitHub
// follow a number.
var addressesOfCLIs = []string{
	"noreply@anthropic.com", "noreply@openai.com", "codex@openai.com", "copilot@users.noreply.github.com", "claude@users.noreply.github.com", "gemini-cli@users.noreply.github.com",
	"gemini-cli-agent@google.com", "qwen-coder@alibabacloud.com", "noreply@opencode.ai", "cursoragent@cursor.com", "noreply@cursor.com",
}

// isWrittenByCLI reports whether a trailer is one that agent CLIs write by themselves, by its address.
func isWrittenByCLI(address string) bool {
	address, _, _ = strings.Cut(strings.ToLower(strings.TrimSpace(address)), ">")
	number, rest, ok := strings.Cut(address, "+")
	if ok && strings.Trim(number, "0123456789") == "" {
		address = rest
	}
	return slices.Contains(addressesOfCLIs, address)
}

// authorsOf returns the names of the authors and committers of the commits after a base, and those in
// their trailers but for the ones that agent CLIs write by themselves.
func authorsOf(ctx context.Context, c *clone.Copy, base, commit string) (out []string, err error) {
	list, err := c.Output(ctx, maxOutput, "log", "--format=%an%n%cn%n%(trailers:only,unfold,valueonly)", base+".."+commit)
	for line := range strings.Lines(list) {
		name, address, hasAddress := strings.Cut(strings.TrimSpace(line), "<")
		if name = strings.TrimSpace(name); name != "" && !(hasAddress && isWrittenByCLI(address)) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), err
}

// Files implements landing.Git.
func (g landingGit) Files(ctx context.Context, repository, from, to string) (out []landing.File, err error) {
	c, err := g.copyOf(ctx, repository)
	if err != nil {
		return nil, err
	}
	deltas, err := c.Deltas(ctx, from, to)
	for _, d := range deltas {
		out = append(out, landing.File(d))
	}
	return out, gitError(err)
}

// Fork implements landing.Git.
func (g landingGit) Fork(ctx context.Context, repository, target, commit string) (string, error) {
	c, err := g.copyOf(ctx, repository)
	if err != nil {
		return "", err
	}
	fork, err := c.Fork(ctx, target, commit)
	return fork, gitError(err)
}

// Missing implements landing.Git.
func (g landingGit) Missing(ctx context.Context, repository, target, change string, commits []string) (map[string]bool, error) {
	c, err := g.copyOf(ctx, repository)
	if err != nil {
		return nil, err
	}
	missing, err := c.Missing(ctx, target, change, commits)
	return missing, gitError(err)
}

// Joins implements landing.Git.
func (g landingGit) Joins(ctx context.Context, repository, target, commit string) (out []landing.Join, err error) {
	c, err := g.copyOf(ctx, repository)
	if err != nil {
		return nil, err
	}
	joins, err := c.Joins(ctx, target, commit)
	for _, j := range joins {
		out = append(out, landing.Join(j))
	}
	return out, gitError(err)
}

// Combine implements landing.Git.
func (g landingGit) Combine(ctx context.Context, repository, base, ours, theirs string) (string, []string, error) {
	c, err := g.copyOf(ctx, repository)
	if err != nil {
		return "", nil, err
	}
	tree, conflicts, err := c.Combine(ctx, base, ours, theirs)
	return tree, conflicts, gitError(err)
}

// Compose implements landing.Git.
func (g landingGit) Compose(ctx context.Context, repository, tree, message string, parents ...string) (landing.Commit, error) {
	c, err := g.copyOf(ctx, repository)
	if err != nil {
		return landing.Commit{}, err
	}
	made, err := c.Compose(ctx, tree, message, parents...)
	return landing.Commit(made), gitError(err)
}

// SamePatch implements landing.Git.
func (g landingGit) SamePatch(ctx context.Context, repository, target, a, b string) (bool, error) {
	c, err := g.copyOf(ctx, repository)
	if err != nil {
		return false, err
	}
	var ids []string
	for _, commit := range []string{a, b} {
		base, err := c.Output(ctx, maxOutput, "merge-base", target, commit)
		if err != nil {
			return false, nil // they have no common history
		}
		id, err := c.PatchID(ctx, base, commit)
		if err != nil {
			return false, gitError(err)
		}
		ids = append(ids, id)
	}
	return ids[0] != "" && ids[0] == ids[1], nil
}

// Patch implements landing.Git.
func (g landingGit) Patch(ctx context.Context, repository, from, to string, most int) (landing.Patch, error) {
	c, err := g.copyOf(ctx, repository)
	if err != nil {
		return landing.Patch{}, err
	}
	return g.differenceOf(ctx, c, repository, from, to, most)
}

// Keep implements landing.Git.
func (g landingGit) Keep(ctx context.Context, repository, name, commit string) error {
	return g.repositories.Keep(ctx, repository, name, commit)
}

// Drop implements landing.Git.
func (g landingGit) Drop(ctx context.Context, repository, name string) error {
	c, err := g.copyOf(ctx, repository)
	if err != nil {
		return err
	}
	return gitError(c.Drop(ctx, name))
}

// landingChecks runs the checks of landing policies.
type landingChecks struct{ s *Server }

// Known implements landing.Checks.
func (l landingChecks) Known(ctx context.Context, repository string) (out []landing.Check, err error) {
	all, err := l.all(ctx, repository)
	for _, c := range all {
		out = append(out, landing.Check{Name: c.Name, Required: c.Required, InPlace: c.InPlace})
	}
	return out, err
}

// all returns the checks of a repository.
func (l landingChecks) all(ctx context.Context, repository string) ([]hub.RepositoryCheck, error) {
	repo, err := repositories(l).Find(ctx, repository)
	if err != nil {
		return nil, err
	}
	return hub.Read(ctx, l.s.store, func(r hub.Reader) ([]hub.RepositoryCheck, error) { return r.Checks().OfRepository(repo) })
}

// Concerned implements landing.Checks.
func (l landingChecks) Concerned(ctx context.Context, repository, from, to string, names []string) (out []string, err error) {
	all, err := l.all(ctx, repository)
	if err != nil {
		return nil, err
	}
	plan := hub.CheckPlan{Base: from}
	isNarrow := func(c hub.RepositoryCheck) bool { return len(c.When) > 0 && slices.Contains(names, c.Name) }
	if slices.ContainsFunc(all, isNarrow) {
		c, err := repositories(l).copyOf(ctx, repository)
		if err != nil {
			return nil, err
		}
		deltas, err := c.Deltas(ctx, from, to)
		if err != nil {
			return nil, gitError(err)
		}
		for _, d := range deltas {
			plan.Changes = append(plan.Changes, hub.CommitChange{Path: d.Path})
		}
	}
	for _, c := range all {
		if slices.Contains(names, c.Name) && check.Touches(c, plan) {
			out = append(out, c.Name)
		}
	}
	return out, nil
}

// Judged implements landing.Checks.
func (l landingChecks) Judged(ctx context.Context, repository, target, commit string, names []string) ([]hub.JudgeFinding, error) {
	all, err := l.all(ctx, repository)
	if err != nil {
		return nil, err
	}
	c, err := repositories(l).copyOf(ctx, repository)
	if err != nil {
		return nil, err
	}
	plan := hub.CheckPlan{Commit: commit}
	if plan.Base, err = c.Output(ctx, maxOutput, "merge-base", target, commit); err != nil {
		return nil, err
	}
	deltas, err := c.Deltas(ctx, plan.Base, commit)
	if err != nil {
		return nil, gitError(err)
	}
	for _, d := range deltas {
		plan.Changes = append(plan.Changes, hub.CommitChange{Path: d.Path, Was: d.Before, Is: d.After})
	}
	plan.Checks = slices.DeleteFunc(all, func(c hub.RepositoryCheck) bool { return !slices.Contains(names, c.Name) })
	return l.s.checks.Judged(ctx, repository, plan)
}

// Run implements landing.Checks. A check that runs in a working tree does not count for landing.
func (l landingChecks) Run(ctx context.Context, q landing.CheckRun) (landing.CheckReport, error) {
	const op = "server.Checks"
	repos := repositories(l)
	repo, err := repos.Find(ctx, q.Repository)
	if err != nil {
		return landing.CheckReport{}, err
	}
	plan := hub.CheckPlan{Repository: repo, Worktree: q.Repository, Commit: q.Commit.ID, Tree: q.Commit.Tree, Fills: q.Target}
	all, err := hub.Read(ctx, l.s.store, func(r hub.Reader) ([]hub.RepositoryCheck, error) { return r.Checks().OfRepository(repo) })
	if err != nil {
		return landing.CheckReport{}, err
	}
	for _, name := range q.Names {
		i := slices.IndexFunc(all, func(c hub.RepositoryCheck) bool { return c.Name == name })
		switch {
		case i < 0:
			return landing.CheckReport{}, hub.Errorf(hub.CodeNotFound, op, "the check %s was removed", name)
		case all[i].InPlace:
			return landing.CheckReport{}, hub.Errorf(hub.CodeInvalid, op, "the check %s runs in place, which does not count for landing", name)
		}
		plan.Checks = append(plan.Checks, all[i])
	}

	if q.Kept {
		return l.kept(ctx, plan)
	}
	if err := repos.Keep(ctx, q.Repository, "checked/"+q.Commit.ID, q.Commit.ID); err != nil {
		return landing.CheckReport{}, err
	}
	_, results, err := l.s.checks.Try(ctx, hub.Caller{ID: hub.Self}, plan, false, q.Since)
	if err != nil {
		return landing.CheckReport{}, err
	}
	notes := map[string]string{}
	for range q.Repeat {
		if err := l.repeat(ctx, plan, results, notes); err != nil {
			return landing.CheckReport{}, err
		}
	}
	return reportOf(plan, results, notes)
}

// kept sums up the kept results of checks. It reports CodeNotFound if one has none.
func (l landingChecks) kept(ctx context.Context, plan hub.CheckPlan) (landing.CheckReport, error) {
	var results []hub.CheckResult
	for _, c := range plan.Checks {
		found, err := hub.Read(ctx, l.s.store, func(r hub.Reader) ([]hub.CheckResult, error) {
			return r.Checks().Results(hub.CheckResultQuery{Repository: plan.Repository, Tree: plan.Tree, Digest: c.Digest, States: []hub.CheckState{hub.ResultPassed, hub.ResultFailed}, Limit: 1})
		})
		if err != nil {
			return landing.CheckReport{}, err
		}
		if len(found) == 0 {
			return landing.CheckReport{}, hub.Errorf(hub.CodeNotFound, "server.Checks", "no kept result of %s for this commit", c.Name)
		}
		results = append(results, found[0])
	}
	return reportOf(plan, results, nil)
}

// repeat runs the checks that failed once more, and notes which result each new one repeats.
func (l landingChecks) repeat(ctx context.Context, plan hub.CheckPlan, results []hub.CheckResult, notes map[string]string) error {
	for i, r := range results {
		if r.State != hub.ResultFailed {
			continue
		}
		one := plan
		one.Checks = plan.Checks[i : i+1]
		_, again, err := l.s.checks.Try(ctx, hub.Caller{ID: hub.Self}, one, true, hub.Time{})
		if err != nil {
			return err
		}
		notes[r.Name] = fmt.Sprintf(", repeated after %s failed", r.ID)
		results[i] = again[0]
	}
	return nil
}

// reportOf sums up the results of checks. A run that was cancelled says nothing about the commit.
func reportOf(plan hub.CheckPlan, results []hub.CheckResult, notes map[string]string) (landing.CheckReport, error) {
	out := landing.CheckReport{Passed: true, Tests: map[string]hub.TestCount{}}
	for i, r := range results {
		if plan.Checks[i].JUnit != "" { // without a report there are no tests
			out.Tests[r.Name] = hub.TestCount{}
		}
		if r.Tests != nil {
			out.Tests[r.Name] = *r.Tests
		}
		out.Results = append(out.Results, string(r.ID))
		evidence := fmt.Sprintf("%s %s%s", r.ID, r.State, notes[r.Name])
		if level := r.Confinement(); level != "" {
			evidence += " (" + level + ")"
		}
		out.Asked = append(out.Asked, hub.GateEvidence{What: "check " + r.Name, Evidence: evidence, Of: plan.Commit, By: hub.Self, At: r.EndedAt})
		switch {
		case r.State == hub.ResultCancelled:
			return out, hub.Errorf(hub.CodeConflict, "server.Checks", "the run of %s was cancelled", r.Name)
		case r.State != hub.ResultPassed && out.Passed:
			out.Passed = false
			out.Failed = r.Name
			out.State = string(r.State)
			out.Output = r.Output.Tail
			if out.Output == "" {
				out.Output = r.Reason
			}
		}
	}
	return out, nil
}

// Output implements landing.Checks.
func (l landingChecks) Output(ctx context.Context, repository string, c landing.Commit) string {
	repo, err := repositories(l).Find(ctx, repository)
	if err != nil {
		return ""
	}
	page, err := l.s.checks.Results(ctx, hub.CheckResultQuery{Repository: repo, Tree: c.Tree, Limit: maxShown})
	if err != nil {
		return ""
	}
	for _, r := range page.Results {
		if r.State == hub.ResultRunning {
			if got, err := l.s.checks.Result(ctx, r.ID); err == nil {
				return got.Output.Tail
			}
		}
	}
	return ""
}

// maxShown is the number of results that are searched for one that runs.
const maxShown = 20

// maxProjects bounds the projects in which a repository is searched.
const maxProjects = 1000

// landingContracts knows the contracts of repositories.
type landingContracts struct{ s *Server }

// A gatedRepo is a repository of a project.
type gatedRepo struct {
	project coord.Project
	repo    coord.Repo
}

// Broken implements landing.Contracts. A contract with a provider is asked about the commit, as
// can-merge does; the others must hold, as contract check has it.
func (l landingContracts) Broken(ctx context.Context, repository string, c landing.Commit) (string, error) {
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

// Names implements landing.Contracts.
func (l landingContracts) Names(ctx context.Context, repository string) (out []string, err error) {
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
func (l landingContracts) gated(ctx context.Context, repository string) ([]gatedRepo, error) {
	remotes, err := remotesOf(ctx, repository)
	if err != nil {
		return nil, err
	}
	return hub.Read(ctx, l.s.store, func(r hub.Reader) (out []gatedRepo, err error) {
		projects, err := r.Coordination().Projects("", maxProjects)
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
func (l landingContracts) check(ctx context.Context, g gatedRepo) (contract.Verdict, error) {
	return l.s.contracts.Check(ctx, hub.Caller{ID: hub.Self}, contract.Gate{InProject: contract.In(g.project.ID), Repo: g.repo.Name, AllowNone: true})
}

// undirected returns a sentence about the first contract without a provider that does not hold.
func (l landingContracts) undirected(ctx context.Context, g gatedRepo) (string, error) {
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
func (l landingContracts) directed(ctx context.Context, g gatedRepo, c landing.Commit) (string, error) {
	got, err := l.s.contracts.CanMerge(ctx, hub.Caller{ID: hub.Self}, contract.Candidate{
		InProject: contract.In(g.project.ID), Repo: g.repo.Name, Commit: c.ID, Tree: c.Tree, AllowNone: true, Directed: true,
	})
	if err != nil || got.OK() {
		return "", err
	}
	r := got.Reasons[0]
	return fmt.Sprintf("the contract %s of project %s: %s; next for %s: %s", r.Contract, g.project.ID, r.Reason, r.Who, r.Next), nil
}

// describe returns a sentence about a contract that does not hold, with the other repositories that
// use it, and reports whether it has a provider.
func (l landingContracts) describe(ctx context.Context, g gatedRepo, f contract.Failure) (text string, directed bool, err error) {
	text = fmt.Sprintf("the contract %s (version %d) of project %s is %s", f.Name, f.Version, g.project.ID, f.Reason)
	c, err := hub.Read(ctx, l.s.store, func(r hub.Reader) (coord.Contract, error) { return r.Coordination().Contract(g.project.ID, f.Contract) })
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

// isRepository reports whether a repository of a project is the one in a folder. The addresses of
// its remotes decide, if the project knows one; else the name of the folder, or the last part of an
// address.
func isRepository(r coord.Repo, folder string, remotes []string) bool {
	if r.URL != "" && len(remotes) > 0 {
		return slices.Contains(remotes, plainAddress(r.URL))
	}
	isLast := func(remote string) bool { return path.Base(remote) == r.Name }
	return filepath.Base(folder) == r.Name || slices.ContainsFunc(remotes, isLast)
}

// remotesOf returns the addresses of the remotes of a repository, as plainAddress returns them.
func remotesOf(ctx context.Context, repository string) (out []string, err error) {
	list, err := git.In(ctx, "git", repository, "config", "--get-regexp", `^remote\..*\.url$`).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		return nil, nil // it has none
	}
	for line := range strings.Lines(string(list)) {
		_, address, _ := strings.Cut(strings.TrimSpace(line), " ")
		out = append(out, plainAddress(address))
	}
	return out, err
}

// plainAddress returns the address of a repository without the parts in which two addresses of the
// same one differ: git@host:a/b.git and https://host/a/b are host/a/b.
func plainAddress(address string) string {
	text := strings.TrimSuffix(strings.TrimSuffix(address, "/"), ".git")
	if _, rest, ok := strings.Cut(text, "://"); ok {
		text = rest
	} else if host, path, ok := strings.Cut(text, ":"); ok && !strings.Contains(host, "/") { // host:path
		text = host + "/" + path
	}
	host, path, ok := strings.Cut(text, "/")
	if _, named, hasUser := strings.Cut(host, "@"); hasUser {
		host = named
	}
	if !ok {
		return host
	}
	return strings.ToLower(host) + "/" + path
}

// landedRefs compares landings with the branches of their repositories.
type landedRefs struct{ s *Server }

// Landed implements records.Refs.
func (l landedRefs) Landed(ctx context.Context, e hub.LandingEntry) (isIn, ok bool) {
	if l.s.postgres != nil && e.Machine != l.s.postgres.Machine() {
		return false, false
	}
	g := landingGit{repositories(l)}
	head, err := g.Branch(ctx, e.Repository, e.Into)
	if err != nil {
		return false, false
	}
	isIn, err = g.Contains(ctx, e.Repository, head.ID, e.LandedCommit)
	return isIn, err == nil
}

// landingWork knows the work of handoffs and of tasks of teams.
type landingWork struct{ s *Server }

// Piece implements landing.Work.
func (l landingWork) Piece(ctx context.Context, actor hub.Caller, s landing.Subject) (landing.Piece, error) {
	if s.Task == "" {
		return l.handoffPiece(ctx, actor, s.Handoff)
	}
	if l.s.teams == nil {
		return landing.Piece{}, hub.Errorf(hub.CodeNotEnabled, "server.Work", "this hub has no teams")
	}
	return l.taskPiece(ctx, actor, s.Task)
}

// Return implements landing.Work.
func (l landingWork) Return(tx hub.Tx, s landing.Subject, reason string) (bool, []hub.Message, error) {
	if s.Task == "" {
		return l.s.handoffs.Return(tx, s.Handoff, reason)
	}
	if l.s.teams == nil {
		return false, nil, nil
	}
	return l.s.teams.Return(tx, s.Task, reason)
}

// Reviewed implements landing.Work.
func (l landingWork) Reviewed(tx hub.Tx, id hub.HandoffID, review *hub.Review) ([]hub.Message, error) {
	return l.s.handoffs.Reviewed(tx, id, review)
}

// Held implements landing.Work.
func (l landingWork) Held(ctx context.Context, repository string, since hub.Time, limit int) (out []landing.Piece, err error) {
	folders := map[string]string{} // by piece
	err = l.s.store.View(ctx, func(r hub.Reader) error {
		found, err := r.Handoffs(hub.HandoffQuery{Owned: true, Limit: limit})
		for _, h := range found {
			if err != nil {
				return err
			}
			if h.InitiatedAt.Before(since.Time) || (h.Status == hub.HandoffClosed && h.Ending != hub.EndedDone) {
				continue
			}
			p, err := r.Checks().Progress(string(h.ID))
			if err != nil {
				return err
			}
			pkg, err := shape.DecodePackage(h.Package)
			if err != nil {
				continue
			}
			piece := landing.Piece{
				Subject: landing.Subject{Handoff: h.ID}, Folder: cmp.Or(p.Worktree, pkg.WorkState.Worktree), Commit: p.Commit, Base: p.Base, Branch: pkg.WorkState.Branch, Owner: h.To,
				Review: pkg.Review, Asker: h.From, Checks: pkg.Checks,
			}
			if piece.Folder != "" {
				folders[piece.Folder] = ""
				out = append(out, piece)
			}
		}
		if err != nil {
			return err
		}

		// Tasks of teams that were not accepted yet: their reviewer has to approve.
		tasks, err := r.Teamspaces().Tasks(hub.TaskQuery{States: []hub.TaskState{hub.TaskInProgress, hub.TaskInReview, hub.TaskRework}, Newest: true, Limit: limit})
		for _, t := range tasks {
			who := string(t.Reviewer)
			if who == "" && t.State == hub.TaskInReview {
				who = hub.ReviewerRolePrefix + string(hub.RoleReviewer)
			}
			if who == "" || t.Worktree == "" || t.Handoff != "" {
				continue
			}
			p, err := r.Checks().Progress(string(t.ID))
			if err != nil {
				return err
			}
			folders[t.Worktree] = ""
			out = append(out, landing.Piece{Subject: landing.Subject{Task: t.ID}, Folder: t.Worktree, Commit: p.Commit, Owner: t.Owner, Authors: t.Executors, Review: who, Asker: t.CreatedBy})
		}
		return err
	})
	if err != nil {
		return nil, err
	}

	git := landingGit{repositories(l)}
	for folder := range folders {
		if at, err := git.Repository(ctx, folder); err == nil { // else the folder is gone
			folders[folder] = at
		}
	}
	out = slices.DeleteFunc(out, func(p landing.Piece) bool { return folders[p.Folder] != repository })
	for i, p := range out {
		if p.Commit != "" {
			continue
		}
		c, err := git.copyOf(ctx, p.Folder) // work under way, or submitted without a commit
		if err != nil {
			return nil, err
		}
		out[i].Branch = cmp.Or(p.Branch, c.Branch(ctx))
		head, err := git.Resolve(ctx, p.Folder, "HEAD")
		if err != nil && hub.CodeOf(err) != hub.CodeNotFound {
			return nil, err
		}
		out[i].Commit = head.ID
	}
	return out, nil
}

// unpassed has the texts about checks that keep work from landing.
var unpassed = map[hub.ChecksWord]string{hub.ChecksRunning: "its checks run", hub.ChecksFailed: "its checks failed"}

// taskPiece returns the work of a task of a team. The work of a task that its owner got by a
// handoff is that of the handoff.
func (l landingWork) taskPiece(ctx context.Context, actor hub.Caller, id hub.TaskID) (landing.Piece, error) {
	var t hub.Task
	var p hub.Progress
	err := l.s.store.View(ctx, func(r hub.Reader) (err error) {
		if t, err = l.s.teams.Readable(r, actor, id); err != nil {
			return err
		}
		p, err = r.Checks().Progress(string(id))
		return err
	})
	if err != nil {
		return landing.Piece{}, err
	}

	out := landing.Piece{
		Subject: landing.Subject{Task: id}, Folder: p.Worktree, Commit: p.Commit, Base: p.Base, Owner: t.Owner, Authors: t.Executors, Title: t.Title, Priority: hub.PriorityNormal, Checks: t.Checks, Ended: t.DoneAt,
	}
	if out.Folder == "" {
		out.Folder = t.Worktree
	}
	switch {
	case t.State != hub.TaskDone:
		out.Missing = "it is " + string(t.State)
	case t.Handoff != "":
		out.Missing = "its work belongs to the handoff " + string(t.Handoff)
	case unpassed[p.Checks] != "":
		out.Missing = unpassed[p.Checks]
	case out.Commit == "":
		out.Missing = "it has no commit"
	}
	out.Note, out.Fewer, err = l.results(ctx, p)
	return out, err
}

// handoffPiece returns the work of a handoff.
func (l landingWork) handoffPiece(ctx context.Context, actor hub.Caller, id hub.HandoffID) (landing.Piece, error) {
	r, err := l.s.handoffs.Show(ctx, actor, id)
	if err != nil {
		return landing.Piece{}, err
	}
	var p hub.Progress
	var short hub.ShortID
	err = l.s.store.View(ctx, func(r hub.Reader) (err error) {
		if p, err = r.Checks().Progress(string(id)); err != nil {
			return err
		}
		short, err = r.ShortID(string(id))
		return err
	})
	if err != nil {
		return landing.Piece{}, err
	}
	pkg, err := shape.DecodePackage(r.Package)
	if err != nil {
		return landing.Piece{}, err
	}

	out := landing.Piece{
		Subject: landing.Subject{Handoff: id}, Short: short, Folder: p.Worktree, Commit: p.Commit, Base: p.Base, Branch: pkg.WorkState.Branch, Owner: r.To, Title: r.Title, Criteria: pkg.Task.Criteria, Priority: pkg.Task.Priority, Review: pkg.Review, Asker: r.From, Checks: pkg.Checks, Ended: r.ResolvedAt,
	}
	if r.Restricted {
		out.Title = hub.RestrictedText
		out.Criteria = nil
	}
	if out.Folder == "" {
		out.Folder = pkg.WorkState.Worktree
	}
	if out.Commit == "" {
		out.Commit = r.Commit
	}
	for _, c := range r.Attribution {
		out.Authors = append(out.Authors, c.Agent)
	}
	if out.Branch == "" && out.Folder != "" {
		name, err := git.In(ctx, "git", out.Folder, "symbolic-ref", "--short", "--quiet", "HEAD").Output()
		if err == nil {
			out.Branch = strings.TrimSpace(string(name))
		}
	}

	out.IsDone = r.Ending == hub.EndedDone && unpassed[p.Checks] == ""

	// What is missing before the work may land.
	switch {
	case unpassed[p.Checks] != "":
		out.Missing = unpassed[p.Checks]
	case r.Ending != hub.EndedDone:
		out.Missing = "it is not completed"
	case r.Proof != hub.ProofVerified:
		out.Missing = "its work is not proven: " + string(r.Proof)
	case out.Commit == "":
		out.Missing = "its work is not committed"
	}
	out.Note, out.Fewer, err = l.results(ctx, p)
	return out, err
}

// results returns the results of the checks of work in one line, for its reviewer, and the note of
// one with fewer tests than before.
func (l landingWork) results(ctx context.Context, p hub.Progress) (line, fewer string, err error) {
	all, err := hub.Read(ctx, l.s.store, func(r hub.Reader) ([]hub.CheckResult, error) { return l.s.checks.Seen(r, p.Results, false) })
	var parts []string
	for _, v := range all {
		text := v.Name + " " + string(v.State)
		if v.Note != "" {
			text += " (" + v.Note + ")"
		}
		if v.Fewer && fewer == "" {
			fewer = v.Note
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; "), fewer, err
}

// Completed implements landing.Work.
func (l landingWork) Completed(ctx context.Context, since hub.Time, limit int) ([]landing.Finished, error) {
	return hub.Read(ctx, l.s.store, func(r hub.Reader) (out []landing.Finished, err error) {
		found, err := r.Handoffs(hub.HandoffQuery{States: []hub.HandoffState{hub.HandoffClosed, hub.HandoffCompleted}, Limit: limit})
		for _, h := range found {
			if h.Ending == hub.EndedDone && !h.ResolvedAt.Before(since.Time) {
				out = append(out, landing.Finished{Subject: landing.Subject{Handoff: h.ID}, At: h.ResolvedAt})
			}
		}
		if err != nil || l.s.teams == nil {
			return out, err
		}
		tasks, err := r.Teamspaces().Tasks(hub.TaskQuery{States: []hub.TaskState{hub.TaskDone}, Newest: true, Limit: limit})
		for _, t := range tasks {
			isWork := t.Handoff == "" && t.Worktree != ""
			if isWork && !t.DoneAt.Before(since.Time) {
				out = append(out, landing.Finished{Subject: landing.Subject{Task: t.ID}, At: t.DoneAt})
			}
		}
		return out, err
	})
}

package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/git"
	"github.com/parley-agents/parley/internal/reach/clone"
	"github.com/parley-agents/parley/internal/reach/evidence"
	"github.com/parley-agents/parley/internal/reach/workshop"
	"github.com/parley-agents/parley/internal/service/check"
)

// Checks configures the commands that check commits. The zero value works.
type Checks struct {
	Jobs    int    // runs at a time; default half of the processors, at least two
	DiskGB  int    // GiB that the files of a run can have; default 10
	Require bool   // refuse completions without passed checks
	Program string // the parley program, which confines commands; "" for this program, which is then not probed at the start
}

const (
	copiesDir   = "repositories" // holds the hub's own copies of repositories
	workshopDir = "workshop"     // holds the worktrees and caches of checks
)

// openChecks builds the service of checks, the copies of repositories that they read, and the
// workshop that runs them.
func (s *Server) openChecks(ctx context.Context) error {
	// The workshop ends the processes of a hub that was killed; only then nothing uses the worktrees
	// that the copies remove.
	shop, err := workshop.Open(ctx, filepath.Join(s.opts.Home, workshopDir), &workshop.Options{
		Jobs: s.opts.Checks.Jobs, Hidden: []string{s.opts.Home}, Program: s.opts.Checks.Program, Disk: int64(s.opts.Checks.DiskGB) << 30,
		Checkout: func(ctx context.Context, bare, commit, folder string) error {
			c, err := s.copies.At(ctx, bare)
			if err != nil {
				return err
			}
			return c.Checkout(ctx, commit, folder)
		},
	})
	if err != nil {
		return fmt.Errorf("server: open the workshop of checks: %w", err)
	}
	s.copies, err = clone.Open(filepath.Join(s.opts.Home, copiesDir))
	if err != nil {
		return fmt.Errorf("server: open the copies of repositories: %w", err)
	}

	o := &check.Options{Clock: s.clock, Log: s.log, Content: s.content, Jobs: s.opts.Checks.Jobs, Require: s.requiresChecks, Judge: judging, Contracts: contractVersions{s}}
	o.Tell = s.tellOfCheck
	o.Announce = func(messages ...hub.Message) { s.mail.Announce(messages...) }
	if s.postgres != nil {
		o.Machine = s.postgres.Machine()
		o.Hub = s.hubName()
	}
	here := repositories{s}
	var repos check.Repositories = here
	if s.distant != nil {
		repos = distantRepositories{here, s.distant}
	}
	s.checks = check.New(s.store, repos, checkRunner{shop, here}, s.hints, o)
	s.shop = shop
	return nil
}

// tellOfCheck writes a message about a run of a check to the operator or an agent.
func (s *Server) tellOfCheck(tx hub.Tx, to hub.AgentID, payload any) (hub.Message, error) {
	if to == hub.Operator {
		return s.mail.TellOperator(tx, payload)
	}
	text, err := json.Marshal(payload)
	if err != nil {
		return hub.Message{}, err
	}
	return s.mail.Notify(tx, hub.Envelope{To: []hub.AgentID{to}, Type: hub.TypeSystemError, Priority: hub.PriorityNormal, Payload: text})
}

// runChecks runs the checks that wait. First it finds out how this machine confines them: what they
// take from the machine afterwards makes their results weaker, which then do not count. A program that
// embeds a hub may not be able to confine a command, so it is not started without a check.
func (s *Server) runChecks(ctx context.Context) {
	if s.opts.Checks.Program != "" {
		if got, err := s.shop.Probe(); err != nil {
			s.log.Info("checks of repositories are not confined here; each check tries again", "op", "server.runChecks", "err", err)
		} else {
			s.log.Info("checks of repositories are confined", "op", "server.runChecks", "at", got.String())
		}
	}
	s.checks.Serve(ctx)
}

// judging returns what a change does to the things that judge it.
func judging(c check.JudgedChange) []hub.JudgeFinding {
	j := evidence.JudgedChange{Files: c.Files, Before: c.Before, After: c.After}
	for _, one := range c.Checks {
		j.Counted = j.Counted || one.JUnit != ""
		j.Lines = append(j.Lines, one.CommandText(), hub.CommandText(one.Setup))
	}
	return evidence.Judging(j)
}

// requiresChecks reports whether the settings want passed checks for every completion in a
// repository.
func (s *Server) requiresChecks(r hub.Repository) bool {
	if s.opts.Checks.Require {
		return true
	}
	for _, rules := range s.opts.Repositories {
		if rules.Path == r.Path && rules.RequireChecks {
			return true
		}
	}
	return false
}

// repositories reads repositories of this machine through the hub's own copies.
type repositories struct{ s *Server }

// Find implements check.Repositories.
func (r repositories) Find(ctx context.Context, folder string) (hub.Repository, error) {
	const op = "server.Repository"
	t, err := r.s.trees.Tree(ctx, folder)
	if err != nil {
		return hub.Repository{}, err
	}
	if t.Repository == "" {
		return hub.Repository{}, hub.Errorf(hub.CodeInvalid, op, "%s is not in a git repository", folder)
	}
	return hub.Repository{Machine: t.Machine, Path: hub.RepositoryPath(t.Repository)}, nil
}

// copyOf returns the hub's copy of the repository around a folder that is under a root.
func (r repositories) copyOf(ctx context.Context, folder string) (*clone.Copy, error) {
	if _, err := r.Find(ctx, folder); err != nil {
		return nil, err
	}
	c, err := r.s.copies.Of(ctx, folder)
	return c, gitError(err)
}

// gitError returns an error of a copy with the code of its cause.
func gitError(err error) error {
	const op = "server.Repository"
	switch {
	case err == nil:
		return nil
	case errors.Is(err, clone.ErrNoCommit):
		if known, ok := errors.AsType[*clone.Error](err); ok && known.Detail != "" {
			return hub.Errorf(hub.CodeNotFound, op, "no branch or commit named %.100q in %s", strings.TrimPrefix(known.Detail, "refs/heads/"), known.Folder)
		}
		return hub.Errorf(hub.CodeNotFound, op, "%w", err)
	case errors.Is(err, clone.ErrNoRepository), errors.Is(err, clone.ErrUnsafe), errors.Is(err, clone.ErrIncomplete), errors.Is(err, clone.ErrName):
		return hub.Errorf(hub.CodeInvalid, op, "%w", err)
	}
	return err
}

// Fetch implements check.Repositories.
func (r repositories) Fetch(ctx context.Context, folder, revision string) (check.Commit, error) {
	c, err := r.copyOf(ctx, folder)
	if err != nil {
		return check.Commit{}, err
	}
	got, err := c.Fetch(ctx, revision)
	return check.Commit{ID: got.ID, Tree: got.Tree}, gitError(err)
}

// Keep implements check.Repositories.
func (r repositories) Keep(ctx context.Context, folder, name, commit string) error {
	c, err := r.copyOf(ctx, folder)
	if err != nil {
		return err
	}
	return gitError(c.Keep(ctx, name, commit))
}

// Changes implements check.Repositories.
func (r repositories) Changes(ctx context.Context, folder, old, new string) ([]hub.CommitChange, error) {
	c, err := r.copyOf(ctx, folder)
	if err != nil {
		return nil, err
	}
	changes, err := c.Difference(ctx, old, new)
	out := []hub.CommitChange{}
	for _, ch := range changes {
		change := hub.CommitChange{Path: ch.Path, Trivial: ch.Trivial != clone.NotTrivial}
		change.Was, change.Is = ch.Contents()
		out = append(out, change)
	}
	return out, gitError(err)
}

// Within implements check.Repositories.
func (r repositories) Within(ctx context.Context, folder, commit, of string) (bool, error) {
	c, err := r.copyOf(ctx, folder)
	if err != nil {
		return false, err
	}
	head, err := c.Fetch(ctx, of)
	if err != nil {
		return false, gitError(err)
	}
	return isAncestor(ctx, c, commit, head.ID)
}

// isAncestor reports whether a commit of a copy is another one or an ancestor of it.
func isAncestor(ctx context.Context, c *clone.Copy, commit, of string) (bool, error) {
	if commit == of {
		return true, nil
	}
	err := git.Alone(ctx, "git", c.Folder(), "merge-base", "--is-ancestor", commit, of).Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		return false, nil
	}
	return err == nil, err
}

// maxFile bounds a file that is read from a commit.
const maxFile = 1 << 20

// File implements check.Repositories.
func (r repositories) File(ctx context.Context, folder, commit, name string) ([]byte, error) {
	c, err := r.copyOf(ctx, folder)
	if err != nil {
		return nil, err
	}
	list, err := git.Alone(ctx, "git", c.Folder(), "ls-tree", "-z", "--format=%(objecttype) %(objectsize) %(objectname)", commit, "--", name).Output()
	if err != nil {
		return nil, err
	}
	var kind, id string
	var size int64
	if n, _ := fmt.Sscanf(string(bytes.TrimRight(list, "\x00")), "%s %d %s", &kind, &size, &id); n != 3 || kind != "blob" {
		return nil, nil
	}
	if size > maxFile {
		return nil, hub.Errorf(hub.CodePayloadTooLarge, "server.Repository", "%s of %s has %d bytes, at most %d are read", name, commit, size, maxFile)
	}
	return git.Alone(ctx, "git", c.Folder(), "cat-file", "blob", id).Output()
}

// OnTarget implements check.Repositories.
func (r repositories) OnTarget(ctx context.Context, folder, commit string) (bool, error) {
	c, heads, err := r.targets(ctx, folder)
	if err != nil {
		return false, err
	}
	for _, head := range heads {
		if on, err := isAncestor(ctx, c, commit, head); err != nil || on {
			return on, err
		}
	}
	return false, nil
}

// targets returns the heads of the branches that work lands in, in the copy of a repository: those
// with a landing policy or, without one, the default branch.
func (r repositories) targets(ctx context.Context, folder string) (c *clone.Copy, heads []string, err error) {
	repo, err := r.Find(ctx, folder)
	if err != nil {
		return nil, nil, err
	}
	if c, err = r.copyOf(ctx, folder); err != nil {
		return nil, nil, err
	}
	policies, err := hub.Read(ctx, r.s.store, func(rd hub.Reader) ([]hub.LandingPolicy, error) { return rd.Landings().Policies() })
	if err != nil {
		return nil, nil, err
	}
	var branches []string
	for _, p := range policies {
		if p.Machine == repo.Machine && p.Repository == repo.Path {
			branches = append(branches, p.Into)
		}
	}
	if len(branches) == 0 {
		branch, err := c.Default(ctx)
		if err != nil {
			return nil, nil, gitError(err)
		}
		branches = []string{branch}
	}

	for _, branch := range branches {
		head, err := c.Head(ctx, branch)
		if branch == "" || errors.Is(err, clone.ErrNoCommit) {
			continue
		}
		if err != nil {
			return nil, nil, gitError(err)
		}
		heads = append(heads, head.ID)
	}
	return c, heads, nil
}

// Before implements check.Repositories.
func (r repositories) Before(ctx context.Context, folder, commit string, most int) (out []check.Commit, err error) {
	c, heads, err := r.targets(ctx, folder)
	if err != nil {
		return nil, err
	}
	for _, head := range heads {
		base, err := c.Output(ctx, maxOutput, "merge-base", head, commit)
		if err != nil {
			continue // they have no common commit
		}
		list, err := c.Output(ctx, maxOutput, "log", "--first-parent", "--format=%H %T", fmt.Sprintf("--max-count=%d", most), base)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(list) {
			id, tree, _ := strings.Cut(strings.TrimSpace(line), " ")
			out = append(out, check.Commit{ID: id, Tree: tree})
		}
	}
	return out, nil
}

// checkRunner runs checks in the workshop, on commits of the hub's copies.
type checkRunner struct {
	shop  *workshop.Shop
	repos repositories
}

// Run implements check.Runner.
func (r checkRunner) Run(ctx context.Context, j check.Job) (check.Outcome, error) {
	copied, err := r.repos.copyOf(ctx, j.Repository.Path)
	if err != nil {
		return check.Outcome{}, err
	}
	got, err := r.shop.Run(ctx, workshop.Job{
		Copy: copied.Folder(), Commit: j.Commit.ID, Target: j.Fills, InPlace: j.Folder, Live: j.Live, Contract: j.Contract, Check: checkOf(j.Check),
	})
	if errors.Is(err, workshop.ErrUnconfined) {
		return check.Outcome{State: hub.ResultNotStarted, Reason: "this system cannot confine a check; the operator can allow it with parley check add --unconfined"}, nil
	}
	if err != nil {
		return check.Outcome{}, err
	}

	out := check.Outcome{
		State: hub.CheckState(got.State), ExitCode: got.ExitCode, Duration: got.Duration, Reason: got.Reason, Tail: got.Output.Tail, Bytes: got.Output.Bytes, SHA256: got.Output.SHA256,
		Confined: got.Confined, Level: int(got.Coverage.Level), Not: got.Coverage.Not, InPlace: got.InPlace, Before: got.Before, After: got.After, Abandoned: got.State == workshop.StateCancelled && ctx.Err() != nil,
	}
	if t := got.Tests; t != nil {
		out.Tests = &hub.TestCount{Total: t.Total, Failed: t.Failed, Skipped: t.Skipped}
	}
	if f, err := os.Open(got.Output.File); err == nil {
		out.Output = removed{f}
	}
	return out, nil
}

// checkOf returns a check as the workshop takes it.
func checkOf(c hub.RepositoryCheck) workshop.Check {
	return workshop.Check{
		Name: c.Name, Command: c.Command, Setup: c.Setup, SetupKey: c.SetupKey, Keep: c.Keep, Env: c.Env, Writable: c.Writable,
		Timeout: c.Timeout.Duration(), Offline: c.Network != nil && !*c.Network, JUnit: c.JUnit, Unconfined: c.Unconfined,
	}
}

// removed is a file that is removed when it is closed.
type removed struct{ *os.File }

// Close closes and removes the file.
func (f removed) Close() error { return errors.Join(f.File.Close(), os.Remove(f.Name())) }

package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/home"
	"github.com/parley-agents/parley/internal/reach/clone"
	"github.com/parley-agents/parley/internal/reach/evidence"
	"github.com/parley-agents/parley/internal/reach/workshop"
	"github.com/parley-agents/parley/internal/service/check"
	"github.com/parley-agents/parley/internal/service/landing"
)

// Checks configures the commands that check commits. The zero value works.
type Checks struct {
	Jobs    int    // runs at a time; default half of the processors, at least two
	DiskGB  int    // GiB that the files of a run can have; default 10
	Require bool   // refuse completions without passed checks
	Program string // the parley program, which confines commands; "" for this program, which is then not probed at the start
}

// openRepositories opens the workshop of checks, the hub's copies of repositories and the trees under the roots.
// The workshop ends the processes of a hub that was killed; only then nothing uses the worktrees that the copies
// remove.
func (s *Server) openRepositories(ctx context.Context) error {
	shop, err := workshop.Open(ctx, filepath.Join(s.opts.Home, home.WorkshopDir), &workshop.Options{
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
	s.shop = shop
	s.copies, err = clone.Open(filepath.Join(s.opts.Home, home.CopiesDir))
	if err != nil {
		return fmt.Errorf("server: open the copies of repositories: %w", err)
	}

	// This inspector has the operator's roots alone: the folder of artifacts is no working tree.
	in, err := evidence.New(nil, &evidence.Options{Roots: s.roots.Paths})
	if err != nil {
		return fmt.Errorf("server: %w", err)
	}
	trees := evidence.NewTrees(in, s.machine())
	s.trees = trees
	if s.distant != nil {
		s.trees = s.distant.Trees(trees)
	}
	s.repos = clone.NewRepositories(s.copies, s.trees, clone.RepositoryOptions{Targets: landing.Targets(s.store), Machine: s.machine(), Log: s.log})
	return nil
}

// machine returns the name of this machine where hubs of others have the same store, else "".
func (s *Server) machine() string {
	if s.postgres == nil {
		return ""
	}
	return s.postgres.Machine()
}

// openChecks builds the service of checks.
func (s *Server) openChecks(context.Context) error {
	var repos check.Repositories = s.repos
	if s.distant != nil {
		repos = s.distant.Repositories(s.repos)
	}
	s.checks = check.New(s.store, repos, checkRunner{s.shop, s.repos}, s.hints, &check.Options{
		Clock: s.clock, Log: s.log, Content: s.content, Jobs: s.opts.Checks.Jobs, Require: s.requiresChecks, Judge: judging, Contracts: s.contracts.ByRepository(),
		Machine: s.machine(), Hub: s.hubName(), Tell: s.tellOfCheck, Announce: s.mail.Announce,
	})
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

// checkRunner runs checks in the workshop, on commits of the hub's copies.
type checkRunner struct {
	shop  *workshop.Shop
	repos *clone.Repositories
}

// Run implements check.Runner.
func (r checkRunner) Run(ctx context.Context, j check.Job) (check.Outcome, error) {
	folder, err := r.repos.Folder(ctx, j.Repository.Path)
	if err != nil {
		return check.Outcome{}, err
	}
	got, err := r.shop.Run(ctx, workshop.Job{
		Copy: folder, Commit: j.Commit.ID, Target: j.Fills, InPlace: j.Folder, Live: j.Live, Contract: j.Contract, Check: checkOf(j.Check),
	})
	if errors.Is(err, workshop.ErrUnconfined) {
		return check.NotStarted("this system cannot confine a check; the operator can allow it with parley check add --unconfined"), nil
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

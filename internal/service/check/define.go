package check

import (
	"context"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/ground/checkfile"
	"github.com/parley-agents/parley/internal/ground/text/pattern"
)

// A Proposal is a check in the file of a repository that the operator has not trusted.
type Proposal struct {
	Name    string              `json:"name"`
	Command []string            `json:"command"`
	Check   hub.RepositoryCheck `json:"check"` // whole
}

// A Listing has the checks of one repository, or of all.
type Listing struct {
	Checks    []hub.RepositoryCheck `json:"checks"`
	Untrusted []Proposal            `json:"untrusted,omitempty"`
	Digest    string                `json:"digest,omitempty"`         // of the checks in the file, if some are untrusted
	Tests     checkfile.Tests       `json:"contract_tests,omitempty"` // of contracts, in a file that is not trusted
	Commit    string                `json:"commit,omitempty"`         // from which the file was read
	Policy    *hub.CheckPolicy      `json:"policy,omitempty"`         // of one repository
}

// checkFacts are the facts of the journal entry about a check.
type checkFacts struct {
	Repository string   `json:"repository"`
	Name       string   `json:"name"`
	Command    []string `json:"command,omitempty"`
	Digest     string   `json:"digest,omitempty"`
	SHA256     string   `json:"sha256,omitempty"` // of the whole check
}

// trustFacts are the facts of the journal entry about the checks of a file.
type trustFacts struct {
	Repository string       `json:"repository"`
	Commit     string       `json:"commit,omitempty"`
	Digest     string       `json:"digest,omitempty"` // of the section of the file
	Require    bool         `json:"require_checks,omitempty"`
	Checks     []checkFacts `json:"checks,omitempty"`
	Dropped    []string     `json:"dropped,omitempty"` // names that the file does not have any more

	ContractTests checkfile.Tests `json:"contract_tests,omitempty"`
}

func factsOf(c hub.RepositoryCheck) checkFacts {
	return checkFacts{Repository: c.Path, Name: c.Name, Command: c.Command, Digest: c.Digest, SHA256: c.WholeDigest()}
}

// Subject returns the subject of the journal entries about a check.
func Subject(r hub.Repository, name string) string { return r.Path + "#" + name }

// Add stores a check of the repository around a folder. Only the operator may. It reports
// CodeConflict when the repository has a check of that name, CodeTooLarge at the most checks.
func (s *Service) Add(ctx context.Context, actor hub.Caller, folder string, c hub.RepositoryCheck) (hub.RepositoryCheck, error) {
	const op = "check.Add"
	if err := actor.OperatorOnly(op); err != nil {
		return c, err
	}
	var err error
	if c.Repository, err = s.repos.Find(ctx, folder); err != nil {
		return c, err
	}
	c.Trusted = false
	if c, err = prepared(op, c, actor, s.clock.Now()); err != nil {
		return c, err
	}

	err = s.update(ctx, func(tx hub.Tx) error {
		all, err := tx.Checks().OfRepository(c.Repository)
		if err != nil {
			return err
		}
		if named(all, c.Name) != nil {
			return hub.Errorf(hub.CodeConflict, op, "%s already has a check named %s", c.Path, c.Name).
				WithHint("{check.remove} %s", c.Name)
		}
		if len(all) >= hub.MaxChecks {
			return tooMany(op, c.Repository)
		}
		if err := tx.WriteChecks().PutCheck(c); err != nil {
			return err
		}
		_, err = tx.Append(actor.Entry(c.AddedAt, actions.CheckAdded, Subject(c.Repository, c.Name), factsOf(c)))
		return err
	})
	return c, err
}

func tooMany(op string, r hub.Repository) error {
	return hub.Errorf(hub.CodeTooLarge, op, "%s has the most checks that a repository can have: %d", r.Path, hub.MaxChecks).WithHint("remove one: {check.list}")
}

// named returns the check of that name, nil if there is none.
func named(all []hub.RepositoryCheck, name string) *hub.RepositoryCheck {
	for i := range all {
		if all[i].Name == name {
			return &all[i]
		}
	}
	return nil
}

// Remove removes a check. Only the operator may. Its results stay.
func (s *Service) Remove(ctx context.Context, actor hub.Caller, folder, name string) (Listing, error) {
	const op = "check.Remove"
	if err := actor.OperatorOnly(op); err != nil {
		return Listing{}, err
	}
	repo, err := s.repos.Find(ctx, folder)
	if err != nil {
		return Listing{}, err
	}
	return s.change(ctx, folder, repo, func(tx hub.Tx) error {
		all, err := tx.Checks().OfRepository(repo)
		if err != nil {
			return err
		}
		c := named(all, name)
		if c == nil {
			return unknown(op, repo, name, all)
		}
		if err := tx.WriteChecks().RemoveCheck(repo, name); err != nil {
			return err
		}
		_, err = tx.Append(actor.Entry(s.clock.Now(), actions.CheckRemoved, Subject(repo, name), factsOf(*c)))
		return err
	})
}

// unknown is the refusal of a name, with the names that there are.
func unknown(op string, repo hub.Repository, name string, all []hub.RepositoryCheck) error {
	return hub.UnknownCheck(hub.CodeNotFound, op, repo.Path, name, hub.CheckPlan{Checks: all}.Names())
}

// List returns the checks of the repository around a folder, with those in its file that are not
// trusted, or all checks if folder is "".
func (s *Service) List(ctx context.Context, folder string) (Listing, error) {
	if folder == "" {
		all, err := hub.Read(ctx, s.store, func(r hub.Reader) ([]hub.RepositoryCheck, error) { return r.Checks().All() })
		return Listing{Checks: nonNil(all)}, err
	}
	repo, err := s.repos.Find(ctx, folder)
	if err != nil {
		return Listing{}, err
	}
	out, err := hub.Read(ctx, s.store, func(r hub.Reader) (Listing, error) { return s.listing(r, repo) })
	if err != nil {
		return out, err
	}
	return s.withProposals(ctx, folder, out)
}

// listing returns the checks of a repository.
func (s *Service) listing(r hub.Reader, repo hub.Repository) (out Listing, err error) {
	p, err := r.Checks().Policy(repo)
	if err != nil {
		return out, err
	}
	p.Require = s.required(p)
	out.Policy = &p
	out.Checks, err = r.Checks().OfRepository(repo)
	out.Checks = nonNil(out.Checks)
	return out, err
}

// change runs fn in one transaction and returns the checks of the repository around a folder after it.
func (s *Service) change(ctx context.Context, folder string, repo hub.Repository, fn func(hub.Tx) error) (out Listing, err error) {
	err = s.update(ctx, func(tx hub.Tx) (err error) {
		if err := fn(tx); err != nil {
			return err
		}
		out, err = s.listing(tx, repo)
		return err
	})
	if err != nil {
		return Listing{}, err
	}
	return s.withProposals(ctx, folder, out)
}

func nonNil(all []hub.RepositoryCheck) []hub.RepositoryCheck {
	if all == nil {
		return []hub.RepositoryCheck{}
	}
	return all
}

// required reports whether every completion in the repository of a policy needs passed checks.
func (s *Service) required(p hub.CheckPolicy) bool {
	return p.Require || (s.require != nil && s.require(p.Repository))
}

// withProposals adds the checks of the file that is checked out in a folder, if the operator has
// not trusted them. A file that cannot be read proposes nothing.
func (s *Service) withProposals(ctx context.Context, folder string, out Listing) (Listing, error) {
	file, commit, err := s.proposed(ctx, folder)
	if err != nil || file.IsEmpty() || file.Digest() == out.Policy.Trusted {
		return out, nil
	}
	out.Digest = file.Digest()
	out.Commit = commit.ID
	out.Tests = file.ContractTests
	for _, c := range file.Checks.Of(out.Policy.Repository) {
		have := named(out.Checks, c.Name)
		if have != nil && sameCheck(*have, c) {
			continue
		}
		out.Untrusted = append(out.Untrusted, Proposal{Name: c.Name, Command: c.Command, Check: c})
	}
	return out, nil
}

// sameCheck reports whether two checks say the same, whoever added them.
func sameCheck(a, b hub.RepositoryCheck) bool {
	for _, c := range []*hub.RepositoryCheck{&a, &b} {
		c.Digest, c.AddedBy = "", ""
		c.AddedAt = hub.Time{}
		c.Trusted = false
		c.When = append([]string{}, c.When...)
		if c.Timeout == 0 {
			c.Timeout = hub.Duration(DefaultTimeout)
		}
	}
	return reflect.DeepEqual(a, b)
}

// proposed returns the file of the commit that is checked out in a folder.
func (s *Service) proposed(ctx context.Context, folder string) (checkfile.File, Commit, error) {
	commit, err := s.repos.Fetch(ctx, folder, "HEAD")
	if err != nil {
		return checkfile.File{}, commit, err
	}
	raw, err := s.repos.File(ctx, folder, commit.ID, checkfile.Name)
	if err != nil || raw == nil {
		return checkfile.File{}, commit, err
	}
	file, err := checkfile.Parse(checkfile.Name, raw)
	return file, commit, err
}

// Trust stores the checks that the repository around a folder proposes in its file, as they are in
// the commit that is checked out. Only the operator may. digest is that of the checks which the
// operator saw; Trust reports CodeConflict if the file has others now. Checks that the operator
// added under other names stay; those that came from an earlier file and are not in this one are
// removed. A check that the file names as the test of a contract is the only one of the repository
// afterwards.
func (s *Service) Trust(ctx context.Context, actor hub.Caller, folder, digest string) (Listing, error) {
	const op = "check.Trust"
	if err := actor.OperatorOnly(op); err != nil {
		return Listing{}, err
	}
	repo, err := s.repos.Find(ctx, folder)
	if err != nil {
		return Listing{}, err
	}
	file, commit, err := s.proposed(ctx, folder)
	if err != nil {
		return Listing{}, err
	}
	if file.IsEmpty() {
		return Listing{}, hub.Errorf(hub.CodeNotFound, op, "the commit that is checked out in %s has no checks in %s", folder, checkfile.Name).
			WithHint("commit the file first; without a file, {check.add}")
	}
	if file.Digest() != digest {
		return Listing{}, hub.Errorf(hub.CodeConflict, op, "the checks in %s have changed", checkfile.Name).WithHint("read them again: {check.trust}")
	}

	now := s.clock.Now()
	checks := file.Checks.Of(repo)
	for i := range checks {
		if checks[i], err = prepared(op, checks[i], actor, now); err != nil {
			return Listing{}, err
		}
		if named(checks[:i], checks[i].Name) != nil {
			return Listing{}, hub.Errorf(hub.CodeInvalid, op, "%s has two checks named %s", checkfile.Name, checks[i].Name)
		}
	}
	refs, err := s.tested(ctx, op, repo, file.ContractTests)
	if err != nil {
		return Listing{}, err
	}
	out, err := s.change(ctx, folder, repo, func(tx hub.Tx) error { return trust(tx, op, actor, now, repo, checks, file, commit.ID) })
	for name, ref := range refs {
		if err == nil {
			err = s.contracts.Test(ctx, actor, repo, ref, file.ContractTests[name])
		}
	}
	return out, err
}

// tested returns the contracts that a file names tests of.
func (s *Service) tested(ctx context.Context, op string, repo hub.Repository, tests checkfile.Tests) (map[string]hub.ContractRef, error) {
	refs := map[string]hub.ContractRef{}
	for name := range tests {
		if s.contracts == nil {
			return nil, hub.Errorf(hub.CodeNotEnabled, op, "this hub knows no contracts")
		}
		ref, err := s.contracts.Version(ctx, repo, name)
		if err != nil {
			return nil, err
		}
		refs[name] = ref
	}
	return refs, nil
}

// trust stores the checks of a file in place of those of an earlier one.
func trust(tx hub.Tx, op string, actor hub.Caller, now hub.Time, repo hub.Repository, checks []hub.RepositoryCheck, file checkfile.File, commit string) error {
	old, err := tx.Checks().OfRepository(repo)
	if err != nil {
		return err
	}
	facts := trustFacts{Repository: repo.Path, Commit: commit, Digest: file.Digest(), ContractTests: file.ContractTests}
	var kept []hub.RepositoryCheck
	for _, c := range old {
		switch {
		case named(checks, c.Name) != nil:
		case c.Trusted:
			facts.Dropped = append(facts.Dropped, c.Name)
			if err := tx.WriteChecks().RemoveCheck(repo, c.Name); err != nil {
				return err
			}
		default:
			kept = append(kept, c)
		}
	}
	for contract, name := range file.ContractTests {
		if named(checks, name) == nil && named(kept, name) == nil {
			return hub.Errorf(hub.CodeInvalid, op, "contract_tests: %s has no check named %.100q, the test of %s", repo.Path, name, contract)
		}
	}
	if len(kept)+len(checks) > hub.MaxChecks {
		return tooMany(op, repo)
	}

	for _, c := range checks {
		if err := tx.WriteChecks().PutCheck(c); err != nil {
			return err
		}
		facts.Checks = append(facts.Checks, factsOf(c))
	}
	p, err := tx.Checks().Policy(repo)
	if err != nil {
		return err
	}
	p.Trusted = facts.Digest
	p.Commit = commit
	p.TrustedBy = actor.ID
	p.TrustedAt = now
	if err := tx.WriteChecks().PutPolicy(p); err != nil {
		return err
	}
	facts.Require = p.Require
	_, err = tx.Append(actor.Entry(now, actions.CheckTrusted, repo.Path, facts))
	return err
}

// Require sets whether completions in the repository around a folder need passed checks. Only the
// operator may.
func (s *Service) Require(ctx context.Context, actor hub.Caller, folder string, require bool) (Listing, error) {
	const op = "check.Require"
	if err := actor.OperatorOnly(op); err != nil {
		return Listing{}, err
	}
	repo, err := s.repos.Find(ctx, folder)
	if err != nil {
		return Listing{}, err
	}
	return s.change(ctx, folder, repo, func(tx hub.Tx) error {
		p, err := tx.Checks().Policy(repo)
		if err != nil {
			return err
		}
		p.Require = require
		if err := tx.WriteChecks().PutPolicy(p); err != nil {
			return err
		}
		_, err = tx.Append(actor.Entry(s.clock.Now(), actions.CheckTrusted, repo.Path, trustFacts{Repository: repo.Path, Commit: p.Commit, Digest: p.Trusted, Require: require}))
		return err
	})
}

// A Shown is a check with its newest results.
type Shown struct {
	Check   hub.RepositoryCheck `json:"check"`
	Results []hub.CheckResult   `json:"results"`
}

// Show returns a check of the repository around a folder with its newest results.
func (s *Service) Show(ctx context.Context, folder, name string) (Shown, error) {
	repo, err := s.repos.Find(ctx, folder)
	if err != nil {
		return Shown{}, err
	}
	return hub.Read(ctx, s.store, func(r hub.Reader) (out Shown, err error) {
		all, err := r.Checks().OfRepository(repo)
		if err != nil {
			return out, err
		}
		c := named(all, name)
		if c == nil {
			return out, unknown("check.Show", repo, name, all)
		}
		out.Check = *c
		out.Results, err = r.Checks().Results(hub.CheckResultQuery{Repository: repo, Name: name, Limit: 20})
		for i := range out.Results {
			if err == nil {
				out.Results[i], err = s.seen(r, out.Results[i], false)
			}
		}
		return out, err
	})
}

// update runs fn in one transaction, and gives a hint afterwards.
func (s *Service) update(ctx context.Context, fn func(hub.Tx) error) error {
	err := s.store.Update(ctx, hub.SurvivesPowerLoss, fn)
	if err != nil {
		return fmt.Errorf("check: %w", err)
	}
	s.hint()
	return nil
}

var (
	validName = pattern.New(`^[a-z0-9][a-z0-9._-]{0,63}$`)
	validEnv  = pattern.New(`^[A-Za-z_][A-Za-z0-9_]{0,199}$`)
)

// prepared returns a check with its defaults, its digest and the operator who added it. It reports
// CodeInvalid for one that cannot run.
func prepared(op string, c hub.RepositoryCheck, actor hub.Caller, now hub.Time) (hub.RepositoryCheck, error) {
	if c.Timeout == 0 {
		c.Timeout = hub.Duration(DefaultTimeout)
	}
	if why := mistake(c); why != "" {
		return c, hub.Errorf(hub.CodeInvalid, op, "check %.100s: %s", c.Name, why)
	}
	if c.When == nil {
		c.When = []string{}
	}
	c.Digest = c.RunDigest()
	c.AddedBy = actor.ID
	c.AddedAt = now
	return c, nil
}

// mistake returns why a check cannot run, "" if it can.
func mistake(c hub.RepositoryCheck) string {
	switch timeout := time.Duration(c.Timeout); {
	case !validName().MatchString(c.Name):
		return "the name must be at most 64 lowercase letters, digits, dots, dashes and underscores"
	case len(c.Command) == 0 || c.Command[0] == "":
		return "a command is required"
	case timeout < minTimeout || timeout > maxTimeout:
		return fmt.Sprintf("timeout must be between %s and %s, got %s", minTimeout, maxTimeout, timeout)
	case c.Required && c.InPlace:
		return "a required check cannot run in place: it runs on the commit, and decides about landing"
	case len(c.SetupKey) > 0 && len(c.Setup) == 0 && len(c.Keep) == 0:
		return "setup_key needs setup or keep"
	}
	for member, words := range map[string][]string{"command": c.Command, "setup": c.Setup} {
		if len(words) > maxWords || slices.ContainsFunc(words, func(w string) bool { return len(w) > maxWord || strings.ContainsRune(w, 0) }) {
			return fmt.Sprintf("%s must be at most %d words of %d bytes", member, maxWords, maxWord)
		}
	}
	return mistakeInPaths(c)
}

// mistakeInPaths returns why the paths and variables of a check cannot be used, "" if they can.
func mistakeInPaths(c hub.RepositoryCheck) string {
	lists := map[string][]string{"setup_key": c.SetupKey, "keep": c.Keep, "when": c.When, "junit": nil, "writable": c.Writable}
	if c.JUnit != "" {
		lists["junit"] = []string{c.JUnit}
	}

	for member, paths := range lists {
		if len(paths) > maxList {
			return fmt.Sprintf("%s must have at most %d entries", member, maxList)
		}
		for _, p := range paths {
			local := filepath.IsLocal(filepath.FromSlash(p)) && !strings.HasPrefix(filepath.ToSlash(filepath.Clean(p)), ".git/")
			switch {
			case len(p) > maxPath || strings.ContainsRune(p, 0):
				return member + ": a path is too long"
			case member == "writable" && !filepath.IsAbs(p):
				return fmt.Sprintf("writable: %q is not an absolute path", p)
			case member == "keep" && (!local || filepath.Clean(p) == "." || filepath.Clean(p) == ".git"):
				return fmt.Sprintf("keep: %q is not a folder in the worktree", p)
			case (member == "setup_key" || member == "junit") && !local:
				return fmt.Sprintf("%s: %q is not a file in the worktree", member, p)
			}
		}
	}

	if len(c.Env) > maxList {
		return fmt.Sprintf("env must have at most %d entries", maxList)
	}
	for name, value := range c.Env {
		if !validEnv().MatchString(name) || len(value) > maxWord || strings.ContainsRune(value, 0) {
			return fmt.Sprintf("env: %.50q is not a variable with a value of at most %d bytes", name, maxWord)
		}
	}
	return ""
}

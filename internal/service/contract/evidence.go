package contract

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/text/pattern"
)

// Repositories reads the repositories of projects through the hub's own copies.
type Repositories interface {
	// Find returns the repository of this hub that is one of a project, and false if there is none.
	Find(ctx context.Context, r coord.Repo) (hub.Repository, bool, error)
	// Commit returns the commit that a revision names. It reports CodeNotFound if there is none.
	Commit(ctx context.Context, r hub.Repository, revision string) (Commit, error)
	// Target returns the newest commit of the branch that work lands in; the zero Commit if there
	// is no such branch.
	Target(ctx context.Context, r hub.Repository) (Commit, error)
	// File returns a file of a commit, nil if there is none.
	File(ctx context.Context, r hub.Repository, commit, name string) ([]byte, error)
}

// Runner runs checks of the repositories of this hub.
type Runner interface {
	// QueueTest queues a check on a commit for a version of a contract, such as ID@2, unless its result
	// is known or on its way.
	QueueTest(ctx context.Context, caller hub.Caller, r hub.Repository, commit, check, version string) error
}

// A missingRun is a test whose result an answer lacks, and which this hub can run.
type missingRun struct {
	home    hub.Repository
	commit  string
	check   string
	version string
}

// maxStarted is the number of runs that one answer starts.
const maxStarted = 50

// RunMissing starts the tests whose results an answer lacks, with run if that is not nil, where this hub has the repository. A
// test that failed is not run again. A caller that may not run checks starts nothing.
func (s *Service) RunMissing(ctx context.Context, run Runner, caller hub.Caller, project coord.ProjectID, r Readiness) {
	isCI := caller.Kind == hub.CallerToken && caller.Permits(project, coord.PermitEvidence)
	if run == nil || (!isCI && !caller.Local()) {
		return
	}
	if isCI {
		caller = hub.Caller{ID: hub.Self} // a token is no agent of this hub
	}
	for _, m := range r.runs[:min(len(r.runs), maxStarted)] {
		if err := run.QueueTest(ctx, caller, m.home, m.commit, m.check, m.version); err != nil {
			s.o.Log.Warn("the missing test of a contract could not be started", "op", "contract.RunMissing", "repository", m.home.Path, "check", m.check, "err", err)
		}
	}
}

// A Commit is a commit of a repository with the tree that the hub's copy has for it.
type Commit = hub.Commit

// fullID is the form of a whole commit id.
var fullID = pattern.New(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// A point is a commit of a repository as this hub knows it.
type point struct {
	repo   coord.Repo
	home   hub.Repository // the zero one if this hub has no such repository
	found  bool           // the hub's copy has the commit
	commit string
	tree   string
	locked map[string]locked // versions in the lock file of the commit, by the name of the contract
}

// locked is the version of a contract in a lock file.
type locked struct {
	Name    string `json:"name"`
	Version int    `json:"version"`
	Digest  string `json:"digest"`
}

// lockFile is the file of a repository with the versions that it was last equal to.
const lockFile = "parley.contracts.lock"

// homeOf returns the repository of this hub that is one of a project.
func (s *Service) homeOf(ctx context.Context, r coord.Repo) (home hub.Repository, ok bool, err error) {
	if s.o.Repositories == nil {
		return home, false, nil
	}
	return s.o.Repositories.Find(ctx, r)
}

// pointOf returns the commit of a repository that a revision names. Without a copy that has it, the
// revision must be a full id: nothing else names one commit.
func (s *Service) pointOf(ctx context.Context, op string, r coord.Repo, revision string) (point, error) {
	out, err := s.commitOf(ctx, r, revision)
	if err == nil && !out.found && !fullID().MatchString(revision) {
		err = hub.Errorf(hub.CodeInvalid, op, "commit %.100q is not a full commit id, and no repository of this hub has it as %s", revision, r.Name).
			WithHint("give the full id, as git rev-parse prints it")
	}
	return out, err
}

// commitOf returns the commit that a revision names; without one in the hub's copy the revision itself.
func (s *Service) commitOf(ctx context.Context, r coord.Repo, revision string) (point, error) {
	out, err := s.copied(ctx, r, func(home hub.Repository) (Commit, error) { return s.o.Repositories.Commit(ctx, home, revision) })
	if !out.found {
		out.commit = revision
	}
	return out, err
}

// targetOf returns the head of the branch that work of a repository lands in; without a commit if
// this hub has no such repository or no such branch.
func (s *Service) targetOf(ctx context.Context, r coord.Repo) (point, error) {
	return s.copied(ctx, r, func(home hub.Repository) (Commit, error) { return s.o.Repositories.Target(ctx, home) })
}

// copied returns a commit of the hub's copy of a repository; a point that is not found if there is none.
func (s *Service) copied(ctx context.Context, r coord.Repo, read func(hub.Repository) (Commit, error)) (point, error) {
	out := point{repo: r}
	home, ok, err := s.homeOf(ctx, r)
	if err != nil || !ok {
		return out, err
	}
	out.home = home
	got, err := read(home)
	if hub.CodeOf(err) == hub.CodeNotFound || (err == nil && got.ID == "") {
		return out, nil
	}
	if err != nil {
		return out, err
	}
	out.found = true
	out.commit = got.ID
	out.tree = got.Tree
	return out, s.readLock(ctx, &out)
}

// readLock reads the lock file of a commit. A file that cannot be read has no versions.
func (s *Service) readLock(ctx context.Context, p *point) error {
	raw, err := s.o.Repositories.File(ctx, p.home, p.commit, lockFile)
	if err != nil || raw == nil {
		return err
	}
	var file struct {
		Contracts []locked `json:"contracts"`
	}
	if json.Unmarshal(raw, &file) != nil {
		return nil
	}
	p.locked = map[string]locked{}
	for _, l := range file.Contracts {
		p.locked[l.Name] = l
	}
	return nil
}

// A version is one content of a contract.
type version struct {
	n    int
	hash string
}

// An attempt is one result of a named check on a commit.
type attempt struct {
	check  string
	of     version
	passed bool
	result string
	counts bool // it may replace a failure: no agent asked for it
	at     coord.Instant
	by     string
}

// testsOf returns the names of the checks that are the test of a contract in a repository: those
// that were named for it, else all required checks of the repository together.
func (x *readiness) testsOf(c coord.Contract, p point) (names []string, err error) {
	for _, t := range c.Terms.Tests {
		if t.Repo == p.repo.ID && !t.Removed {
			names = append(names, t.Check)
		}
	}
	if len(names) > 0 || p.home.Path == "" {
		return names, nil
	}
	checks, err := x.checksOf(p.home)
	for _, k := range checks {
		if k.Required && !k.InPlace {
			names = append(names, k.Name)
		}
	}
	return names, err
}

// checksOf returns the checks that the operator allowed for a repository of this hub.
func (x *readiness) checksOf(home hub.Repository) ([]hub.RepositoryCheck, error) {
	if known, ok := x.checks[home]; ok {
		return known, nil
	}
	all, err := x.r.Checks().OfRepository(home)
	x.checks[home] = all
	return all, err
}

// runsAt returns the results of the checks that this hub ran on a commit, or on another one with
// its tree.
func (x *readiness) runsAt(p point) ([]hub.CheckResult, error) {
	if p.home.Path == "" {
		return nil, nil
	}
	key := p.home.Path + " " + p.commit
	if known, ok := x.runs[key]; ok {
		return known, nil
	}
	q := hub.CheckResultQuery{Repository: p.home, Commit: p.commit, Limit: maxResults, States: []hub.CheckState{hub.ResultPassed, hub.ResultFailed, hub.ResultTimedOut, hub.ResultNotStarted}}
	if p.tree != "" {
		q.Commit = ""
		q.Tree = p.tree
	}
	found, err := x.r.Checks().Results(q)
	x.runs[key] = found
	return found, err
}

// attempts returns the results of a check on a commit, for one contract, oldest first: runs of this
// hub with the present command of the check, and results that CI sent with a bound token.
func (x *readiness) attempts(c coord.Contract, p point, name string) (out []attempt, err error) {
	checks, err := x.checksOf(p.home)
	if err != nil {
		return nil, err
	}
	runs, err := x.runsAt(p)
	if err != nil {
		return nil, err
	}
	for _, r := range runs {
		isPresent := slices.ContainsFunc(checks, func(k hub.RepositoryCheck) bool { return k.Name == r.Name && k.Digest == r.Digest })
		if r.Name != name || r.InPlace || !isPresent {
			continue
		}
		of, ok := versionOfRun(c, p, r)
		if !ok {
			continue
		}
		a := attempt{check: name, of: of, passed: r.State == hub.ResultPassed, result: string(r.State), at: coord.InstantAt(r.EndedAt.Time), by: "hub " + string(r.ID)}
		a.counts = r.Handoff != "" || r.By == hub.Self || r.By == hub.Operator
		if r.State == hub.ResultFailed {
			a.result = VerifyFailure
		}
		out = append(out, a)
	}

	sent, err := x.sentAt(p)
	if err != nil {
		return nil, err
	}
	for _, f := range sent {
		if f.Contract != c.ID || f.Check != name || f.Source != coord.SourceCI {
			continue
		}
		out = append(out, attempt{
			check: name, of: version{f.Version, f.Content}, passed: f.Result == coord.ResultSuccess, result: f.Result, counts: true, at: f.At, by: "CI " + f.By,
		})
	}
	slices.SortStableFunc(out, func(a, b attempt) int { return a.at.Compare(b.at) })
	return out, nil
}

// sentAt returns the recorded results of a commit and of commits with its tree, newest first.
func (x *readiness) sentAt(p point) ([]coord.ContractResult, error) {
	key := string(p.repo.ID) + " " + p.commit
	if known, ok := x.sent[key]; ok {
		return known, nil
	}
	found, err := x.resultsOf(coord.ResultQuery{Repo: p.repo.ID}, p.commit, p.tree)
	x.sent[key] = found
	return found, err
}

// versionOfRun returns the version of a contract that a run of this hub tested: the one that the
// run names, else the one in the lock file of the commit, else the one in force when it began.
func versionOfRun(c coord.Contract, p point, r hub.CheckResult) (version, bool) {
	if n := r.Contract; n != nil {
		return version{n.Version, n.Content}, n.Project == c.Project && n.Contract == c.ID
	}
	began := r.StartedAt
	if began.IsZero() {
		began = r.QueuedAt
	}
	at := coord.InstantAt(began.Time)
	if l, ok := p.locked[c.Name]; ok && contentWith(c, l.Version, l.Digest) != nil {
		return version{l.Version, l.Digest}, !began.IsZero() && wasProposed(c, l.Version, at)
	}
	return inForceAt(c, at)
}

// wasProposed reports whether a version of a contract was there at a time. A version begins when
// the one before it ends.
func wasProposed(c coord.Contract, n int, at coord.Instant) bool {
	for _, v := range c.History {
		if v.Version == n-1 {
			return at.Compare(v.At) > 0
		}
	}
	return at.Compare(c.CreatedAt) >= 0
}

// inForceAt returns the version of a contract that was in force at a time, and false if none was
// or it is not known any more.
func inForceAt(c coord.Contract, at coord.Instant) (version, bool) {
	f := c.Terms.InForce
	if f == nil {
		b, ok := agreedVersion(c)
		since := coord.Instant{}
		for _, a := range c.Agreements {
			if a.Version == b.Version {
				since = later(since, a.At)
			}
		}
		return version{b.Version, coord.ContentHash(b.content)}, ok && at.Compare(later(since, c.CreatedAt)) >= 0
	}
	if at.Compare(f.Since) >= 0 {
		return version{f.Version, f.Content}, true
	}
	if f.Before == 0 || !wasProposed(c, f.Before, at) {
		return version{}, false
	}
	content, err := contentOf(c, f.Before)
	return version{f.Before, coord.ContentHash(content)}, err == nil
}

// A proof is what is known about the tests of a contract at a commit.
type proof struct {
	names  []string             // of the checks that are its test
	passed []version            // for which every one of them passed, newest first
	failed map[version]attempt  // for which one did not pass
	by     map[version][]string // who ran them
	at     map[version]coord.Instant
	asked  map[version]bool // an agent asked for one of its runs
	said   bool             // an agent said a result
}

// prove returns the proof of a contract at a commit. Of the results of one check for one version the
// newest decides, but a run that an agent asked for never replaces a failure.
func (x *readiness) prove(c coord.Contract, p point) (proof, error) {
	out := proof{failed: map[version]attempt{}, by: map[version][]string{}, at: map[version]coord.Instant{}, asked: map[version]bool{}}
	var err error
	if out.names, err = x.testsOf(c, p); err != nil || p.commit == "" {
		return out, err
	}
	passes := map[version]int{}
	for _, name := range out.names {
		all, err := x.attempts(c, p, name)
		if err != nil {
			return out, err
		}
		decided := map[version]attempt{}
		for _, a := range all {
			was, known := decided[a.of]
			isRepaired := known && !was.passed && a.passed && !a.counts
			if !isRepaired {
				decided[a.of] = a
			}
		}
		for of, a := range decided {
			if !a.passed {
				out.failed[of] = a
				continue
			}
			passes[of]++
			out.asked[of] = out.asked[of] || !a.counts
			out.by[of] = append(out.by[of], a.check+" ("+a.by+")")
			out.at[of] = later(out.at[of], a.at)
		}
	}
	for of, n := range passes {
		if _, failed := out.failed[of]; n == len(out.names) && !failed {
			out.passed = append(out.passed, of)
		}
	}
	slices.SortFunc(out.passed, func(a, b version) int { return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.hash, b.hash)) })

	sent, err := x.sentAt(p)
	out.said = slices.ContainsFunc(sent, func(f coord.ContractResult) bool { return f.Contract == c.ID })
	return out, err
}

// has reports whether the tests passed for a version.
func (p proof) has(v version) bool { return slices.Contains(p.passed, v) }

// A lack is a part of an answer that is missing.
type lack struct{ reason, who, next string }

// unproved says why a proof does not have a version of a contract, and what to do about it.
func (x *readiness) unproved(c coord.Contract, p point, got proof, want version) lack {
	who := p.repo.Name
	if len(got.names) == 0 {
		return lack{"no check of " + who + " is its test", "operator", fmt.Sprintf("name one: parley contract test %q --repo %s --check NAME", c.Name, who)}
	}
	again := fmt.Sprintf("run its test: parley check run %s --commit %s --contract %q", got.names[0], shortID(p.commit), fmt.Sprintf("%s@%d", c.Name, want.n))
	if p.home.Path == "" {
		again = fmt.Sprintf("run its test in CI: parley contract verify %q --repo %s --commit %s --check %s --version %d", c.Name, who, cmp.Or(shortID(p.commit), "COMMIT"), got.names[0], want.n)
	}
	if a, ok := got.failed[want]; ok {
		return lack{fmt.Sprintf("%s on this commit against version %d ended with %s", a.check, want.n, a.result), who, "correct the code, then " + again}
	}
	isEarly := len(got.passed) > 0 && got.passed[0].n > want.n
	if p.found && !isEarly {
		for _, name := range got.names {
			x.out.runs = append(x.out.runs, missingRun{p.home, p.commit, name, fmt.Sprintf("%s@%d", c.ID, want.n)})
		}
	}
	switch {
	case isEarly:
		return lack{fmt.Sprintf("it was tested against version %d, which is %s", got.passed[0].n, waitsFor(c, x.p)), x.awaited(c), fmt.Sprintf("agree: parley contract respond %q agree --version %d", c.Name, c.Version)}
	case len(got.passed) > 0:
		return lack{fmt.Sprintf("it was tested against version %d, and version %d is in force", got.passed[0].n, want.n), who, again}
	case got.said:
		return lack{"the result for this commit was said, not run", who, again}
	}
	return lack{"no test was run on this commit", who, again}
}

// shortID shortens a full commit id for people.
func shortID(commit string) string {
	if fullID().MatchString(commit) {
		return commit[:12]
	}
	return commit
}

// Version returns the version of a contract that a text names: its name or id, and after an @ the
// number; without a number the version in force.
func (s *Service) Version(ctx context.Context, project coord.ProjectID, text string) (hub.ContractRef, error) {
	const op = "contract.Version"
	return readIn(ctx, s, op, project, func(r hub.Reader, p coord.Project) (hub.ContractRef, error) {
		name, number := text, 0
		if i := strings.LastIndexByte(text, '@'); i >= 0 {
			n, err := strconv.Atoi(text[i+1:])
			if err != nil || n < 1 {
				return hub.ContractRef{}, hub.Errorf(hub.CodeInvalid, op, "%.100q names no version: write a contract and a number, such as User@2", text)
			}
			name, number = text[:i], n
		}
		c, err := contract(r, op, p.ID, coord.ContractID(name))
		if err == nil {
			c, err = withVersions(r, c)
		}
		if err != nil {
			return hub.ContractRef{}, err
		}
		content := baseOf(c).content
		if number == 0 {
			number = baseOf(c).Version
		} else if content, err = contentOf(c, number); err != nil {
			return hub.ContractRef{}, hub.Errorf(hub.CodeNotFound, op, "contract %s has no version %d", c.Name, number)
		}
		return hub.ContractRef{Project: p.ID, Contract: c.ID, Name: c.Name, Version: number, Content: coord.ContentHash(content)}, nil
	})
}

// Content returns the content of a version of a contract.
func (s *Service) Content(ctx context.Context, ref hub.ContractRef) ([]byte, error) {
	const op = "contract.Content"
	return readIn(ctx, s, op, ref.Project, func(r hub.Reader, p coord.Project) ([]byte, error) {
		c, err := contract(r, op, p.ID, ref.Contract)
		if err == nil {
			c, err = withVersions(r, c)
		}
		if err != nil {
			return nil, err
		}
		content := contentWith(c, ref.Version, ref.Content)
		if content == nil {
			return nil, hub.Errorf(hub.CodeNotFound, op, "contract %s has no version %d any more", c.Name, ref.Version)
		}
		return content, nil
	})
}

package contract

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/federation"
)

// A TestChange names a check of a repository as its test of a contract.
type TestChange struct {
	InContract
	Repo   string `json:"repo"`
	Check  string `json:"check"`
	Remove bool   `json:"remove,omitempty"`
	Only   bool   `json:"-"` // in place of the other tests of the repository
}

// Tests are the tests of a contract.
type Tests struct {
	Contract string     `json:"contract"` // its name
	Tests    []RepoTest `json:"tests"`
}

// A RepoTest is a check that is a repository's test of a contract.
type RepoTest struct {
	Repository string `json:"repository"`
	Check      string `json:"check"`
}

// Test names a check of a repository as its test of a contract, or takes that back. Without a named
// one all required checks of the repository together are its test. Only the project's owner, a
// coordinator or the operator may.
func (s *Service) Test(ctx context.Context, caller hub.Caller, c TestChange) (Tests, error) {
	const op = "contract.Test"
	if err := required(op, "contractId", string(c.Contract), "repo", c.Repo, "check", c.Check); err != nil {
		return Tests{}, err
	}
	if err := mayAct(op, caller); err != nil {
		return Tests{}, err
	}
	p, err := s.Project(ctx, caller, c.Project)
	if err != nil {
		return Tests{}, err
	}
	repo, ok := p.RepoNamed(c.Repo)
	if !ok {
		return Tests{}, unknownRepo(op, p, c.Repo)
	}
	home, _, err := s.homeOf(ctx, repo)
	if err != nil {
		return Tests{}, err
	}

	var out Tests
	err = s.update(ctx, caller, "", func(se *session) error {
		p, err := project(se.tx, op, c.Project)
		if err == nil {
			err = se.mayGovern(op, p)
		}
		if err != nil {
			return err
		}
		was, err := contract(se.tx, op, p.ID, c.Contract)
		if err != nil {
			return err
		}
		isNamed := slices.ContainsFunc(was.Terms.Tests, func(t coord.ContractTest) bool { return t.Repo == repo.ID && t.Check == c.Check && !t.Removed })
		switch {
		case c.Remove && !isNamed:
			return hub.Errorf(hub.CodeNotFound, op, "%s is no test of %s in %s", c.Check, was.Name, repo.Name)
		case !c.Remove:
			if err := se.checkTest(op, p, repo, home, c.Check); err != nil {
				return err
			}
		}
		now := was
		if isNamed == c.Remove {
			now, err = se.putTest(p, repo, now, c)
		}
		for _, t := range was.Terms.Tests {
			isOther := c.Only && t.Repo == repo.ID && t.Check != c.Check && !t.Removed
			if isOther && err == nil {
				now, err = se.putTest(p, repo, now, TestChange{Check: t.Check, Remove: true})
			}
		}
		out = testsOf(p, now)
		return err
	})
	return out, err
}

// putTest stores a test of a contract.
func (se *session) putTest(p coord.Project, repo coord.Repo, was coord.Contract, c TestChange) (coord.Contract, error) {
	now := was
	at := coord.Instant{}
	for _, t := range was.Terms.Tests {
		if t.Repo == repo.ID && t.Check == c.Check {
			at = t.At
		}
	}
	now.Terms.Tests = mergeTests(was.Terms.Tests, []coord.ContractTest{{Repo: repo.ID, Check: c.Check, At: at.After(se.s.o.Clock), Removed: c.Remove}})
	if err := federation.Check(now); err != nil {
		return now, err
	}
	if err := se.tx.WriteCoordination().PutContract(now, was); err != nil {
		return now, err
	}
	event := c.Check + " is the test of " + repo.Name
	if c.Remove {
		event = c.Check + " is no test of " + repo.Name + " any more"
	}
	return now, se.recordContract(actions.ContractTested, p, repo, was, now, event)
}

// checkTest refuses a name that is neither a check of the hub for a repository nor one that a live
// token of CI is bound to.
func (se *session) checkTest(op string, p coord.Project, repo coord.Repo, home hub.Repository, name string) error {
	var known []string
	if home.Path != "" {
		checks, err := se.tx.Checks().OfRepository(home)
		if err != nil {
			return err
		}
		for _, k := range checks {
			if !k.InPlace {
				known = append(known, k.Name)
			}
		}
	}
	tokens, err := se.tx.Tokens(p.ID, maxResults)
	if err != nil {
		return err
	}
	for _, t := range tokens {
		isLive := t.RevokedAt.IsZero() && se.now.Before(t.ExpiresAt.Time)
		if isLive && t.Evidence != nil && t.Evidence.Repo == repo.Name {
			known = append(known, t.Evidence.Checks...)
		}
	}
	if slices.Contains(known, name) {
		return nil
	}
	slices.Sort(known)
	refusal := hub.Errorf(hub.CodeInvalid, op, "%s has no check named %.100q", repo.Name, name)
	if len(known) == 0 {
		return refusal.WithHint("it has none; {check.add}, or bind a token of CI: {project.token} --agent ci --permissions project:read,evidence --repo %s --check %s", repo.Name, name)
	}
	return refusal.WithHint("its checks are %s", strings.Join(slices.Compact(known), ", "))
}

// UnknownChecks returns a remark on names of checks that are none of this hub's for a repository: ""
// if all are, or if this hub has none for it. Such a name is one of CI, or misspelt.
func (s *Service) UnknownChecks(ctx context.Context, id coord.ProjectID, repo string, checks []string) (string, error) {
	const op = "contract.UnknownChecks"
	p, err := s.Project(ctx, hub.Caller{ID: hub.Self}, id)
	if err != nil {
		return "", err
	}
	r, ok := p.RepoNamed(repo)
	if !ok {
		return "", unknownRepo(op, p, repo)
	}
	home, ok, err := s.homeOf(ctx, r)
	if err != nil || !ok {
		return "", err
	}
	allowed, err := hub.Read(ctx, s.store, func(r hub.Reader) ([]hub.RepositoryCheck, error) { return r.Checks().OfRepository(home) })
	if err != nil || len(allowed) == 0 {
		return "", err
	}
	var known []string
	for _, k := range allowed {
		known = append(known, k.Name)
	}
	unknown := slices.DeleteFunc(slices.Clone(checks), func(name string) bool { return slices.Contains(known, name) })
	if len(unknown) == 0 {
		return "", nil
	}
	slices.Sort(known)
	return fmt.Sprintf("%s is no check of %s on this hub, whose checks are %s: right if CI alone runs it", strings.Join(unknown, ", "), repo, strings.Join(known, ", ")), nil
}

// testsOf lists the named tests of a contract.
func testsOf(p coord.Project, c coord.Contract) Tests {
	out := Tests{Contract: c.Name, Tests: []RepoTest{}}
	for _, t := range c.Terms.Tests {
		if !t.Removed {
			out.Tests = append(out.Tests, RepoTest{repoName(p, t.Repo), t.Check})
		}
	}
	return out
}

package contract

import (
	"cmp"
	"context"
	"path/filepath"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/federation"
	"github.com/parley-agents/parley/internal/pattern"
)

// Evidence is the part of a report of work that names the commit, and the test behind it.
type Evidence struct {
	Commit  string `json:"commit,omitempty"`
	Tree    string `json:"tree,omitempty"` // of the commit, if it is known
	Branch  string `json:"branch,omitempty"`
	Build   string `json:"build,omitempty"`           // address of the build
	Check   string `json:"check,omitempty"`           // a check of the repository that this hub ran, or the name of another test
	Against int    `json:"contractVersion,omitempty"` // default the agreed version
}

// HasCommit reports whether a report names a commit. The permission evidence is enough for it.
func (e Evidence) HasCommit() bool { return e.Commit != "" }

// commitPattern is the form of ids of commits and trees, and of names of environments.
var commitPattern = pattern.New(`^[0-9A-Za-z][0-9A-Za-z._/+-]{0,127}$`)

// check reports CodeInvalid for texts that have another form.
func (e Evidence) check(op string) error {
	if err := checkNames(op, "commit", e.Commit, "tree", e.Tree); err != nil {
		return err
	}
	for _, pair := range [][2]string{{"branch", e.Branch}, {"build", e.Build}, {"check", e.Check}} {
		if len(pair[1]) > federation.MaxText {
			return hub.Errorf(hub.CodeTooLarge, op, "%s must be at most %d bytes", pair[0], federation.MaxText)
		}
	}
	saysMore := e.Tree != "" || e.Check != "" || e.Build+e.Branch != ""
	if e.Commit == "" && saysMore {
		return hub.Errorf(hub.CodeInvalid, op, "commit required: a result is that of a commit")
	}
	return nil
}

// checkNames takes names and values in turn and reports CodeInvalid for the first value that
// has not the form of a name.
func checkNames(op string, pairs ...string) error {
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" && !commitPattern().MatchString(pairs[i+1]) {
			return hub.Errorf(hub.CodeInvalid, op, "%s must have letters, digits and . _ / + - alone, got %.100q", pairs[i], pairs[i+1])
		}
	}
	return nil
}

// A finished is a result before it is stored: without the contract and the version.
type finished struct {
	Evidence
	kind   coord.ResultKind
	result string // success, failure or partial
}

// vouch returns a result with its kind. A check that this hub ran decides itself; a token of CI
// vouches for the result that it sends; everything else is said.
func (s *Service) vouch(ctx context.Context, caller hub.Caller, project coord.ProjectID, repo string, e Evidence, result string) (finished, error) {
	out := finished{Evidence: e, kind: coord.ResultSaid, result: cmp.Or(result, coord.ResultSuccess)}
	if isEvidence(caller, project) {
		out.kind = coord.ResultRun
		return out, nil
	}
	if e.Check == "" {
		return out, nil
	}

	ran, ok, err := s.ranCheck(ctx, repo, e)
	if err != nil || !ok {
		return out, err
	}
	out.kind = coord.ResultRun
	out.Tree = ran.Tree
	out.result = coord.ResultSuccess
	if ran.State != hub.ResultPassed {
		out.result = VerifyFailure
	}
	return out, nil
}

// isEvidence reports whether a caller holds a token with the permission evidence.
func isEvidence(caller hub.Caller, project coord.ProjectID) bool {
	return caller.Kind == hub.CallerToken && caller.Permits(project, coord.PermitEvidence)
}

// maxRan is the number of results of a check on one commit that are read.
const maxRan = 50

// ranCheck returns the newest result of a check that this hub ran on a commit, or on another
// commit with its tree. A repository of a project is the one of this machine whose folder has
// its name. A check in an agent's own working tree does not count.
func (s *Service) ranCheck(ctx context.Context, repo string, e Evidence) (hub.CheckResult, bool, error) {
	queries := []hub.CheckResultQuery{{Name: e.Check, Commit: e.Commit}}
	if e.Tree != "" {
		queries = append(queries, hub.CheckResultQuery{Name: e.Check, Tree: e.Tree})
	}
	var found *hub.CheckResult
	err := s.store.View(ctx, func(r hub.Reader) error {
		for _, q := range queries {
			q.States = []hub.CheckState{hub.ResultPassed, hub.ResultFailed}
			q.Limit = maxRan
			all, err := r.Checks().Results(q)
			if err != nil {
				return err
			}
			for _, x := range all {
				counts := !x.InPlace && filepath.Base(x.Path) == repo
				if counts && found == nil {
					found = &x
				}
			}
		}
		return nil
	})
	if err != nil || found == nil {
		return hub.CheckResult{}, false, err
	}
	return *found, true, nil
}

// addResult stores the result of a repository for a contract.
func (se *session) addResult(op string, p coord.Project, by coord.Repo, c coord.Contract, f finished) (coord.ContractResult, error) {
	version, hash, err := se.testedVersion(op, c, f.Against)
	if err != nil {
		return coord.ContractResult{}, err
	}
	r, err := se.tx.WriteCoordination().AddResult(coord.ContractResult{
		Project: p.ID, Contract: c.ID, Repo: by.ID, Version: version, Content: hash, Commit: f.Commit, Tree: f.Tree, Branch: f.Branch, Build: f.Build,
		Check: f.Check, Kind: f.kind, Result: f.result, By: string(se.caller.ID), At: coord.Instant{}.After(se.s.o.Clock),
	})
	if err != nil {
		return r, err
	}
	se.changed = true
	return r, se.note(actions.ResultRecorded, r.Name(), hub.OutcomeOK, facts{
		Project: p.ID, Agent: se.agent(), Repo: by.ID, Version: r.Version, Status: r.Result, Action: string(r.Kind), Digest: r.Digest(),
	})
}

// testedVersion returns the version that a result is about, with the hash of its content: a
// given one, else the version in force or the agreed one, else the present one.
func (se *session) testedVersion(op string, c coord.Contract, version int) (int, string, error) {
	c, err := withVersions(se.tx, c)
	if err != nil {
		return 0, "", err
	}
	if version == 0 {
		b := baseOf(c)
		return b.Version, coord.ContentHash(b.content), nil
	}
	content, err := contentOf(c, version)
	if err != nil {
		return 0, "", hub.Errorf(hub.CodeNotFound, op, "contract %s has no version %d", c.ID, version)
	}
	return version, coord.ContentHash(content), nil
}

// recordOnly stores a result without a move of the contract: the contract cannot be moved from
// its status, or the caller may record results alone.
func (s *Service) recordOnly(ctx context.Context, op string, caller hub.Caller, in InContract, as As, f finished) (Result, error) {
	var out Result
	err := s.inRepo(ctx, op, caller, in.Project, as, coord.PermitEvidence, func(se *session, p coord.Project, by coord.Repo) error {
		c, err := contract(se.tx, op, p.ID, in.Contract)
		if err != nil {
			return err
		}
		r, err := se.addResult(op, p, by, c, f)
		out = Result{Contract: c, Outcome: "recorded", Repo: by.ID, Pending: c.Pending(p), Recorded: &r}
		return err
	})
	return out, err
}

// inRepo runs fn like act. The holder of a token with a permission of CI may name any
// repository of the project.
func (s *Service) inRepo(ctx context.Context, op string, caller hub.Caller, id coord.ProjectID, as As, need coord.Permission, fn func(*session, coord.Project, coord.Repo) error) error {
	isCI := caller.Kind == hub.CallerToken && caller.Permits(id, need)
	if !isCI || as.Repo == "" {
		return s.act(ctx, op, caller, id, as, need, fn)
	}
	if err := mayAct(op, caller); err != nil {
		return err
	}
	return s.update(ctx, caller, "", func(se *session) error {
		p, err := project(se.tx, op, id)
		if err != nil {
			return err
		}
		r, ok := p.RepoNamed(as.Repo)
		if !ok {
			return hub.Errorf(hub.CodeNotFound, op, "Repository %.200s not found in project %s", as.Repo, id)
		}
		return fn(se, p, r)
	})
}

// movable reports whether a report of work also moves the contract: the caller may, and the
// status allows it. Without a commit the report is about the move alone.
func (s *Service) movable(ctx context.Context, caller hub.Caller, in InContract, move coord.ContractMove, e Evidence) (bool, error) {
	if !e.HasCommit() {
		return true, nil
	}
	if !caller.Permits(in.Project, coord.PermitImplement) {
		return false, nil
	}
	return hub.Read(ctx, s.store, func(r hub.Reader) (bool, error) {
		c, err := contract(r, "contract.Work", in.Project, in.Contract)
		if err != nil {
			return false, err
		}
		_, ok := c.Status.After(move)
		isCurrent := e.Against == 0 || e.Against == c.Version
		return ok && isCurrent, nil
	})
}

// speaks returns the name of the repository that a caller reports for.
func (s *Service) speaks(ctx context.Context, op string, caller hub.Caller, id coord.ProjectID, as As) (string, error) {
	if as.Repo != "" {
		return as.Repo, nil
	}
	p, err := readIn(ctx, s, op, id, func(_ hub.Reader, p coord.Project) (coord.Project, error) { return p, nil })
	if err != nil {
		return "", err
	}
	r, err := s.speaksFor(op, p, caller, as)
	return r.Name, err
}

// A Release says that a commit of a repository runs in an environment.
type Release struct {
	InProject
	As
	Env    string `json:"env"`
	Commit string `json:"commit"`
	Tree   string `json:"tree,omitempty"`
}

// A Deployed is a deployment with the name of its repository.
type Deployed struct {
	Repository string        `json:"repository"`
	Env        string        `json:"env"`
	Commit     string        `json:"commit"`
	At         coord.Instant `json:"at"`
}

// Deployed records that a commit of a repository runs in an environment. A token needs the
// permission deploy.
func (s *Service) Deployed(ctx context.Context, caller hub.Caller, d Release) (Deployed, error) {
	const op = "contract.Deployed"
	if err := required(op, "repoName", d.Repo, "env", d.Env, "commit", d.Commit); err != nil {
		return Deployed{}, err
	}
	if err := checkNames(op, "commit", d.Commit, "tree", d.Tree, "env", d.Env); err != nil {
		return Deployed{}, err
	}
	var out Deployed
	err := s.inRepo(ctx, op, caller, d.Project, d.As, coord.PermitDeploy, func(se *session, p coord.Project, by coord.Repo) error {
		x, err := se.tx.WriteCoordination().AddDeployment(coord.Deployment{
			Project: p.ID, Repo: by.ID, Env: d.Env, Commit: d.Commit, Tree: d.Tree, By: string(caller.ID), At: coord.Instant{}.After(s.o.Clock),
		})
		if err != nil {
			return err
		}
		out = Deployed{by.Name, x.Env, x.Commit, x.At}
		se.changed = true
		return se.note(actions.Deployed, x.Name(), hub.OutcomeOK, facts{Project: p.ID, Agent: se.agent(), Repo: by.ID, Action: x.Env, Digest: x.Digest()})
	})
	return out, err
}

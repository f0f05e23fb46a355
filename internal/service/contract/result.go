package contract

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/federation"
	"github.com/parley-agents/parley/internal/ground/text/pattern"
)

// Evidence is the part of a report of work that names the commit, and the test behind it.
type Evidence struct {
	Commit  string `json:"commit,omitempty"`
	Tree    string `json:"-"` // of the commit in the hub's copy; no message says it
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
	if err := checkNames(op, "commit", e.Commit); err != nil {
		return err
	}
	for _, pair := range [][2]string{{"branch", e.Branch}, {"build", e.Build}, {"check", e.Check}} {
		if len(pair[1]) > federation.MaxText {
			return hub.Errorf(hub.CodeTooLarge, op, "%s must be at most %d bytes, got %d", pair[0], federation.MaxText, len(pair[1]))
		}
	}
	saysMore := e.Check != "" || e.Build+e.Branch != ""
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

// A finished is a result before it is stored: without the contract.
type finished struct {
	Evidence
	kind   coord.ResultKind
	result string // success, failure or partial
	source coord.ResultSource
	target bool

	ran *hub.CheckResult // the run of this hub behind it; nil if there is none
	at  point
}

// vouch returns a result with its kind. A check that this hub ran decides itself; a token of CI
// that is bound to the repository and the check vouches for the result that it sends; everything
// else is said. The tree of a commit is that of the hub's copy, whatever the report says.
func (s *Service) vouch(ctx context.Context, op string, caller hub.Caller, project coord.ProjectID, r coord.Repo, e Evidence, result string) (finished, error) {
	out := finished{Evidence: e, kind: coord.ResultSaid, result: cmp.Or(result, coord.ResultSuccess)}
	bounds, isBound := evidenceOf(caller, project)
	at, err := s.pointOf(ctx, op, r, e.Commit)
	if hub.CodeOf(err) == hub.CodeInvalid && !isBound {
		return out, nil // a name that says nothing about a commit: it is said
	}
	if err != nil {
		return out, err
	}
	out.at = at
	out.Commit = at.commit
	out.Tree = at.tree
	if isBound {
		return out.fromCI(op, bounds, r)
	}
	if e.Check == "" {
		return out, nil
	}

	ran, ok, err := s.ranCheck(ctx, at, e.Check)
	if err != nil || !ok {
		return out, err
	}
	out.kind = coord.ResultRun
	out.source = coord.SourceHub
	out.ran = &ran
	out.result = coord.ResultSuccess
	if ran.State != hub.ResultPassed {
		out.result = VerifyFailure
	}
	return out, nil
}

// evidenceOf returns the bounds of a token with the permission evidence, and whether the caller
// holds one that is bound.
func evidenceOf(caller hub.Caller, project coord.ProjectID) (coord.EvidenceBounds, bool) {
	g, ok := coord.GrantIn(caller.Scope, project)
	isBound := ok && caller.Kind == hub.CallerToken && g.Permits(coord.PermitEvidence) && g.Evidence != nil
	if !isBound {
		return coord.EvidenceBounds{}, false
	}
	return *g.Evidence, true
}

// fromCI returns the result of a token within its bounds. It reports CodeDenied beyond them.
func (f finished) fromCI(op string, bounds coord.EvidenceBounds, r coord.Repo) (finished, error) {
	denied := func(format string, args ...any) error {
		return hub.Errorf(hub.CodeDenied, op, "the token is bound to "+format, args...)
	}
	switch {
	case bounds.Repo != r.Name:
		return f, denied("repository %s and cannot send results of %s", bounds.Repo, r.Name)
	case f.Check == "":
		return f, hub.Errorf(hub.CodeInvalid, op, "check required: name the check whose result this is").WithHint("the token is bound to %s", strings.Join(bounds.Checks, ", "))
	case !slices.Contains(bounds.Checks, f.Check):
		return f, denied("the checks %s and cannot send results of %.100q", strings.Join(bounds.Checks, ", "), f.Check)
	case bounds.Branch != "" && f.Branch != "" && f.Branch != bounds.Branch:
		return f, denied("branch %s and cannot send results of %.100q", bounds.Branch, f.Branch)
	case !fullID().MatchString(f.Commit):
		return f, hub.Errorf(hub.CodeInvalid, op, "commit %.100q is not a full commit id", f.Commit)
	}
	f.kind = coord.ResultRun
	f.source = coord.SourceCI
	f.target = bounds.Branch != ""
	f.Branch = cmp.Or(f.Branch, bounds.Branch)
	return f, nil
}

// maxRan is the number of results of a check on one commit that are read.
const maxRan = 50

// ranCheck returns the newest result of a check that this hub ran on a commit, or on another
// commit with its tree. A check in an agent's own working tree does not count.
func (s *Service) ranCheck(ctx context.Context, at point, name string) (found hub.CheckResult, ok bool, err error) {
	if at.home.Path == "" {
		return found, false, nil
	}
	q := hub.CheckResultQuery{Repository: at.home, Name: name, Commit: at.commit, States: []hub.CheckState{hub.ResultPassed, hub.ResultFailed}, Limit: maxRan}
	if at.tree != "" {
		q.Commit = ""
		q.Tree = at.tree
	}
	err = s.store.View(ctx, func(r hub.Reader) error {
		all, err := r.Checks().Results(q)
		i := slices.IndexFunc(all, func(x hub.CheckResult) bool { return !x.InPlace })
		if i >= 0 {
			found, ok = all[i], true
		}
		return err
	})
	return found, ok, err
}

// addResult stores the result of a repository for a contract.
func (se *session) addResult(op string, p coord.Project, by coord.Repo, c coord.Contract, f finished) (coord.ContractResult, error) {
	of, err := se.testedVersion(op, c, &f)
	if err != nil {
		return coord.ContractResult{}, err
	}
	r, err := se.tx.WriteCoordination().AddResult(coord.ContractResult{
		Project: p.ID, Contract: c.ID, Repo: by.ID, Version: of.n, Content: of.hash, Commit: f.Commit, Tree: f.Tree, Branch: f.Branch, Build: f.Build,
		Check: f.Check, Kind: f.kind, Result: f.result, By: string(se.caller.ID), At: coord.Instant{}.After(se.s.o.Clock),
		Source: f.source, Run: f.run(), Target: f.target,
	})
	if err != nil {
		return r, err
	}
	se.changed = true
	return r, se.note(actions.ResultRecorded, r.Name(), hub.OutcomeOK, facts{
		Project: p.ID, Agent: se.agent(), Repo: by.ID, Version: r.Version, Status: r.Result, Action: string(r.Kind), Digest: r.Digest(),
	})
}

// run returns the id of the run behind a result, "" if this hub made none.
func (f finished) run() string {
	if f.ran == nil {
		return ""
	}
	return string(f.ran.ID)
}

// testedVersion returns the version that a result is about: that of the run of this hub behind it,
// else the given one, else the version in force or the agreed one, else the present one. A run of
// this hub that tested no version of the contract is said alone.
func (se *session) testedVersion(op string, c coord.Contract, f *finished) (version, error) {
	c, err := withVersions(se.tx, c)
	if err != nil {
		return version{}, err
	}
	if f.ran != nil {
		of, ok := versionOfRun(c, f.at, *f.ran)
		if ok && f.Against != 0 && f.Against != of.n {
			return of, hub.Errorf(hub.CodeConflict, op, "run %s of %s tested version %d of %s, not %d", f.ran.ID, f.Check, of.n, c.Name, f.Against).
				WithHint("run it for that version: {check.run} %s --commit %s --contract %q", f.Check, shortID(f.Commit), fmt.Sprintf("%s@%d", c.Name, f.Against))
		}
		if ok {
			return of, nil
		}
		f.kind = coord.ResultSaid
		f.source = ""
	}
	if f.Against == 0 {
		b := baseOf(c)
		return version{b.Version, coord.ContentHash(b.content)}, nil
	}
	content, err := contentOf(c, f.Against)
	if err != nil {
		return version{}, hub.Errorf(hub.CodeNotFound, op, "contract %s has no version %d", c.ID, f.Against)
	}
	return version{f.Against, coord.ContentHash(content)}, nil
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

// speaks returns the repository that a caller reports for.
func (s *Service) speaks(ctx context.Context, op string, caller hub.Caller, id coord.ProjectID, as As) (coord.Repo, error) {
	p, err := readIn(ctx, s, op, id, func(_ hub.Reader, p coord.Project) (coord.Project, error) { return p, nil })
	if err != nil {
		return coord.Repo{}, err
	}
	if as.Repo == "" {
		return s.speaksFor(op, p, caller, as)
	}
	r, ok := p.RepoNamed(as.Repo)
	if !ok {
		return r, unknownRepo(op, p, as.Repo)
	}
	return r, nil
}

// A Release says that a commit of a repository runs in an environment.
type Release struct {
	InProject
	As
	Env    string `json:"env"`
	Commit string `json:"commit"`
}

// A Deployed is a deployment with the name of its repository.
type Deployed struct {
	Repository string             `json:"repository"`
	Env        string             `json:"env"`
	Commit     string             `json:"commit"`
	At         coord.Instant      `json:"at"`
	Source     coord.ResultSource `json:"source,omitempty"` // hub or ci
	Verified   bool               `json:"verified"`         // the hub's copy of the repository has the commit
}

// deployedOf describes a deployment.
func deployedOf(p coord.Project, d coord.Deployment) Deployed {
	return Deployed{repoName(p, d.Repo), d.Env, d.Commit, d.At, d.Source, d.Verified}
}

// Deployed records that a commit of a repository runs in an environment. Only the operator and
// tokens with the permission deploy may: an agent's key proves who speaks, not what runs.
func (s *Service) Deployed(ctx context.Context, caller hub.Caller, d Release) (Deployed, error) {
	const op = "contract.Deployed"
	if err := required(op, "repoName", d.Repo, "env", d.Env, "commit", d.Commit); err != nil {
		return Deployed{}, err
	}
	if err := checkNames(op, "commit", d.Commit, "env", d.Env); err != nil {
		return Deployed{}, err
	}
	if err := mayAct(op, caller); err != nil {
		return Deployed{}, err
	}
	isCI := caller.Kind == hub.CallerToken && caller.Permits(d.Project, coord.PermitDeploy)
	if !isCI && !caller.IsOperator() {
		return Deployed{}, hub.Errorf(hub.CodeDenied, op, "only the operator and tokens with the permission deploy record deployments").
			WithHint("{project.token} --agent ci --permissions deploy")
	}
	r, err := s.speaks(ctx, op, caller, d.Project, d.As)
	if err != nil {
		return Deployed{}, err
	}
	at, err := s.pointOf(ctx, op, r, d.Commit)
	if err != nil {
		return Deployed{}, err
	}

	var out Deployed
	err = s.update(ctx, caller, "", func(se *session) error {
		p, err := project(se.tx, op, d.Project)
		if err == nil && !p.Environment(d.Env) {
			err = unknownEnv(op, p, d.Env)
		}
		if err != nil {
			return err
		}
		x := coord.Deployment{Project: p.ID, Repo: r.ID, Env: d.Env, Commit: at.commit, Tree: at.tree, By: string(caller.ID), At: coord.Instant{}.After(s.o.Clock), Source: coord.SourceCI, Verified: at.found}
		if caller.IsOperator() {
			x.Source = coord.SourceHub
		}
		if x, err = se.tx.WriteCoordination().AddDeployment(x); err != nil {
			return err
		}
		out = deployedOf(p, x)
		se.changed = true
		return se.note(actions.Deployed, x.Name(), hub.OutcomeOK, facts{Project: p.ID, Agent: se.agent(), Repo: r.ID, Action: x.Env, Digest: x.Digest()})
	})
	return out, err
}

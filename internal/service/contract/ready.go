package contract

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-agents/parley/compat"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/hub/coord"
)

// A Candidate is a commit of a repository that is to be merged, or deployed to an environment.
type Candidate struct {
	InProject
	Repo      string `json:"repoName"`
	Commit    string `json:"commit"`
	Env       string `json:"env,omitempty"`       // for CanDeploy
	AllowNone bool   `json:"allowNone,omitempty"` // a repository without contracts is ready
	First     bool   `json:"first,omitempty"`     // for CanDeploy: the other side need not run there yet
	Tree      string `json:"-"`                   // of the commit, if the caller read it from the hub's copy
	Directed  bool   `json:"-"`                   // contracts without a provider are left out
}

// A Readiness is the answer of CanMerge and CanDeploy.
type Readiness struct {
	Answer   string             `json:"answer"`    // yes or no
	Asked    []hub.GateEvidence `json:"asked"`     // what was there
	Missing  []hub.GateMissing  `json:"missing"`   // of a no
	NotAsked []string           `json:"not_asked"` // what needs no evidence, with the reason
	Reasons  []Reason           `json:"reasons"`   // Missing in the form of before
	Notes    []Reason           `json:"notes,omitempty"`
	Checked  int                `json:"checked"`          // contracts of the repository
	Opened   []string           `json:"opened,omitempty"` // allow-none, first: what the caller opened for this answer

	runs []missingRun // which RunMissing starts
}

// OK reports whether the answer is yes.
func (r Readiness) OK() bool { return r.Answer == hub.AnswerYes }

// A Reason says why a commit is not ready, who must do something about it, and what.
type Reason struct {
	Contract string `json:"contract"` // its name
	Reason   string `json:"reason"`
	Who      string `json:"who"`
	Next     string `json:"next"`
}

// CanMerge answers whether a commit of a repository may be merged. The answer is yes only if
// for each contract of the repository its test was run on that commit, or on one with the same
// tree, against the version in force, and passed. A provider's commit also waits for the
// consumers that a breaking or unknown change concerns, at the head of their target branch,
// unless they are pending: they declared their use after the provider's newest release. It is
// the one operation that a queue of changes needs to ask.
func (s *Service) CanMerge(ctx context.Context, caller hub.Caller, c Candidate) (Readiness, error) {
	const op = "contract.CanMerge"
	c.Env = ""
	c.First = false
	got, err := s.ready(ctx, op, caller, c)
	if err == nil {
		s.rememberAnswer(ctx, c, got)
		err = s.noteAnswer(ctx, caller, c, got)
	}
	return got, err
}

// CanDeploy answers whether a commit of a repository may be deployed to an environment: whether
// the versions that it was tested against fit the commits that run there.
func (s *Service) CanDeploy(ctx context.Context, caller hub.Caller, c Candidate) (Readiness, error) {
	const op = "contract.CanDeploy"
	if err := required(op, "env", c.Env); err != nil {
		return Readiness{}, err
	}
	got, err := s.ready(ctx, op, caller, c)
	if err == nil {
		err = s.noteAnswer(ctx, caller, c, got)
	}
	return got, err
}

// mayOpen reports CodeDenied unless the caller may open one answer: the operator, and CI with a
// token. An agent's own key opens nothing.
func mayOpen(op string, caller hub.Caller, project coord.ProjectID, flag string) error {
	isCI := caller.Kind == hub.CallerToken && (caller.Permits(project, coord.PermitDeploy) || caller.Permits(project, coord.PermitEvidence))
	if isCI || caller.IsOperator() || caller.ID == hub.Self {
		return nil
	}
	return hub.Errorf(hub.CodeDenied, op, "%s is for the operator and for tokens with the permission deploy or evidence", flag)
}

// noteAnswer writes a yes with its evidence into the journal. The hub's own questions have their
// own entries.
func (s *Service) noteAnswer(ctx context.Context, caller hub.Caller, c Candidate, got Readiness) error {
	if !got.OK() || caller.ID == hub.Self {
		return nil
	}
	return s.update(ctx, caller, "", func(se *session) error {
		return se.note(actions.ContractsReady, c.Commit, hub.OutcomeOK, map[string]any{
			"project_id": c.Project, "repository": c.Repo, "env": c.Env, "asked": got.Asked, "not_asked": got.NotAsked, "opened": got.Opened,
		})
	})
}

// ready answers CanMerge, or CanDeploy if the candidate names an environment.
func (s *Service) ready(ctx context.Context, op string, caller hub.Caller, c Candidate) (Readiness, error) {
	if err := required(op, "repoName", c.Repo, "commit", c.Commit); err != nil {
		return Readiness{}, err
	}
	if err := checkNames(op, "commit", c.Commit, "tree", c.Tree, "env", c.Env); err != nil {
		return Readiness{}, err
	}
	for flag, given := range map[string]bool{"allow-none": c.AllowNone, "first": c.First} {
		if err := mayOpen(op, caller, c.Project, flag); given && err != nil {
			return Readiness{}, err
		}
	}
	known, err := s.readCommits(ctx, op, c)
	if err != nil {
		return Readiness{}, err
	}
	got, err := readJudged(ctx, s, op, caller, c.Project, func(r hub.Reader, p coord.Project, v *verdicts) (Readiness, error) {
		x := newReadiness(s, r, p, v)
		x.repo = known.at.repo
		x.candidate = c
		x.commits = known
		err := s.eachContract(r, p.ID, x.contract)
		if x.out.Checked == 0 && !c.AllowNone {
			x.no("", "no contract of "+x.repo.Name+" is known here", x.repo.Name, "declare what it provides or uses: parley contract propose, parley contract use; or --allow-none")
		}
		if x.out.Checked == 0 && c.AllowNone {
			x.out.Opened = append(x.out.Opened, "allow-none: no contract of "+x.repo.Name+" is known here")
		}
		return x.out, err
	})
	wasNeedless := c.First && len(got.Opened) == 0 && got.Checked > 0
	if err == nil && wasNeedless {
		return got, hub.Errorf(hub.CodeConflict, op, "the other side of each contract of %s runs in %s already: --first is for a first deployment", c.Repo, c.Env).WithHint("ask without --first")
	}
	return got, err
}

// readJudged is readIn for a function that asks for verdicts.
func readJudged[T any](ctx context.Context, s *Service, op string, caller hub.Caller, id coord.ProjectID, fn func(hub.Reader, coord.Project, *verdicts) (T, error)) (T, error) {
	var out T
	err := s.withVerdicts(ctx, caller.ID, func(v *verdicts) (err error) {
		out, err = readIn(ctx, s, op, id, func(r hub.Reader, p coord.Project) (T, error) { return fn(r, p, v) })
		return err
	})
	return out, err
}

// A readiness collects the reasons against a commit.
type readiness struct {
	s         *Service
	r         hub.Reader
	p         coord.Project
	repo      coord.Repo
	candidate Candidate
	out       Readiness
	commits   commitFacts
	verdicts  *verdicts

	deployed map[coord.RepoID]coord.Deployment // in the environment of a matrix
	checks   map[hub.Repository][]hub.RepositoryCheck
	runs     map[string][]hub.CheckResult      // of this hub on a commit
	sent     map[string][]coord.ContractResult // recorded for a commit
}

func newReadiness(s *Service, r hub.Reader, p coord.Project, v *verdicts) *readiness {
	return &readiness{
		s: s, r: r, p: p, verdicts: v,
		out:      Readiness{Answer: hub.AnswerYes, Asked: []hub.GateEvidence{}, Missing: []hub.GateMissing{}, NotAsked: []string{}, Reasons: []Reason{}},
		deployed: map[coord.RepoID]coord.Deployment{}, checks: map[hub.Repository][]hub.RepositoryCheck{}, runs: map[string][]hub.CheckResult{}, sent: map[string][]coord.ContractResult{},
	}
}

// maxResults is the number of results of one commit that are read.
const maxResults = 5000

// resultsOf returns the results of a commit and of commits with its tree, newest first.
func (x *readiness) resultsOf(q coord.ResultQuery, commit, tree string) ([]coord.ContractResult, error) {
	q.Project = x.p.ID
	q.Limit = maxResults
	q.Commit = commit
	found, err := x.r.Coordination().Results(q)
	if err != nil {
		return nil, err
	}
	if tree == "" {
		return found, nil
	}
	q.Commit = ""
	q.Tree = tree
	same, err := x.r.Coordination().Results(q)
	for _, f := range same {
		if f.Commit != commit {
			found = append(found, f)
		}
	}
	slices.SortFunc(found, func(a, b coord.ContractResult) int { return cmp.Compare(b.N, a.N) })
	return found, err
}

// no adds a reason against the commit.
func (x *readiness) no(contract, reason, who, next string) {
	x.out.Answer = hub.AnswerNo
	x.out.Reasons = append(x.out.Reasons, Reason{contract, reason, who, next})
	what := reason
	if contract != "" {
		what = contract + ": " + reason
	}
	x.out.Missing = append(x.out.Missing, hub.GateMissing{What: what, Who: who, Next: next})
}

// yes adds the proof of a version to what was there.
func (x *readiness) yes(c coord.Contract, p point, got proof, of version) {
	x.out.Asked = append(x.out.Asked, hub.GateEvidence{
		What: fmt.Sprintf("%s version %d", c.Name, of.n), Evidence: strings.Join(got.names, ", "), Of: p.repo.Name + " " + shortID(p.commit),
		By: hub.AgentID(strings.Join(got.by[of], ", ")), At: hub.At(got.at[of].Time()),
	})
}

// contract checks the commit against one contract.
func (x *readiness) contract(c coord.Contract) error {
	_, uses := c.Terms.Use(x.repo.ID)
	provides := c.Terms.Provider == x.repo.ID
	isParty := c.Terms.Provider == "" && slices.ContainsFunc(c.Parties(x.p), func(r coord.Repo) bool { return r.ID == x.repo.ID })
	if !provides && !uses && !isParty {
		return nil
	}
	if x.candidate.Directed && c.Terms.Provider == "" {
		return nil
	}
	if c.Terms.Withdrawn() && !uses {
		x.out.NotAsked = append(x.out.NotAsked, c.Name+" was withdrawn")
		return nil
	}
	x.out.Checked++
	if c.Terms.Withdrawn() {
		x.no(c.Name, "it was withdrawn", x.repo.Name, fmt.Sprintf("stop using it: parley contract use %q --repo %s --remove", c.Name, x.repo.Name))
		return nil
	}

	c, err := withVersions(x.r, c)
	if err != nil {
		return err
	}
	force, ok := agreedVersion(c)
	if !ok {
		x.no(c.Name, "it is "+waitsFor(c, x.p), x.awaited(c), fmt.Sprintf("agree: parley contract respond %q agree --version %d", c.Name, c.Version))
		return nil
	}
	inForce := version{force.Version, coord.ContentHash(force.content)}
	got, err := x.prove(c, x.commits.at)
	if err != nil {
		return err
	}
	if x.candidate.Env != "" {
		return x.deploys(c, got, inForce)
	}
	fits, ok, err := x.tested(c, x.commits.at, got, inForce)
	if err != nil {
		return err
	}
	if !ok {
		l := x.unproved(c, x.commits.at, got, inForce)
		x.no(c.Name, l.reason, l.who, l.next)
		return nil
	}
	x.yes(c, x.commits.at, got, fits)
	if provides {
		return x.consumersReady(c, inForce)
	}
	return nil
}

// awaited names the repositories whose agreement a contract waits for.
func (x *readiness) awaited(c coord.Contract) string {
	missing := c.Dissenting(x.p)
	if len(missing) == 0 {
		missing = slices.DeleteFunc(slices.Clone(c.Parties(x.p)), func(r coord.Repo) bool { return r.ID == c.ProposedBy })
	}
	if len(missing) > maxNamed {
		return fmt.Sprintf("%d repositories", len(missing))
	}
	return names(missing, " or ")
}

// agreedVersion returns the version of a contract that holds, and false if none was agreed yet.
func agreedVersion(c coord.Contract) (Base, bool) {
	b := baseOf(c)
	return b, b.Why != baseBefore
}

// tested returns a version for which the tests of a commit passed, and which stands for another one:
// that version itself or, for a consumer, an earlier one from which the change is compatible for its
// parts.
func (x *readiness) tested(c coord.Contract, p point, got proof, want version) (version, bool, error) {
	if got.has(want) {
		return want, true, nil
	}
	if _, failed := got.failed[want]; failed || c.Terms.Provider == p.repo.ID {
		return version{}, false, nil
	}
	for _, v := range got.passed {
		word, err := x.verdict(c, v.n, v.hash, want.n, want.hash, p.repo.ID)
		if err != nil || (v.n <= want.n && word == compat.Compatible) {
			return v, err == nil, err
		}
	}
	return version{}, false, nil
}

// verdict returns the verdict for a repository on the change from one version of a contract to
// another. A version whose content is not known any more makes it unknown.
func (x *readiness) verdict(c coord.Contract, from int, fromHash string, to int, toHash string, repo coord.RepoID) (compat.Word, error) {
	if from == to && fromHash == toHash {
		return compat.Compatible, nil
	}
	old := contentWith(c, from, fromHash)
	new := contentWith(c, to, toHash)
	if old == nil || new == nil {
		return compat.Unknown, nil
	}
	var consumer compat.Consumer
	if u, ok := c.Terms.Use(repo); ok {
		consumer.Parts = u.Parts
	}
	j, err := x.verdicts.ofPair(x.r, c, Base{Version: from, content: old}, new, []compat.Consumer{consumer}, pairOfHashes(c, fromHash, toHash))
	if err != nil {
		return compat.Unknown, err
	}
	return j.forThem.Consumers[0].Verdict, nil
}

// A MatrixQuery asks for a page of the matrix of repositories and contracts.
type MatrixQuery struct {
	InProject
	Env   string           `json:"env,omitempty"`   // the commits that run there, instead of the newest results
	After coord.ContractID `json:"after,omitempty"` // Next of the page before
	Limit int              `json:"limit,omitempty"` // contracts at most; default and most 100
}

// A Matrix is one page: rows by contract and repository.
type Matrix struct {
	Project string           `json:"project"` // its name
	Env     string           `json:"env,omitempty"`
	Rows    []MatrixRow      `json:"rows"`
	Next    coord.ContractID `json:"next,omitempty"`
}

// A MatrixRow says which version of a contract a repository has, and how that is known.
type MatrixRow struct {
	Repository string           `json:"repository"`
	Contract   string           `json:"contract"` // its name
	ID         coord.ContractID `json:"contract_id"`
	Role       string           `json:"role"`              // provider, consumer or party
	Version    int              `json:"version,omitempty"` // that the repository was tested against; 0: none
	State      string           `json:"state"`             // of the contract
	Commit     string           `json:"commit,omitempty"`
	Kind       coord.ResultKind `json:"kind,omitempty"`
	Result     string           `json:"result,omitempty"`
	Verdict    compat.Word      `json:"verdict"` // on the change from that version to the newest, for the repository
	Newest     int              `json:"newest"`  // version of the contract
	At         coord.Instant    `json:"at,omitzero"`
	Ending     []string         `json:"ending,omitempty"` // what ends or has ended of the parts that the repository uses
}

// matrixPage is the most contracts on a page of the matrix.
const matrixPage = 100

// Matrix returns a page of the matrix of repositories and contracts.
func (s *Service) Matrix(ctx context.Context, caller hub.Caller, q MatrixQuery) (Matrix, error) {
	const op = "contract.Matrix"
	limit, err := page(op, q.Limit, matrixPage)
	if err == nil {
		err = checkNames(op, "env", q.Env)
	}
	if err != nil {
		return Matrix{}, err
	}
	return readJudged(ctx, s, op, caller, q.Project, func(r hub.Reader, p coord.Project, v *verdicts) (Matrix, error) {
		out := Matrix{Project: p.Name, Env: q.Env, Rows: []MatrixRow{}}
		found, err := r.Coordination().Contracts(coord.ContractQuery{Project: p.ID, After: q.After, Limit: limit})
		if err != nil || len(found) == 0 {
			return out, err
		}
		last := found[len(found)-1].ID
		if q.Env != "" && !p.Environment(q.Env) {
			return out, unknownEnv(op, p, q.Env)
		}
		x := newReadiness(s, r, p, v)
		x.candidate.Env = q.Env
		newest, err := x.newestResults(q, last)
		if err != nil {
			return out, err
		}
		for _, c := range found {
			rows, err := x.rows(c, newest[c.ID])
			if err != nil {
				return out, err
			}
			out.Rows = append(out.Rows, rows...)
		}
		if len(found) == limit {
			out.Next = last
		}
		return out, nil
	})
}

// newestResults returns the newest results of a page of contracts, by contract and repository:
// of all commits, or of those that run in the environment.
func (x *readiness) newestResults(q MatrixQuery, last coord.ContractID) (map[coord.ContractID]map[coord.RepoID]coord.ContractResult, error) {
	out := map[coord.ContractID]map[coord.RepoID]coord.ContractResult{}
	add := func(f coord.ContractResult) {
		if out[f.Contract] == nil {
			out[f.Contract] = map[coord.RepoID]coord.ContractResult{}
		}
		if known, ok := out[f.Contract][f.Repo]; !ok || known.N < f.N {
			out[f.Contract][f.Repo] = f
		}
	}
	if q.Env == "" {
		all, err := x.r.Coordination().NewestResults(x.p.ID, q.After, last)
		for _, f := range all {
			add(f)
		}
		return out, err
	}
	deployed, err := x.r.Coordination().NewestDeployments(x.p.ID, q.Env)
	if err != nil {
		return nil, err
	}
	for _, d := range deployed {
		x.deployed[d.Repo] = d
		all, err := x.resultsOf(coord.ResultQuery{Repo: d.Repo}, d.Commit, d.Tree)
		if err != nil {
			return nil, err
		}
		for _, f := range all {
			add(f)
		}
	}
	return out, nil
}

// rows returns the rows of one contract: its provider, its consumers, and for a contract
// without a provider the repositories that worked on it.
func (x *readiness) rows(c coord.Contract, results map[coord.RepoID]coord.ContractResult) (out []MatrixRow, err error) {
	whole := false
	ending := endingParts(c, x.p)
	for _, r := range x.p.Repos {
		role := roleOf(c, r.ID)
		result, tested := results[r.ID]
		d, isDeployed := x.deployed[r.ID]
		isHidden := x.candidate.Env != "" && !isDeployed
		if (role == "" && !tested) || isHidden {
			continue
		}
		row := MatrixRow{Repository: r.Name, Contract: c.Name, ID: c.ID, Role: cmp.Or(role, roleParty), State: c.State(), Verdict: compat.Unknown, Newest: c.Version, Commit: d.Commit}
		for _, e := range ending {
			if slices.Contains(e.Users, r.Name) {
				row.Ending = append(row.Ending, e.String())
			}
		}
		if tested {
			row.Version = result.Version
			row.Commit = result.Commit
			row.Kind = result.Kind
			row.Result = result.Result
			row.At = result.At
			hash := coord.ContentHash(c.Content)
			if !whole && (result.Version != c.Version || result.Content != hash) {
				if c, err = withVersions(x.r, c); err != nil {
					return nil, err
				}
				whole = true
			}
			if row.Verdict, err = x.verdict(c, result.Version, result.Content, c.Version, hash, r.ID); err != nil {
				return nil, err
			}
		}
		out = append(out, row)
	}
	slices.SortStableFunc(out, func(a, b MatrixRow) int { return strings.Compare(a.Repository, b.Repository) })
	return out, nil
}

// The roles of a repository in a contract.
const (
	roleProvider = "provider"
	roleConsumer = "consumer"
	roleParty    = "party"
)

// roleOf returns the role of a repository in a contract, "" if it has none.
func roleOf(c coord.Contract, repo coord.RepoID) string {
	if c.Terms.Provider == repo {
		return roleProvider
	}
	if _, uses := c.Terms.Use(repo); uses {
		return roleConsumer
	}
	_, works := c.Implementation(repo)
	if works || (c.Terms.Provider == "" && c.ProposedBy == repo) {
		return roleParty
	}
	return ""
}

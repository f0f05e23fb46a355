package contract

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-agents/parley/compat"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
)

// A Candidate is a commit of a repository that is to be merged, or deployed to an environment.
type Candidate struct {
	InProject
	Repo      string `json:"repoName"`
	Commit    string `json:"commit"`
	Tree      string `json:"tree,omitempty"`      // of the commit: results of another commit with it count
	Env       string `json:"env,omitempty"`       // for CanDeploy
	AllowNone bool   `json:"allowNone,omitempty"` // a repository without contracts is ready
	Directed  bool   `json:"-"`                   // contracts without a provider are left out
}

// The answers of a Readiness.
const (
	AnswerYes = "yes"
	AnswerNo  = "no"
)

// A Readiness is the answer of CanMerge and CanDeploy.
type Readiness struct {
	Answer  string   `json:"answer"`  // yes or no
	Reasons []Reason `json:"reasons"` // of a no
	Notes   []Reason `json:"notes,omitempty"`
	Checked int      `json:"checked"` // contracts of the repository
}

// OK reports whether the answer is yes.
func (r Readiness) OK() bool { return r.Answer == AnswerYes }

// A Reason says why a commit is not ready, who must do something about it, and what.
type Reason struct {
	Contract string `json:"contract"` // its name
	Reason   string `json:"reason"`
	Who      string `json:"who"`
	Next     string `json:"next"`
}

// CanMerge answers whether a commit of a repository may be merged. The answer is yes only if
// for each contract of the repository a test was run on that commit, or on one with the same
// tree, against the version in force, and passed. A provider's commit also waits for the
// consumers that a breaking or unknown change concerns, unless they are pending: they declared
// their use after the provider's newest release. It is the one operation that a queue of
// changes needs to ask.
func (s *Service) CanMerge(ctx context.Context, caller hub.Caller, c Candidate) (Readiness, error) {
	const op = "contract.CanMerge"
	c.Env = ""
	got, err := s.ready(ctx, op, caller, c)
	if err == nil {
		s.rememberAnswer(ctx, c, got)
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
	return s.ready(ctx, op, caller, c)
}

// ready answers CanMerge, or CanDeploy if the candidate names an environment.
func (s *Service) ready(ctx context.Context, op string, caller hub.Caller, c Candidate) (Readiness, error) {
	if err := required(op, "repoName", c.Repo, "commit", c.Commit); err != nil {
		return Readiness{}, err
	}
	if err := checkNames(op, "commit", c.Commit, "tree", c.Tree, "env", c.Env); err != nil {
		return Readiness{}, err
	}
	return readJudged(ctx, s, op, caller, c.Project, func(r hub.Reader, p coord.Project, v *verdicts) (Readiness, error) {
		repo, ok := p.RepoNamed(c.Repo)
		if !ok {
			return Readiness{}, hub.Errorf(hub.CodeNotFound, op, "Repository %.200s not found in project %s", c.Repo, p.ID)
		}
		x := readiness{s: s, r: r, p: p, repo: repo, candidate: c, out: Readiness{Answer: AnswerYes, Reasons: []Reason{}}, verdicts: v}
		err := x.load()
		if err == nil {
			err = s.eachContract(r, p.ID, x.contract)
		}
		if x.out.Checked == 0 && !c.AllowNone {
			x.no("", "no contract of the project concerns "+repo.Name, repo.Name, "declare what it provides or uses: parley contract propose, parley contract use")
		}
		return x.out, err
	})
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

	results  map[coord.ContractID][]coord.ContractResult // of the commit, newest first
	deployed map[coord.RepoID]coord.Deployment           // in the environment
	released map[coord.RepoID]*coord.Deployment          // newest of a repository in any environment; nil if none
	verdicts *verdicts
}

// maxResults is the number of results of one commit that are read.
const maxResults = 5000

// load reads the results of the commit and the deployments of the environment.
func (x *readiness) load() error {
	x.results = map[coord.ContractID][]coord.ContractResult{}
	x.released = map[coord.RepoID]*coord.Deployment{}
	found, err := x.resultsOf(coord.ResultQuery{Repo: x.repo.ID}, x.candidate.Commit, x.candidate.Tree)
	if err != nil {
		return err
	}
	for _, f := range found {
		x.results[f.Contract] = append(x.results[f.Contract], f)
	}
	if x.candidate.Env == "" {
		return nil
	}
	all, err := x.r.Coordination().NewestDeployments(x.p.ID, x.candidate.Env)
	x.deployed = map[coord.RepoID]coord.Deployment{}
	for _, d := range all {
		x.deployed[d.Repo] = d
	}
	return err
}

// resultsOf returns the results of a commit and of commits with its tree, newest first. The
// tree of a commit is also known from its results.
func (x *readiness) resultsOf(q coord.ResultQuery, commit, tree string) ([]coord.ContractResult, error) {
	q.Project = x.p.ID
	q.Limit = maxResults
	q.Commit = commit
	found, err := x.r.Coordination().Results(q)
	if err != nil {
		return nil, err
	}
	for _, f := range found {
		tree = cmp.Or(tree, f.Tree)
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
	x.out.Answer = AnswerNo
	x.out.Reasons = append(x.out.Reasons, Reason{contract, reason, who, next})
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
	x.out.Checked++
	if c.Terms.Withdrawn() {
		if uses {
			x.no(c.Name, "it was withdrawn", x.repo.Name, fmt.Sprintf("stop using it: parley contract use %q --repo %s --remove", c.Name, x.repo.Name))
		}
		return nil
	}

	c, err := withVersions(x.r, c)
	if err != nil {
		return err
	}
	force, ok := agreedVersion(c)
	if !ok {
		x.no(c.Name, "it is "+waitsFor(c, x.p), x.awaited(c), fmt.Sprintf("agree: parley contract respond %q agree", c.Name))
		return nil
	}
	tested, ok, err := x.tested(c, force, provides)
	if err != nil || !ok {
		return err
	}
	switch {
	case x.candidate.Env != "" && provides:
		return x.fitsConsumers(c, tested)
	case x.candidate.Env != "" && uses && c.Terms.Provider != "":
		return x.fitsProvider(c, tested)
	case x.candidate.Env == "" && provides:
		return x.consumersReady(c, force)
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

// tested checks that a test of the commit was run against the version in force and passed, and
// returns its result. For a consumer, a test against an earlier version counts if the version in
// force is compatible with that one for its parts.
func (x *readiness) tested(c coord.Contract, force Base, provides bool) (coord.ContractResult, bool, error) {
	var run *coord.ContractResult
	for _, f := range x.results[c.ID] {
		if f.Kind == coord.ResultRun {
			run = &f
			break
		}
	}
	again := fmt.Sprintf("run its tests on the commit and record them: parley impl verify %q --repo %s --commit %s --check NAME", c.Name, x.repo.Name, x.candidate.Commit)

	switch {
	case run == nil && len(x.results[c.ID]) > 0:
		x.no(c.Name, "the result for this commit was said, not run", x.repo.Name, again)
		return coord.ContractResult{}, false, nil
	case run == nil:
		x.no(c.Name, "no test was run on this commit", x.repo.Name, again)
		return coord.ContractResult{}, false, nil
	case run.Result != coord.ResultSuccess:
		x.no(c.Name, fmt.Sprintf("the test of this commit against version %d ended with %s", run.Version, run.Result), x.repo.Name, "correct the code, then "+again)
		return *run, false, nil
	case run.Version > force.Version:
		x.no(c.Name, fmt.Sprintf("it was tested against version %d, which is %s", run.Version, waitsFor(c, x.p)), x.awaited(c), fmt.Sprintf("agree: parley contract respond %q agree", c.Name))
		return *run, false, nil
	case run.Version == force.Version && run.Content == coord.ContentHash(force.content):
		return *run, true, nil
	}

	// The test was run against an earlier version, or against a content that lost.
	fits := false
	if !provides {
		word, err := x.verdict(c, run.Version, run.Content, force.Version, coord.ContentHash(force.content), x.repo.ID)
		if err != nil {
			return *run, false, err
		}
		fits = word == compat.Compatible
	}
	if !fits {
		x.no(c.Name, fmt.Sprintf("it was tested against version %d, and version %d is in force", run.Version, force.Version), x.repo.Name, again)
	}
	return *run, fits, nil
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

// consumersReady checks that the consumers of a provider's contract were tested against the
// version in force, if that version breaks them, or may.
func (x *readiness) consumersReady(c coord.Contract, force Base) error {
	release, err := x.newestRelease(x.repo.ID)
	if err != nil {
		return err
	}
	from, hash, err := x.versionBefore(c, release)
	if err != nil || from == 0 {
		return err
	}
	forceHash := coord.ContentHash(force.content)
	for _, u := range c.Terms.Consumers() {
		r, ok := x.p.Repo(u.Repo)
		if !ok {
			continue
		}
		word, err := x.verdict(c, from, hash, force.Version, forceHash, u.Repo)
		if err != nil {
			return err
		}
		if word == compat.Compatible {
			continue
		}
		tested, err := x.hasRun(c, u.Repo, force.Version, forceHash)
		if err != nil || tested {
			if err != nil {
				return err
			}
			continue
		}

		reason := Reason{
			c.Name, fmt.Sprintf("version %d is %s for %s, which has no run result for it", force.Version, word, r.Name), r.Name,
			fmt.Sprintf("test it: parley impl verify %q --repo %s --commit COMMIT --check NAME", c.Name, r.Name),
		}
		isPending := release != nil && u.Declared.Compare(release.At) > 0
		if isPending {
			reason.Reason += "; it is pending, because it declared its use after the last release"
			x.out.Notes = append(x.out.Notes, reason)
			continue
		}
		x.no(reason.Contract, reason.Reason, reason.Who, reason.Next)
	}
	return nil
}

// newestRelease returns the newest deployment of a repository in any environment, or nil.
func (x *readiness) newestRelease(repo coord.RepoID) (*coord.Deployment, error) {
	if d, ok := x.released[repo]; ok {
		return d, nil
	}
	all, err := x.r.Coordination().Deployments(coord.DeploymentQuery{Project: x.p.ID, Repo: repo, Limit: 1})
	if err != nil {
		return nil, err
	}
	x.released[repo] = nil
	if len(all) > 0 {
		x.released[repo] = &all[0]
	}
	return x.released[repo], nil
}

// versionBefore returns the version of a contract from which a provider's commit changes: the
// one that its newest release was tested against, else the one that was in force before. It is
// 0 if there is none.
func (x *readiness) versionBefore(c coord.Contract, release *coord.Deployment) (int, string, error) {
	if release != nil {
		run, ok, err := x.lastRun(c.ID, x.repo.ID, *release)
		if err != nil || ok {
			return run.Version, run.Content, err
		}
	}
	if c.Terms.InForce == nil || c.Terms.InForce.Before == 0 {
		return 0, "", nil
	}
	content, err := contentOf(c, c.Terms.InForce.Before)
	if err != nil {
		return c.Terms.InForce.Before, "", nil // folded: its verdict is unknown
	}
	return c.Terms.InForce.Before, coord.ContentHash(content), nil
}

// lastRun returns the newest run that passed on a deployed commit, for a contract.
func (x *readiness) lastRun(id coord.ContractID, repo coord.RepoID, d coord.Deployment) (coord.ContractResult, bool, error) {
	found, err := x.resultsOf(coord.ResultQuery{Repo: repo, Contract: id, Kind: coord.ResultRun}, d.Commit, d.Tree)
	for _, f := range found {
		if f.Result == coord.ResultSuccess {
			return f, true, err
		}
	}
	return coord.ContractResult{}, false, err
}

// hasRun reports whether the newest run of a repository against a version passed.
func (x *readiness) hasRun(c coord.Contract, repo coord.RepoID, version int, hash string) (bool, error) {
	found, err := x.r.Coordination().Results(coord.ResultQuery{Project: x.p.ID, Contract: c.ID, Repo: repo, Version: version, Kind: coord.ResultRun, Limit: 1})
	if err != nil || len(found) == 0 {
		return false, err
	}
	return found[0].Result == coord.ResultSuccess && found[0].Content == hash, nil
}

// fitsProvider checks that the provider that runs in the environment has the version that the
// commit was tested against, or one that is compatible with it.
func (x *readiness) fitsProvider(c coord.Contract, tested coord.ContractResult) error {
	provider, _ := x.p.Repo(c.Terms.Provider)
	d, ok := x.deployed[provider.ID]
	if !ok {
		x.no(c.Name, fmt.Sprintf("%s is not deployed to %s", provider.Name, x.candidate.Env), provider.Name, fmt.Sprintf("deploy it and record that: parley deployed %s --env %s --commit COMMIT", provider.Name, x.candidate.Env))
		return nil
	}
	run, ok, err := x.lastRun(c.ID, provider.ID, d)
	if err != nil {
		return err
	}
	if !ok {
		x.no(c.Name, fmt.Sprintf("no test was run on commit %s of %s, which is deployed to %s", d.Commit, provider.Name, x.candidate.Env), provider.Name,
			fmt.Sprintf("record it: parley impl verify %q --repo %s --commit %s --check NAME", c.Name, provider.Name, d.Commit))
		return nil
	}
	word, err := x.verdict(c, tested.Version, tested.Content, run.Version, run.Content, x.repo.ID)
	if err == nil && word != compat.Compatible {
		x.no(c.Name, fmt.Sprintf("it was tested against version %d; %s has version %d in %s, which is %s", tested.Version, provider.Name, run.Version, x.candidate.Env, word), provider.Name,
			fmt.Sprintf("deploy version %d of %s first", tested.Version, provider.Name))
	}
	return err
}

// fitsConsumers checks that the consumers that run in the environment were tested against the
// version of the commit, or that this version is compatible for each of them.
func (x *readiness) fitsConsumers(c coord.Contract, tested coord.ContractResult) error {
	for _, u := range c.Terms.Consumers() {
		d, isThere := x.deployed[u.Repo]
		consumer, ok := x.p.Repo(u.Repo)
		if !isThere || !ok {
			continue
		}
		found, err := x.resultsOf(coord.ResultQuery{Repo: u.Repo, Contract: c.ID, Kind: coord.ResultRun}, d.Commit, d.Tree)
		if err != nil {
			return err
		}
		found, err = x.orReleased(c, found)
		if err != nil {
			return err
		}
		word := compat.Unknown
		for _, f := range found {
			if word, err = x.verdict(c, f.Version, f.Content, tested.Version, tested.Content, u.Repo); err != nil {
				return err
			}
			if word == compat.Compatible {
				break
			}
		}
		if word != compat.Compatible {
			x.no(c.Name, fmt.Sprintf("version %d is %s for commit %s of %s, which is deployed to %s", tested.Version, word, d.Commit, consumer.Name, x.candidate.Env), consumer.Name,
				fmt.Sprintf("test it against version %d and deploy it first: parley impl verify %q --repo %s --commit COMMIT --check NAME", tested.Version, c.Name, consumer.Name))
		}
	}
	return nil
}

// orReleased returns the results of a consumer that passed. Without any the consumer is taken
// to work with the version that the provider has in the environment now.
func (x *readiness) orReleased(c coord.Contract, found []coord.ContractResult) ([]coord.ContractResult, error) {
	passed := slices.DeleteFunc(found, func(f coord.ContractResult) bool { return f.Result != coord.ResultSuccess })
	d, ok := x.deployed[c.Terms.Provider]
	if len(passed) > 0 || !ok {
		return passed, nil
	}
	now, ok, err := x.lastRun(c.ID, c.Terms.Provider, d)
	if err != nil || !ok {
		return nil, err
	}
	return []coord.ContractResult{now}, nil
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
		x := readiness{s: s, r: r, p: p, candidate: Candidate{Env: q.Env}, deployed: map[coord.RepoID]coord.Deployment{}, verdicts: v}
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
	for _, r := range x.p.Repos {
		role := roleOf(c, r.ID)
		result, tested := results[r.ID]
		d, isDeployed := x.deployed[r.ID]
		isHidden := x.candidate.Env != "" && !isDeployed
		if (role == "" && !tested) || isHidden {
			continue
		}
		row := MatrixRow{Repository: r.Name, Contract: c.Name, ID: c.ID, Role: cmp.Or(role, roleParty), State: c.State(), Verdict: compat.Unknown, Newest: c.Version, Commit: d.Commit}
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

package contract

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/parley-agents/parley/compat"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
)

// commitFacts are everything about commits that an answer needs from repositories. It is read before
// the transaction in which the answer is found.
type commitFacts struct {
	at       point                  // the candidate
	heads    map[coord.RepoID]point // of the target branches of the candidate's repository and of its consumers; without a commit if they are not known
	deployed map[coord.RepoID]point // in the environment of the candidate
	release  *coord.Deployment      // the newest of the candidate's repository in any environment; nil for none
}

// readCommits reads the repositories that an answer about a candidate depends on.
func (s *Service) readCommits(ctx context.Context, op string, c Candidate) (commitFacts, error) {
	out := commitFacts{heads: map[coord.RepoID]point{}, deployed: map[coord.RepoID]point{}}
	var withHead []coord.Repo
	var deployments []coord.Deployment
	project, err := readIn(ctx, s, op, c.Project, func(r hub.Reader, p coord.Project) (coord.Project, error) {
		repo, ok := p.RepoNamed(c.Repo)
		if !ok {
			return p, hub.Errorf(hub.CodeInvalid, op, "project %s has no repository named %.200q", p.ID, c.Repo).WithHint("its repositories are %s", names(p.Repos, " and "))
		}
		out.at.repo = repo
		if c.Env != "" {
			if !p.Environment(c.Env) {
				return p, unknownEnv(op, p, c.Env)
			}
			var err error
			deployments, err = r.Coordination().NewestDeployments(p.ID, c.Env)
			return p, err
		}

		newest, err := r.Coordination().Deployments(coord.DeploymentQuery{Project: p.ID, Repo: repo.ID, Limit: 1})
		if len(newest) > 0 {
			out.release = &newest[0]
		}
		if err != nil || s.o.Repositories == nil {
			return p, err
		}
		withHead = append(withHead, repo)
		return p, s.eachContract(r, p.ID, func(c coord.Contract) error {
			for _, u := range c.Terms.Consumers() {
				r, ok := p.Repo(u.Repo)
				if ok && c.Terms.Provider == repo.ID && !slices.ContainsFunc(withHead, func(x coord.Repo) bool { return x.ID == r.ID }) {
					withHead = append(withHead, r)
				}
			}
			return nil
		})
	})
	if err != nil {
		return out, err
	}

	if out.at, err = s.pointOf(ctx, op, out.at.repo, c.Commit); err != nil {
		return out, err
	}
	if c.Tree != "" {
		out.at.tree = c.Tree
	}
	for _, r := range withHead {
		if out.heads[r.ID], err = s.targetOf(ctx, r); err != nil {
			return out, err
		}
	}
	for _, d := range deployments {
		if r, ok := project.Repo(d.Repo); ok {
			if out.deployed[r.ID], err = s.commitOf(ctx, r, d.Commit); err != nil {
				return out, err
			}
		}
	}
	return out, nil
}

// headOf returns the commit of a repository from which a merge goes on: the head of its target branch in
// the hub's copy, else the newest one that CI sent for the branch that its token is bound to.
func (x *readiness) headOf(r coord.Repo) (point, error) {
	head := x.commits.heads[r.ID]
	head.repo = r
	if head.commit != "" {
		return head, nil
	}
	const most = 200
	for before := int64(0); ; {
		found, err := x.r.Coordination().Results(coord.ResultQuery{Project: x.p.ID, Repo: r.ID, Kind: coord.ResultRun, Before: before, Limit: most})
		if err != nil {
			return head, err
		}
		for _, f := range found {
			if f.Source == coord.SourceCI && f.Target {
				head.commit = f.Commit
				head.tree = f.Tree
				return head, nil
			}
			before = f.N
		}
		if len(found) < most {
			return head, nil
		}
	}
}

// consumersReady checks that the consumers of a provider's contract were tested against the
// version in force at the head of their target branch, if that version breaks them, or may.
func (x *readiness) consumersReady(c coord.Contract, force version) error {
	from, known, err := x.versionBefore(c, force)
	if err != nil {
		return err
	}
	for _, u := range c.Terms.Consumers() {
		r, ok := x.p.Repo(u.Repo)
		if !ok {
			continue
		}
		if !known {
			x.out.NotAsked = append(x.out.NotAsked, fmt.Sprintf("%s: version %d of %s is the first in force", r.Name, force.n, c.Name))
			continue
		}
		word, err := x.verdict(c, from.n, from.hash, force.n, force.hash, u.Repo)
		if err != nil {
			return err
		}
		if word == compat.Compatible {
			x.out.NotAsked = append(x.out.NotAsked, fmt.Sprintf("%s: compatible with version %d of %s", r.Name, force.n, c.Name))
			continue
		}
		if err := x.consumerReady(c, r, u, word, force); err != nil {
			return err
		}
	}
	return nil
}

// consumerReady checks one consumer that a change is not compatible for.
func (x *readiness) consumerReady(c coord.Contract, r coord.Repo, u coord.Use, word compat.Word, force version) error {
	head, err := x.headOf(r)
	if err != nil {
		return err
	}
	got, err := x.prove(c, head)
	if err != nil {
		return err
	}
	if got.has(force) {
		x.yes(c, head, got, force)
		return nil
	}

	reason := Reason{Contract: c.Name, Reason: fmt.Sprintf("version %d is %s for %s, which has no run result for it", force.n, word, r.Name), Who: r.Name}
	if head.commit == "" {
		reason.Reason += ": its target branch is not known here"
		reason.Next = fmt.Sprintf("send its results with a token for its branch: parley project token --agent ci --permissions project:read,evidence --repo %s --check NAME --branch main", r.Name)
		reason.Who = "operator"
	} else {
		l := x.unproved(c, head, got, force)
		reason.Reason += fmt.Sprintf(" at the head of its target branch, %s", shortID(head.commit))
		reason.Next = l.next
		if len(got.names) == 0 {
			reason.Reason += ": " + l.reason
			reason.Who = l.who
		}
	}
	isPending := x.commits.release != nil && u.Declared.Compare(x.commits.release.At) > 0
	if isPending {
		reason.Reason += "; it is pending, because it declared its use after the last release"
		x.out.Notes = append(x.out.Notes, reason)
		return nil
	}
	x.no(reason.Contract, reason.Reason, reason.Who, reason.Next)
	return nil
}

// versionBefore returns the version of a contract from which a provider's commit changes: the
// one of the head of the provider's target branch, else the one that was in force before. It is
// false if there is none. A head that is the judged commit itself says nothing about before, and a
// run that an agent asked for counts only for the version of the head's lock file.
func (x *readiness) versionBefore(c coord.Contract, force version) (version, bool, error) {
	head, err := x.headOf(x.repo)
	if err != nil {
		return version{}, false, err
	}
	at := x.commits.at
	isItself := head.commit == at.commit || (head.tree != "" && head.tree == at.tree)
	if head.commit != "" && !isItself {
		got, err := x.prove(c, head)
		if err != nil {
			return version{}, false, err
		}
		if _, isLocked := head.locked[c.Name]; !isLocked {
			got.passed = slices.DeleteFunc(got.passed, func(v version) bool { return got.asked[v] })
		}
		if v, ok := versionAt(c, head, got, force); ok {
			return v, true, nil
		}
	}

	if c.Terms.InForce == nil || c.Terms.InForce.Before == 0 {
		return version{}, false, nil
	}
	content, err := contentOf(c, c.Terms.InForce.Before)
	if err != nil {
		return version{n: c.Terms.InForce.Before}, true, nil // folded: its verdict is unknown
	}
	return version{c.Terms.InForce.Before, coord.ContentHash(content)}, true, nil
}

// newestOf returns the newest version for which the tests passed, the zero one without any.
func newestOf(p proof) version {
	if len(p.passed) == 0 {
		return version{}
	}
	return p.passed[0]
}

// agreed returns the versions of a proof that hold: that in force and earlier ones.
func (p proof) agreed(force version) []version {
	return slices.DeleteFunc(slices.Clone(p.passed), func(v version) bool { return v.n > force.n || (v.n == force.n && v != force) })
}

// versionAt returns the version that a commit of a provider has. It is one, whatever else its tests
// were run against: that of its lock file, else the newest agreed one for which they passed. It is
// false if the tests did not pass for it.
func versionAt(c coord.Contract, p point, got proof, force version) (version, bool) {
	passed := got.agreed(force)
	if l, ok := p.locked[c.Name]; ok && contentWith(c, l.Version, l.Digest) != nil {
		v := version{l.Version, l.Digest}
		return v, slices.Contains(passed, v)
	}
	if len(passed) == 0 {
		return version{}, false
	}
	return passed[0], true
}

// deploys checks whether the versions that a commit was tested against fit the commits on the other
// side of a contract that run in the environment.
func (x *readiness) deploys(c coord.Contract, got proof, force version) error {
	at := x.commits.at
	isProvider := c.Terms.Provider == x.repo.ID
	isTested := len(got.agreed(force)) > 0
	mine, ok := versionAt(c, at, got, force)
	want := force
	if isProvider && !ok {
		isTested = false
		if mine.n > 0 && mine.n < force.n {
			want = mine
		}
	}
	if !isTested {
		l := x.unproved(c, at, got, want)
		x.no(c.Name, l.reason, l.who, l.next)
		return nil
	}

	got.passed = got.agreed(force)
	switch {
	case c.Terms.Provider == "":
		return x.fitsParties(c, got)
	case isProvider:
		return x.fitsConsumers(c, got, mine, force)
	}
	return x.fitsProvider(c, got, force)
}

// fitsParties checks that each other party of a contract without a provider runs a commit that
// passed the tests for a version of this one.
func (x *readiness) fitsParties(c coord.Contract, got proof) error {
	of := newestOf(got)
	isMissing, others := false, 0
	for _, r := range c.Parties(x.p) {
		if r.ID == x.repo.ID {
			continue
		}
		others++
		there, ok := x.commits.deployed[r.ID]
		if !ok {
			isMissing = !x.isFirst(c, r.Name) || isMissing
			continue
		}
		runs, err := x.prove(c, there)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(got.passed, runs.has)
		if i < 0 {
			l := x.unproved(c, there, runs, of)
			x.no(c.Name, fmt.Sprintf("commit %s of %s, which is deployed to %s, has no passed run for version %d", shortID(there.commit), r.Name, x.candidate.Env, of.n), l.who, l.next)
			isMissing = true
			continue
		}
		of = got.passed[i]
	}
	if others == 0 {
		x.out.NotAsked = append(x.out.NotAsked, "other parties of "+c.Name+": there are none")
	}
	if !isMissing {
		x.yes(c, x.commits.at, got, of)
	}
	return nil
}

// isFirst reports whether the other side of a contract need not run in the environment yet, because
// the caller said so. It adds the reason against the commit if the caller did not.
func (x *readiness) isFirst(c coord.Contract, other string) bool {
	text := fmt.Sprintf("%s is not deployed to %s", other, x.candidate.Env)
	if x.candidate.First {
		x.out.Opened = append(x.out.Opened, "first: "+c.Name+": "+text)
		return true
	}
	x.no(c.Name, text, other, fmt.Sprintf("deploy it and record that: parley contract deployed %s --env %s --commit COMMIT; or --first for the first deployment", other, x.candidate.Env))
	return false
}

// fitsProvider checks that the commit passed the tests for the version that the provider has in the
// environment, or did not fail them and passed for one from which that version is compatible for its
// parts.
func (x *readiness) fitsProvider(c coord.Contract, got proof, force version) error {
	provider, _ := x.p.Repo(c.Terms.Provider)
	there, ok := x.commits.deployed[provider.ID]
	if !ok {
		if x.isFirst(c, provider.Name) {
			x.yes(c, x.commits.at, got, newestOf(got))
		}
		return nil
	}
	runs, err := x.prove(c, there)
	if err != nil {
		return err
	}
	has, ok := versionAt(c, there, runs, force)
	if !ok {
		l := x.unproved(c, there, runs, cmp.Or(has, newestOf(got)))
		x.no(c.Name, fmt.Sprintf("no test was run on commit %s of %s, which is deployed to %s", shortID(there.commit), provider.Name, x.candidate.Env), l.who, l.next)
		return nil
	}
	if _, failed := got.failed[has]; failed {
		l := x.unproved(c, x.commits.at, got, has)
		x.no(c.Name, fmt.Sprintf("%s; %s has version %d in %s", l.reason, provider.Name, has.n, x.candidate.Env), l.who, l.next)
		return nil
	}
	for _, v := range got.passed {
		word, err := x.verdict(c, v.n, v.hash, has.n, has.hash, x.repo.ID)
		if err != nil {
			return err
		}
		if word == compat.Compatible {
			x.yes(c, x.commits.at, got, v)
			return nil
		}
	}
	x.no(c.Name, fmt.Sprintf("it was tested against version %d; %s has version %d in %s", newestOf(got).n, provider.Name, has.n, x.candidate.Env), x.repo.Name,
		x.unproved(c, x.commits.at, got, has).next)
	return nil
}

// fitsConsumers checks that the consumers that run in the environment passed their tests for the
// version of the commit, or that the change to it is compatible for each of them.
func (x *readiness) fitsConsumers(c coord.Contract, got proof, mine, force version) error {
	isThere := false
	for _, u := range c.Terms.Consumers() {
		there, ok := x.commits.deployed[u.Repo]
		if !ok {
			continue
		}
		isThere = true
		word, err := x.fitsConsumer(c, there, mine, force)
		if err != nil {
			return err
		}
		if word == compat.Compatible {
			continue
		}
		x.no(c.Name, fmt.Sprintf("version %d is %s for commit %s of %s, which is deployed to %s", mine.n, word, shortID(there.commit), there.repo.Name, x.candidate.Env), there.repo.Name,
			fmt.Sprintf("deploy a commit of %s that was tested against version %d first", there.repo.Name, mine.n))
	}
	if len(c.Terms.Consumers()) == 0 {
		x.out.NotAsked = append(x.out.NotAsked, "consumers of "+c.Name+": none is declared")
		isThere = true
	}
	if isThere || x.isFirst(c, x.consumerNames(c)) {
		x.yes(c, x.commits.at, got, mine)
	}
	return nil
}

// consumerNames names the consumers of a contract.
func (x *readiness) consumerNames(c coord.Contract) string {
	var ids []coord.RepoID
	for _, u := range c.Terms.Consumers() {
		ids = append(ids, u.Repo)
	}
	return names(reposOf(x.p, ids), " or ")
}

// fitsConsumer returns the best verdict for a deployed consumer on the version of a commit of the
// provider: from those that the consumer was tested against or, without any, from the one that the
// provider has in the environment now. A consumer whose tests failed for that version has none.
func (x *readiness) fitsConsumer(c coord.Contract, there point, mine, force version) (compat.Word, error) {
	runs, err := x.prove(c, there)
	if err != nil {
		return compat.Unknown, err
	}
	if _, failed := runs.failed[mine]; failed {
		return compat.Breaking, nil
	}
	from := runs.passed
	if now, ok := x.commits.deployed[c.Terms.Provider]; ok && len(from) == 0 && len(runs.failed) == 0 {
		has, err := x.prove(c, now)
		if err != nil {
			return compat.Unknown, err
		}
		if v, ok := versionAt(c, now, has, force); ok {
			from = []version{v}
		}
	}
	best := compat.Unknown
	for _, v := range from {
		word, err := x.verdict(c, v.n, v.hash, mine.n, mine.hash, there.repo.ID)
		if err != nil || word == compat.Compatible {
			return word, err
		}
		if word == compat.Breaking {
			best = word
		}
	}
	return best, nil
}

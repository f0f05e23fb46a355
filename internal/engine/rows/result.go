package rows

import (
	"cmp"
	"slices"

	"github.com/parley-agents/parley/hub/coord"
)

var contractResults = newTable("contract_results", "result", "n, project, contract, repo, version, commit_id, tree, kind, body_json", func(c *codec, v *coord.ContractResult) {
	c.int64(&v.N)
	c.text((*string)(&v.Project))
	c.text((*string)(&v.Contract))
	c.text((*string)(&v.Repo))
	c.int(&v.Version)
	c.text(&v.Commit)
	c.optional(&v.Tree)
	c.text((*string)(&v.Kind))
	c.encoded(v, false)
})

var deployments = newTable("deployments", "deployment", "n, project, repo, env, body_json", func(c *codec, v *coord.Deployment) {
	c.int64(&v.N)
	c.text((*string)(&v.Project))
	c.text((*string)(&v.Repo))
	c.text(&v.Env)
	c.encoded(v, false)
})

var contractVerdicts = newTable("contract_verdicts", "verdict", "project, contract, pair, rules, body_json", func(c *codec, v *coord.StoredVerdict) {
	c.text((*string)(&v.Project))
	c.text((*string)(&v.Contract))
	c.text(&v.Pair)
	c.int(&v.Rules)
	c.text(&v.Body)
})

var (
	lastContractResult = statement(`SELECT coalesce(max(n), 0) FROM contract_results`)
	newestResults      = contractResults.query(`WHERE n IN (SELECT max(n) FROM contract_results
		WHERE project = ?1 AND contract > ?2 AND contract <= ?3 GROUP BY contract, repo) ORDER BY n`)

	lastDeployment    = statement(`SELECT coalesce(max(n), 0) FROM deployments`)
	newestDeployments = deployments.query(`WHERE n IN (SELECT max(n) FROM deployments WHERE project = ?1 AND env = ?2 GROUP BY repo) ORDER BY n`)

	verdictByPair = contractVerdicts.query(`WHERE project = ?1 AND contract = ?2 AND pair = ?3`)
	putVerdict    = statement(`INSERT INTO contract_verdicts (project, contract, pair, rules, body_json) VALUES (?1, ?2, ?3, ?4, ?5)
		ON CONFLICT (project, contract, pair) DO UPDATE SET rules = excluded.rules, body_json = excluded.body_json`)
)

func (r *reader) Verdict(project coord.ProjectID, id coord.ContractID, pair string) (coord.StoredVerdict, error) {
	return contractVerdicts.one(r, pair, verdictByPair, string(project), string(id), pair)
}

func (t *tx) PutVerdict(v coord.StoredVerdict) error {
	_, err := contractVerdicts.write(t, putVerdict, &v)
	return err
}

func (r *reader) Results(q coord.ResultQuery) ([]coord.ContractResult, error) {
	var f filter
	f.add("project = ?", string(q.Project))
	f.equal("contract", string(q.Contract))
	f.equal("repo", string(q.Repo))
	f.equal("commit_id", q.Commit)
	f.equal("tree", q.Tree)
	f.equal("kind", string(q.Kind))
	if q.Version > 0 {
		f.add("version = ?", q.Version)
	}
	if q.Before > 0 {
		f.add("n < ?", q.Before)
	}
	return contractResults.filtered(r, f, `ORDER BY n DESC`, q.Limit)
}

func (r *reader) NewestResults(project coord.ProjectID, after, upTo coord.ContractID) ([]coord.ContractResult, error) {
	found, err := contractResults.all(r, newestResults, string(project), string(after), string(upTo))
	slices.SortFunc(found, func(a, b coord.ContractResult) int {
		return cmp.Or(cmp.Compare(a.Contract, b.Contract), cmp.Compare(a.Repo, b.Repo))
	})
	return found, err
}

func (t *tx) AddResult(v coord.ContractResult) (coord.ContractResult, error) {
	n, err := t.number(contractResults.op(), lastContractResult)
	if err != nil {
		return v, err
	}
	v.N = n + 1
	return v, contractResults.add(t, v.Name(), &v)
}

func (r *reader) Deployments(q coord.DeploymentQuery) ([]coord.Deployment, error) {
	var f filter
	f.add("project = ?", string(q.Project))
	f.equal("repo", string(q.Repo))
	f.equal("env", q.Env)
	if q.Before > 0 {
		f.add("n < ?", q.Before)
	}
	return deployments.filtered(r, f, `ORDER BY n DESC`, q.Limit)
}

func (r *reader) NewestDeployments(project coord.ProjectID, env string) ([]coord.Deployment, error) {
	found, err := deployments.all(r, newestDeployments, string(project), env)
	slices.SortFunc(found, func(a, b coord.Deployment) int { return cmp.Compare(a.Repo, b.Repo) })
	return found, err
}

func (t *tx) AddDeployment(v coord.Deployment) (coord.Deployment, error) {
	n, err := t.number(deployments.op(), lastDeployment)
	if err != nil {
		return v, err
	}
	v.N = n + 1
	return v, deployments.add(t, v.Name(), &v)
}

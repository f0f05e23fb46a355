package rows

import (
	"strings"

	"github.com/parley-agents/parley/hub"
)

var repositoryChecks = newTable("repository_checks", "check", "machine, repository, name, body_json", func(c *codec, v *hub.RepositoryCheck) {
	c.text(&v.Machine)
	c.text(&v.Path)
	c.text(&v.Name)
	c.encoded(v, false)
})

var checkPolicies = newTable("check_policies", "policy", "machine, repository, body_json", func(c *codec, v *hub.CheckPolicy) {
	c.text(&v.Machine)
	c.text(&v.Path)
	c.encoded(v, false)
})

// checkResults keeps the end of an output in a table of its own, so that lists of results are small.
var checkResults = newTable("check_results", "result", "n, machine, repository, name, tree, digest, commit_id, handoff, state, body_json", func(c *codec, v *hub.CheckResult) {
	n := v.ID.Number()
	c.int64(&n)
	c.text(&v.Machine)
	c.text(&v.Path)
	c.text(&v.Name)
	c.text(&v.Tree)
	c.text(&v.Digest)
	c.text(&v.Commit)
	c.optional((*string)(&v.Handoff))
	c.text((*string)(&v.State))
	body := *v
	body.Output.Tail = ""
	body.Kept, body.Flaky = false, false
	c.encoded(&body, false)
	*v = body
})

var progresses = newTable("progress", "progress", "subject, checks, review, landing, revision, body_json", func(c *codec, v *hub.Progress) {
	c.text(&v.Subject)
	c.text((*string)(&v.Checks))
	c.text((*string)(&v.Review))
	c.text((*string)(&v.Landing))
	c.int64(&v.Revision)
	c.encoded(v, false)
})

var (
	checksOfRepository = repositoryChecks.query(`WHERE machine = ?1 AND repository = ?2 ORDER BY name`)
	allChecks          = repositoryChecks.query(`ORDER BY machine, repository, name`)
	putCheck           = statement(`INSERT INTO repository_checks (machine, repository, name, body_json) VALUES (?1, ?2, ?3, ?4)
		ON CONFLICT (machine, repository, name) DO UPDATE SET body_json = excluded.body_json`)
	removeCheck = statement(`DELETE FROM repository_checks WHERE machine = ?1 AND repository = ?2 AND name = ?3`)

	policyOfRepository = checkPolicies.query(`WHERE machine = ?1 AND repository = ?2`)
	putCheckPolicy     = statement(`INSERT INTO check_policies (machine, repository, body_json) VALUES (?1, ?2, ?3)
		ON CONFLICT (machine, repository) DO UPDATE SET body_json = excluded.body_json`)

	checkResult     = checkResults.query(`WHERE n = ?1`)
	lastCheckResult = statement(`SELECT coalesce(max(n), 0) FROM check_results`)
	putCheckResult  = checkResults.update(1, "machine", ` AND state = ?11`)

	checkTail    = statement(`SELECT tail FROM check_tails WHERE n = ?1`)
	putCheckTail = statement(`INSERT INTO check_tails (n, tail) VALUES (?1, ?2) ON CONFLICT (n) DO UPDATE SET tail = excluded.tail`)

	progressOf  = progresses.query(`WHERE subject = ?1`)
	checking    = progresses.query(`WHERE checks = 'running' ORDER BY subject`)
	putProgress = progresses.update(1, "checks", ` AND revision = ?7`)
)

// A checkReader is the hub.CheckReader of a reader.
type checkReader struct{ r *reader }

// A checkWriter is the hub.CheckWriter of a transaction.
type checkWriter struct{ t *tx }

func (r *reader) Checks() hub.CheckReader { return checkReader{r} }

func (t *tx) WriteChecks() hub.CheckWriter { return checkWriter{t} }

func (v checkReader) OfRepository(r hub.Repository) ([]hub.RepositoryCheck, error) {
	return repositoryChecks.all(v.r, checksOfRepository, r.Machine, r.Path)
}

func (v checkReader) All() ([]hub.RepositoryCheck, error) {
	return repositoryChecks.all(v.r, allChecks)
}

func (v checkReader) Policy(r hub.Repository) (hub.CheckPolicy, error) {
	all, err := checkPolicies.all(v.r, policyOfRepository, r.Machine, r.Path)
	if err != nil || len(all) == 0 {
		return hub.CheckPolicy{Repository: r}, err
	}
	return all[0], nil
}

func (v checkReader) Result(id hub.CheckResultID) (hub.CheckResult, error) {
	return checkResults.one(v.r, string(id), checkResult, id.Number())
}

func (v checkReader) Results(q hub.CheckResultQuery) ([]hub.CheckResult, error) {
	var f filter
	f.equal("machine", q.Repository.Machine)
	f.equal("repository", q.Repository.Path)
	f.equal("name", q.Name)
	f.equal("tree", q.Tree)
	f.equal("digest", q.Digest)
	f.equal("commit_id", q.Commit)
	f.equal("handoff", string(q.Handoff))
	if len(q.States) > 0 {
		var states []any
		for _, s := range q.States {
			states = append(states, string(s))
		}
		f.add(`state IN (?`+strings.Repeat(`, ?`, len(states)-1)+`)`, states...)
	}
	if q.Cursor != "" {
		f.add(`n < ?`, q.Cursor.Number())
	}
	return checkResults.filtered(v.r, f, `ORDER BY n DESC`, q.Limit)
}

func (v checkReader) Tail(id hub.CheckResultID) (string, error) {
	q := v.r.query(checkTail)
	q.bind(id.Number())
	text := ""
	for q.next() {
		text = q.s.ColumnText(0)
	}
	return text, engineError("store.check_tails", q.done())
}

func (v checkReader) Progress(subject string) (hub.Progress, error) {
	all, err := progresses.all(v.r, progressOf, subject)
	if err != nil || len(all) == 0 {
		return hub.NewProgress(subject), err
	}
	return all[0], nil
}

func (v checkReader) Checking() ([]hub.Progress, error) { return progresses.all(v.r, checking) }

func (w checkWriter) PutCheck(c hub.RepositoryCheck) error {
	_, err := repositoryChecks.write(w.t, putCheck, &c)
	return err
}

func (w checkWriter) RemoveCheck(r hub.Repository, name string) error {
	n, err := w.t.run(repositoryChecks.op(), removeCheck, r.Machine, r.Path, name)
	if err == nil && n == 0 {
		return notFound(repositoryChecks.op(), "check", name)
	}
	return err
}

func (w checkWriter) PutPolicy(p hub.CheckPolicy) error {
	_, err := checkPolicies.write(w.t, putCheckPolicy, &p)
	return err
}

func (w checkWriter) PutResult(r hub.CheckResult, was hub.CheckState) (hub.CheckResultID, error) {
	tail := r.Output.Tail
	if was == "" {
		n, err := w.t.number(checkResults.op(), lastCheckResult)
		if err != nil {
			return "", err
		}
		r.ID = hub.NewCheckResultID(n + 1)
		err = checkResults.add(w.t, string(r.ID), &r)
		return r.ID, w.putTail(r.ID, tail, err)
	}
	err := checkResults.put(w.t, string(r.ID), putCheckResult, &r, string(was))
	return r.ID, w.putTail(r.ID, tail, err)
}

// putTail stores the end of an output unless it is empty or err is set, which it returns.
func (w checkWriter) putTail(id hub.CheckResultID, tail string, err error) error {
	if err != nil || tail == "" {
		return err
	}
	_, err = w.t.run("store.check_tails", putCheckTail, id.Number(), tail)
	return err
}

func (w checkWriter) PutProgress(p hub.Progress) error {
	was := p.Revision
	p.Revision++
	if was == 0 {
		return progresses.add(w.t, p.Subject, &p)
	}
	return progresses.put(w.t, p.Subject, putProgress, &p, was)
}

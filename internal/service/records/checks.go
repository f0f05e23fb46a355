package records

import (
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

// A checkFact is what an entry says about one check.
type checkFact struct {
	Repository string `json:"repository"`
	Name       string `json:"name"`
	SHA256     string `json:"sha256"`
}

// checkName names a check of a repository among all.
func checkName(repository, name string) string { return repository + "#" + name }

// recordCheck applies an entry about a check of a repository, or about a run of one.
func (v *verifier) recordCheck(e hub.Entry) {
	if v.Checks == nil { // a verification that an earlier version paused
		v.Checks = register[string]{}
		v.Results = register[string]{}
	}
	switch e.Action {
	case actions.CheckAdded:
		var f checkFact
		if v.decodeFacts(e, &f) {
			v.Checks.put(e.Subject, f.SHA256, e)
		}
	case actions.CheckRemoved:
		delete(v.Checks, e.Subject)
	case actions.CheckTrusted:
		var f struct {
			Repository string      `json:"repository"`
			Checks     []checkFact `json:"checks"`
			Dropped    []string    `json:"dropped"`
		}
		if !v.decodeFacts(e, &f) {
			return
		}
		for _, name := range f.Dropped {
			delete(v.Checks, checkName(f.Repository, name))
		}
		for _, c := range f.Checks {
			v.Checks.put(checkName(f.Repository, c.Name), c.SHA256, e)
		}
	case actions.CheckRun:
		var f checkFact
		if v.decodeFacts(e, &f) {
			v.Results.put(e.Subject, f.SHA256, e)
		}
	}
}

// checkChecks compares the checks of repositories and the results of their runs with the journal. A run
// that is not over has no entry.
func (v *verifier) checkChecks(r hub.Reader) error {
	if !v.Complete {
		v.Out.Unchecked = append(v.Out.Unchecked, "checks of repositories: their records in archives were not read")
		return nil
	}
	all, err := r.Checks().All()
	if err != nil {
		return err
	}
	for _, c := range all {
		v.Out.Checks++
		v.Checks.check(v, "check", checkName(c.Path, c.Name), func(want string, row int64) string {
			return unless(c.WholeDigest() == want && c.RunDigest() == c.Digest, differsFrom, row)
		})
	}
	v.Checks.missing(v, "check")

	const page = 500
	for cursor := hub.CheckResultID(""); ; {
		results, err := r.Checks().Results(hub.CheckResultQuery{Cursor: cursor, Limit: page})
		if err != nil {
			return err
		}
		for _, c := range results {
			cursor = c.ID
			if !c.State.Over() {
				continue
			}
			v.Out.Results++
			v.Results.check(v, "result", string(c.ID), func(want string, row int64) string {
				return unless(c.RecordDigest() == want, differsFrom, row)
			})
		}
		if len(results) < page {
			break
		}
	}
	v.Results.missing(v, "result")
	return nil
}

// checkProgress compares the word for the checks of a handoff with their results.
func (v *verifier) checkProgress(r hub.Reader, id hub.HandoffID) error {
	p, err := r.Checks().Progress(string(id))
	if err != nil || p.Checks != hub.ChecksPassed {
		return err
	}
	passed := len(p.Results) > 0
	for _, result := range p.Results {
		c, err := r.Checks().Result(result)
		if err != nil && hub.CodeOf(err) != hub.CodeNotFound {
			return err
		}
		passed = passed && c.State == hub.ResultPassed && c.Tree == p.Tree
	}
	if !passed {
		v.find("handoff "+string(id), "its checks are recorded as passed, but not all of their results are")
	}
	return nil
}

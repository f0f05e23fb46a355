package contract

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
)

// A Gate says what Check asks for.
type Gate struct {
	Project hub.ProjectID
	Repo    string             // name; "" for every contract of the project
	Require hub.ContractStatus // agreed, implemented or verified; default agreed
}

// A Verdict is the answer of Check.
type Verdict struct {
	OK       bool      `json:"ok"`
	Checked  int       `json:"checked"` // contracts that the repository takes part in
	Failures []Failure `json:"failures"`
}

// A Failure is a contract that has not come far enough.
type Failure struct {
	Contract hub.ContractID     `json:"contractId"`
	Name     string             `json:"name"`
	Version  int                `json:"version"`
	Status   hub.ContractStatus `json:"status"`
	Reason   string             `json:"reason"`
}

// Check is the gate for CI and merge: whether every contract that a repository
// takes part in has come far enough, and which have not and why.
func (s *Service) Check(ctx context.Context, _ hub.Caller, g Gate) (Verdict, error) {
	const op = "contract.Check"
	if g.Require == "" {
		g.Require = hub.ContractAgreed
	}
	if !slices.Contains([]hub.ContractStatus{hub.ContractAgreed, hub.ContractImplemented, hub.ContractVerified}, g.Require) {
		return Verdict{}, hub.Errorf(hub.CodeInvalid, op, "require: %q is not agreed, implemented or verified", g.Require)
	}
	out := Verdict{OK: true, Failures: []Failure{}}
	err := s.store.View(ctx, func(r hub.Reader) error {
		p, err := project(r, op, g.Project)
		if err != nil {
			return err
		}
		if _, ok := p.RepoNamed(g.Repo); g.Repo != "" && !ok {
			return hub.Errorf(hub.CodeNotFound, op, "Repository %s not found in project %s", g.Repo, p.ID)
		}
		return eachContract(r, p.ID, func(c hub.Contract) error {
			if g.Repo != "" && !slices.ContainsFunc(c.Parties(p), func(r hub.Repo) bool { return r.Name == g.Repo }) {
				return nil
			}
			out.Checked++
			if c.Status.Reaches(g.Require) {
				return nil
			}
			out.OK = false
			out.Failures = append(out.Failures, Failure{Contract: c.ID, Name: c.Name, Version: c.Version, Status: c.Status, Reason: lacks(c, p)})
			return nil
		})
	})
	return out, err
}

// lacks says what keeps a contract from going on.
func lacks(c hub.Contract, p hub.Project) string {
	var waiting []hub.Repo
	what := ""
	switch c.Status {
	case hub.ContractProposed, hub.ContractNegotiating:
		what, waiting = "nobody has agreed to this version", c.Dissenting(p)
		if len(waiting) > 0 {
			what = "not agreed by"
		}
	case hub.ContractAgreed:
		what, waiting = "not completed by", c.Pending(p)
	case hub.ContractImplemented:
		return "nobody has verified it"
	}
	if len(waiting) == 0 {
		return what
	}
	names := make([]string, len(waiting))
	for i, r := range waiting {
		names[i] = r.Name
	}
	return fmt.Sprintf("%s %s", what, strings.Join(names, ", "))
}

// pageSize is how many things are read at a time where all are needed.
const pageSize = 200

// eachContract calls fn with every contract of a project by id, without History
// and Conflicts.
func eachContract(r hub.Reader, id hub.ProjectID, fn func(hub.Contract) error) error {
	for after := hub.ContractID(""); ; {
		found, err := r.Contracts(hub.ContractQuery{Project: id, After: after, Limit: pageSize})
		if err != nil {
			return err
		}
		for _, c := range found {
			if err := fn(c); err != nil {
				return err
			}
		}
		if len(found) < pageSize {
			return nil
		}
		after = found[len(found)-1].ID
	}
}

package contract

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/federation"
)

// A Gate is the requirement of a Check.
type Gate struct {
	InProject
	Repo    string               `json:"repoName,omitempty"` // "" for every contract of the project
	Require coord.ContractStatus `json:"require,omitempty"`  // agreed, implemented or verified; default agreed

	AllowNone bool `json:"allowNone,omitempty"` // a check of no contracts succeeds
}

// A Verdict is the answer of Check.
type Verdict struct {
	OK       bool      `json:"ok"`
	Checked  int       `json:"checked"` // contracts that the repository is a party of, and those that were not delivered
	Failures []Failure `json:"failures"`

	Asked []string `json:"-"` // the contracts that are here, by name and version: User@2
}

// A Failure is a contract that lacks the required status.
type Failure struct {
	Contract coord.ContractID     `json:"contractId"`
	Name     string               `json:"name"`
	Version  int                  `json:"version"`
	Status   coord.ContractStatus `json:"status"`
	Reason   string               `json:"reason"` // completes the sentence that the contract is ...
}

// Check is the gate for CI and merge: whether every contract that a repository is a
// party of has the required status, and which have not and why. A check of no contracts
// fails unless the gate allows it: it would pass for a wrong project, too.
func (s *Service) Check(ctx context.Context, _ hub.Caller, g Gate) (Verdict, error) {
	const op = "contract.Check"
	if g.Require == "" {
		g.Require = coord.ContractAgreed
	}
	if !slices.Contains([]coord.ContractStatus{coord.ContractAgreed, coord.ContractImplemented, coord.ContractVerified}, g.Require) {
		return Verdict{}, hub.Errorf(hub.CodeInvalid, op, "require must be agreed, implemented or verified, got %q", g.Require)
	}

	return readIn(ctx, s, op, g.Project, func(r hub.Reader, p coord.Project) (Verdict, error) {
		out := Verdict{OK: true, Failures: []Failure{}}
		if _, ok := p.RepoNamed(g.Repo); g.Repo != "" && !ok {
			return out, hub.Errorf(hub.CodeNotFound, op, "Repository %s not found in project %s", g.Repo, p.ID)
		}

		undelivered, err := undelivered(r, p.ID)
		if err != nil {
			return out, err
		}

		// A contract with an undelivered change fails in every status.
		err = s.eachContract(r, p.ID, func(c coord.Contract) error {
			if g.Repo != "" && !slices.ContainsFunc(c.Parties(p), func(r coord.Repo) bool { return r.Name == g.Repo }) {
				return nil
			}
			out.Checked++
			out.Asked = append(out.Asked, fmt.Sprintf("%s@%d", c.Name, c.Version))
			reason, failed := undelivered[string(c.ID)]
			delete(undelivered, string(c.ID))
			if !failed && !c.Status.Reaches(g.Require) {
				reason, failed = waitsFor(c, p), true
			}
			if failed {
				out.OK = false
				out.Failures = append(out.Failures, Failure{Contract: c.ID, Name: c.Name, Version: c.Version, Status: c.Status, Reason: reason})
			}
			return nil
		})

		for _, id := range slices.Sorted(maps.Keys(undelivered)) { // of contracts that are not here
			out.Checked++
			out.OK = false
			out.Failures = append(out.Failures, Failure{Contract: coord.ContractID(id), Name: id, Reason: undelivered[id]})
		}

		out.OK = out.OK && (out.Checked > 0 || g.AllowNone)
		return out, err
	})
}

// undelivered returns the contracts of a project, by id, that an approved peer did not
// take, or that this hub did not take from it, since the last complete comparison with
// it began, with a reason for each. A guest that only reads contracts does not count.
func undelivered(r hub.Reader, project coord.ProjectID) (map[string]string, error) {
	peers, err := r.Peers()
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, peer := range peers {
		if peer.State != hub.PeerApproved || !peer.WorksOnContracts(project) {
			continue
		}
		dead, err := federation.LiveDeadLetters(r, peer.AID)
		if err != nil {
			return nil, err
		}
		for _, d := range dead {
			if d.Change.Project != project || d.Change.Kind != hub.ChangeContract {
				continue
			}
			reason := "not delivered to "
			if d.Change.Origin == peer.AID {
				reason = "not accepted from "
			}
			out[d.Change.Object] = fmt.Sprintf("%s%s: %s (parley peer sync %[2]s compares again, parley peer remove %[2]s ends the exchange)", reason, peer.AID, d.Fault)
		}
	}
	return out, nil
}

// waitsFor completes the sentence that a contract is ...: the status that is missing,
// and the repositories that it waits for.
func waitsFor(c coord.Contract, p coord.Project) string {
	switch c.Status {
	case coord.ContractProposed, coord.ContractNegotiating:
		if missing := c.Dissenting(p); len(missing) > 0 {
			return "not agreed yet: waiting for " + names(missing, " and ")
		}
		others := slices.DeleteFunc(slices.Clone(c.Parties(p)), func(r coord.Repo) bool { return r.ID == c.ProposedBy })
		if len(others) == 0 {
			return "not agreed yet: no other repository is in the project"
		}
		return "not agreed yet: waiting for " + names(others, " or ")
	case coord.ContractAgreed:
		if missing := c.Pending(p); len(missing) > 0 {
			return "not implemented yet: waiting for " + names(missing, " and ")
		}
		return "not implemented yet"
	}
	return "not verified yet: waiting for a verification"
}

// names joins the names of repositories.
func names(repos []coord.Repo, last string) string {
	var all []string
	for _, r := range repos {
		all = append(all, r.Name)
	}
	if n := len(all); n > 1 {
		all = append(all[:n-2], all[n-2]+last+all[n-1])
	}
	return strings.Join(all, ", ")
}

// pageSize is the largest page of contracts, and the number of them per read where all
// are needed.
const pageSize = 200

// pageOf returns the number of things per read where all are needed.
func (s *Service) pageOf(usual int) int { return cmp.Or(s.o.Page, usual) }

// eachContract calls fn with every contract of a project by id, without History
// and Conflicts.
func (s *Service) eachContract(r hub.Reader, id coord.ProjectID, fn func(coord.Contract) error) error {
	for after := coord.ContractID(""); ; {
		found, err := r.Coordination().Contracts(coord.ContractQuery{Project: id, After: after, Limit: s.pageOf(pageSize)})
		if err != nil {
			return err
		}
		for _, c := range found {
			if err := fn(c); err != nil {
				return err
			}
		}
		if len(found) < s.pageOf(pageSize) {
			return nil
		}
		after = found[len(found)-1].ID
	}
}

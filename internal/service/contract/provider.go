package contract

import (
	"cmp"
	"context"
	"slices"

	"github.com/parley-agents/parley/compat"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/federation"
)

// A ProviderChange asks that a repository provides a contract from now on, or consents to that.
type ProviderChange struct {
	InContract
	As
	Provider string `json:"provider"`            // name of the repository
	Flow     string `json:"direction,omitempty"` // request, response or both; "" leaves it as it is
}

// A Provided says who provides a contract, and which words a change of that still needs.
type Provided struct {
	Contract  string   `json:"contract"` // its name
	ID        string   `json:"contract_id"`
	Provider  string   `json:"provider"` // now
	Direction string   `json:"direction"`
	Wanted    string   `json:"wanted,omitempty"` // the next provider, while words are missing
	Asked     []string `json:"asked"`
	Missing   []string `json:"missing"`
}

// Provide asks the present provider of a contract and each of its consumers whether another
// repository provides it from now on, perhaps in another direction. The word of the caller's
// repository counts at once; the operator's stands for all that are missing.
func (s *Service) Provide(ctx context.Context, caller hub.Caller, q ProviderChange) (Provided, error) {
	const op = "contract.Provide"
	if err := required(op, "contractId", string(q.Contract), "provider", q.Provider); err != nil {
		return Provided{}, err
	}
	if q.Flow != "" && !slices.Contains(compat.Directions, compat.Direction(q.Flow)) {
		return Provided{}, unknownFlow(op, q.Flow)
	}

	var out Provided
	err := s.inProject(ctx, op, caller, q.Project, q.As, coord.PermitRespond, func(se *session, p coord.Project, by coord.Repo) error {
		was, err := liveContract(se.tx, op, p.ID, q.Contract)
		if err != nil {
			return err
		}
		next, ok := p.RepoNamed(q.Provider)
		if !ok {
			return unknownRepo(op, p, q.Provider)
		}
		if by.ID != "" {
			if err := s.mayAnswer(op, caller, by); err != nil {
				return err
			}
		}

		c, err := se.withWords(op, p, by, was, coord.Handover{Provider: next.ID, Direction: changedFlow(was, q.Flow), By: cmp.Or(by.ID, next.ID)})
		if err == nil && !sameTerms(was.Terms, c.Terms) {
			if err = federation.Check(c); err == nil {
				err = se.tx.WriteCoordination().PutContract(c, was)
			}
			if err == nil {
				err = se.recordContract(actions.ContractHandedOver, p, by, was, c, handoverEvent(p, c))
			}
		}
		out = providedOf(p, c)
		return err
	})
	return out, err
}

// inProject runs fn like act. The operator need not speak for a repository; by is zero then.
func (s *Service) inProject(ctx context.Context, op string, caller hub.Caller, id coord.ProjectID, as As, need coord.Permission, fn func(*session, coord.Project, coord.Repo) error) error {
	if !caller.IsOperator() {
		return s.act(ctx, op, caller, id, as, need, fn)
	}
	return s.update(ctx, caller, "", func(se *session) error {
		p, err := project(se.tx, op, id)
		if err != nil {
			return err
		}
		return fn(se, p, coord.Repo{})
	})
}

// withWords returns a contract with a handover and the words of the caller. A handover that is
// already wanted, or done, is not begun again.
func (se *session) withWords(op string, p coord.Project, by coord.Repo, c coord.Contract, h coord.Handover) (coord.Contract, error) {
	isDone := c.Terms.Provider == h.Provider && h.Direction == ""
	if isDone {
		return c, nil
	}
	now := c.Terms.WrittenAt
	known := c.Terms.Handover
	if known != nil {
		now = later(now, known.At)
	}
	for _, w := range c.Terms.Words {
		now = later(now, w.At)
	}
	now = now.After(se.s.o.Clock)
	isWanted := known != nil && known.Provider == h.Provider && known.Direction == h.Direction && len(c.MissingWords()) > 0
	if !isWanted {
		h.At = now
		c.Terms.Handover = &h
	}

	mine := []coord.RepoID{by.ID}
	if se.caller.IsOperator() {
		mine = c.MissingWords()
	}
	for _, id := range mine {
		if !slices.Contains(c.HandoverParties(), id) {
			return c, hub.Errorf(hub.CodeDenied, op, "%s neither provides nor uses %s, so its word does not count", by.Name, c.Name).
				WithHint("its words are those of %s", names(reposOf(p, c.HandoverParties()), " and "))
		}
		c.Terms.Words = mergeWords(c.Terms.Words, []coord.Word{{Repo: id, Agent: se.agent(), Provider: h.Provider, Direction: h.Direction, At: now}})
	}
	return advance(c, p), nil
}

// handoverEvent names the state of a handover in notices.
func handoverEvent(p coord.Project, c coord.Contract) string {
	next := repoName(p, c.Terms.Handover.Provider)
	if missing := reposOf(p, c.MissingWords()); len(missing) > 0 {
		return next + " is to provide it; waiting for " + names(missing, " and ")
	}
	return "provided by " + next + " now"
}

// providedOf describes the provider of a contract.
func providedOf(p coord.Project, c coord.Contract) Provided {
	out := Provided{
		Contract: c.Name, ID: string(c.ID), Provider: repoName(p, c.Terms.Provider), Direction: flowOf(c), Asked: []string{}, Missing: []string{},
	}
	isOpen := c.Terms.Handover != nil && c.Terms.WrittenAt.Compare(c.Terms.Handover.At) < 0
	if !isOpen {
		return out
	}
	out.Wanted = repoName(p, c.Terms.Handover.Provider)
	for _, r := range reposOf(p, c.HandoverParties()) {
		out.Asked = append(out.Asked, r.Name)
	}
	for _, r := range reposOf(p, c.MissingWords()) {
		out.Missing = append(out.Missing, r.Name)
	}
	return out
}

// reposOf returns the repositories of a project with some ids.
func reposOf(p coord.Project, ids []coord.RepoID) (out []coord.Repo) {
	for _, id := range ids {
		if r, ok := p.Repo(id); ok {
			out = append(out, r)
		}
	}
	return out
}

// flowOf returns the direction of a contract, which follows from its type unless it was named.
func flowOf(c coord.Contract) string {
	byType := compat.Both
	if c.Type == coord.ContractEvent {
		byType = compat.Response
	}
	return cmp.Or(c.Terms.Direction, string(byType))
}

// changedFlow returns a direction that is not that of a contract, else "".
func changedFlow(c coord.Contract, flow string) string {
	if flow == flowOf(c) {
		return ""
	}
	return flow
}

// judgedTerms returns the terms with which an update is judged: while another direction is wanted,
// the stricter of both, which is both ways.
func judgedTerms(t coord.Terms) coord.Terms {
	isOpen := t.Handover != nil && t.Handover.Direction != "" && t.WrittenAt.Compare(t.Handover.At) < 0
	if isOpen {
		t.Direction = string(compat.Both)
	}
	return t
}

// checkSame reports CodeConflict for an update that names another provider, direction or format
// than its contract has: they belong to the contract, not to a version. content is the format of
// the next content.
func (d Direction) checkSame(op string, p coord.Project, by coord.Repo, c coord.Contract, content compat.Format) error {
	belongs := func(what, is, named string) *hub.Error {
		return hub.Errorf(hub.CodeConflict, op, "the %s of %s is %s, not %.100q: it belongs to the contract and an update cannot change it", what, c.Name, is, named)
	}
	if named := d.by(by).Provider; named != "" {
		r, ok := p.RepoNamed(named)
		if !ok {
			r, ok = p.Repo(coord.RepoID(named))
		}
		if !ok {
			return unknownRepo(op, p, named)
		}
		if r.ID != c.Terms.Provider {
			is := cmp.Or(repoName(p, c.Terms.Provider), "not set")
			return belongs("provider", is, r.Name).WithHint("ask the provider and each consumer: {contract.provider} %s %s", c.ID, r.Name)
		}
	}
	if d.Flow != "" && changedFlow(c, d.Flow) != "" {
		return belongs("direction", flowOf(c), d.Flow).
			WithHint("ask the provider and each consumer: {contract.provider} %s %s %s", c.ID, cmp.Or(repoName(p, c.Terms.Provider), by.Name), d.Flow)
	}
	if format := cmp.Or(c.Terms.Format, string(content)); d.Format != "" && d.Format != format {
		return belongs("format", format, d.Format).WithHint("propose a new contract for another format")
	}
	return nil
}

// unknownFlow is the error of a direction that does not exist.
func unknownFlow(op, flow string) error {
	return hub.Errorf(hub.CodeInvalid, op, "unknown direction %.50q: use request, response or both", flow)
}

// unknownRepo is the error of a repository that a project does not have.
func unknownRepo(op string, p coord.Project, name string) error {
	return hub.Errorf(hub.CodeNotFound, op, "Repository %.200s not found in project %s", name, p.ID).
		WithHint("its repositories are %s", names(p.Repos, " and "))
}

package contract

import (
	"context"
	"slices"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
)

// Contract returns a contract, with History and Conflicts if asked for.
func (s *Service) Contract(ctx context.Context, caller hub.Caller, id coord.ProjectID, contractID coord.ContractID, history bool) (coord.Contract, error) {
	const op = "contract.Contract"
	got, err := readIn(ctx, s, op, id, func(r hub.Reader, _ coord.Project) (coord.Contract, error) {
		c, err := contract(r, op, id, contractID)
		if err != nil || !history {
			return c, err
		}
		return withVersions(r, c)
	})
	if err == nil {
		err = s.noteFetched(ctx, caller, got)
	}
	return got, err
}

// Contracts returns contracts by id, without History and Conflicts.
func (s *Service) Contracts(ctx context.Context, _ hub.Caller, q coord.ContractQuery) ([]coord.Contract, error) {
	const op = "contract.Contracts"
	var err error
	if q.Limit, err = page(op, q.Limit, pageSize); err != nil {
		return nil, err
	}
	switch {
	case q.Status != "" && !q.Status.Known():
		return nil, hub.Errorf(hub.CodeInvalid, op, "unknown status %q: use %s", q.Status, hub.JoinWords(coord.ContractStatuses))
	case q.Type != "" && !q.Type.Known():
		return nil, hub.Errorf(hub.CodeInvalid, op, "unknown contract type %q: use %s", q.Type, hub.JoinWords(coord.ContractTypes))
	}
	return hub.Read(ctx, s.store, func(r hub.Reader) ([]coord.Contract, error) { return r.Coordination().Contracts(q) })
}

// A Conflict is a contract with the contents and the moves that lost in a merge.
type Conflict struct {
	Contract coord.Contract          `json:"contract"`
	Lost     []coord.ContractVersion `json:"lost"`  // newest version first
	Moves    []coord.Stamp           `json:"moves"` // of the present version, oldest first
}

// Conflicts are the conflicts of a project.
type Conflicts struct {
	Members   []coord.Stamp `json:"members"` // writes of the project's own members that lost
	Contracts []Conflict    `json:"conflicts"`
}

// Conflicts returns the conflicts of a project: those of its members, and contracts
// with conflicts by id, beginning after one.
func (s *Service) Conflicts(ctx context.Context, _ hub.Caller, id coord.ProjectID, after coord.ContractID, limit int) (Conflicts, error) {
	const op = "contract.Conflicts"
	limit, err := page(op, limit, pageSize)
	if err != nil {
		return Conflicts{}, err
	}
	return readIn(ctx, s, op, id, func(r hub.Reader, p coord.Project) (Conflicts, error) {
		found, err := r.Coordination().Contracts(coord.ContractQuery{Project: id, Conflicted: true, After: after, Limit: limit})
		out := Conflicts{slices.Concat([]coord.Stamp{}, p.Stamps.Lost()), make([]Conflict, len(found))}
		for i, c := range found {
			out.Contracts[i] = Conflict{Contract: c, Lost: []coord.ContractVersion{}, Moves: slices.Concat([]coord.Stamp{}, c.Stamps.Lost())}
			if err == nil {
				var lost []coord.ContractVersion
				_, lost, err = r.Coordination().Versions(id, c.ID)
				out.Contracts[i].Lost = append(out.Contracts[i].Lost, lost...)
			}
		}
		return out, err
	})
}

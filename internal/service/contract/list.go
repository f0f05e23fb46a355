package contract

import (
	"context"
	"slices"

	"github.com/parley-agents/parley/hub"
)

// Contract returns a contract, with History and Conflicts if asked for.
func (s *Service) Contract(ctx context.Context, _ hub.Caller, id hub.ProjectID, contractID hub.ContractID, history bool) (hub.Contract, error) {
	const op = "contract.Contract"
	return readIn(ctx, s, op, id, func(r hub.Reader, _ hub.Project) (hub.Contract, error) {
		c, err := contract(r, op, id, contractID)
		if err != nil || !history {
			return c, err
		}
		return withVersions(r, c)
	})
}

// Contracts returns contracts by id, without History and Conflicts.
func (s *Service) Contracts(ctx context.Context, _ hub.Caller, q hub.ContractQuery) ([]hub.Contract, error) {
	const op = "contract.Contracts"
	var err error
	if q.Limit, err = page(op, q.Limit, pageSize); err != nil {
		return nil, err
	}
	switch {
	case q.Status != "" && !q.Status.Known():
		return nil, hub.Errorf(hub.CodeInvalid, op, "status: %q is not one of %v", q.Status, hub.ContractStatuses)
	case q.Type != "" && !q.Type.Known():
		return nil, hub.Errorf(hub.CodeInvalid, op, "type: %q is not one of %v", q.Type, hub.ContractTypes)
	}
	return hub.Read(ctx, s.store, func(r hub.Reader) ([]hub.Contract, error) { return r.Contracts(q) })
}

// A Conflict is a contract with the contents and the moves that lost in a merge.
type Conflict struct {
	Contract hub.Contract          `json:"contract"`
	Lost     []hub.ContractVersion `json:"lost"`  // newest version first
	Moves    []hub.Stamp           `json:"moves"` // of the present version, oldest first
}

// Conflicts are the conflicts of a project.
type Conflicts struct {
	Members   []hub.Stamp `json:"members"` // writes of the project's own members that lost
	Contracts []Conflict  `json:"conflicts"`
}

// Conflicts returns the conflicts of a project: those of its members, and contracts
// with conflicts by id, beginning after one.
func (s *Service) Conflicts(ctx context.Context, _ hub.Caller, id hub.ProjectID, after hub.ContractID, limit int) (Conflicts, error) {
	const op = "contract.Conflicts"
	limit, err := page(op, limit, pageSize)
	if err != nil {
		return Conflicts{}, err
	}
	return readIn(ctx, s, op, id, func(r hub.Reader, p hub.Project) (Conflicts, error) {
		found, err := r.Contracts(hub.ContractQuery{Project: id, Conflicted: true, After: after, Limit: limit})
		out := Conflicts{slices.Concat([]hub.Stamp{}, p.Stamps.Lost()), make([]Conflict, len(found))}
		for i, c := range found {
			out.Contracts[i] = Conflict{Contract: c, Lost: []hub.ContractVersion{}, Moves: slices.Concat([]hub.Stamp{}, c.Stamps.Lost())}
			if err == nil {
				var lost []hub.ContractVersion
				_, lost, err = r.Versions(id, c.ID)
				out.Contracts[i].Lost = append(out.Contracts[i].Lost, lost...)
			}
		}
		return out, err
	})
}

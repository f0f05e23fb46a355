package contract

import (
	"context"

	"github.com/parley-agents/parley/hub"
)

// Contract returns a contract, with History and Conflicts if asked for.
func (s *Service) Contract(ctx context.Context, _ hub.Caller, id hub.ProjectID, contractID hub.ContractID, history bool) (hub.Contract, error) {
	const op = "contract.Contract"
	var c hub.Contract
	err := s.store.View(ctx, func(r hub.Reader) (err error) {
		if _, err = project(r, op, id); err != nil {
			return err
		}
		if c, err = contract(r, op, id, contractID); err == nil && history {
			c, err = withVersions(r, c)
		}
		return err
	})
	return c, err
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
	var out []hub.Contract
	err = s.store.View(ctx, func(r hub.Reader) (err error) {
		out, err = r.Contracts(q)
		return err
	})
	return out, err
}

// A Conflict is a contract with the contents that lost in a merge.
type Conflict struct {
	Contract hub.Contract          `json:"contract"`
	Lost     []hub.ContractVersion `json:"lost"` // newest version first
}

// Conflicts returns the contracts of a project with conflicts, by id, beginning after
// one.
func (s *Service) Conflicts(ctx context.Context, _ hub.Caller, id hub.ProjectID, after hub.ContractID, limit int) ([]Conflict, error) {
	const op = "contract.Conflicts"
	limit, err := page(op, limit, pageSize)
	if err != nil {
		return nil, err
	}
	var out []Conflict
	err = s.store.View(ctx, func(r hub.Reader) error {
		if _, err := project(r, op, id); err != nil {
			return err
		}
		found, err := r.Contracts(hub.ContractQuery{Project: id, Conflicted: true, After: after, Limit: limit})
		if err != nil {
			return err
		}
		out = make([]Conflict, 0, len(found))
		for _, c := range found {
			_, lost, err := r.Versions(id, c.ID)
			if err != nil {
				return err
			}
			out = append(out, Conflict{c, lost})
		}
		return nil
	})
	return out, err
}

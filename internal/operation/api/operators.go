package api

import (
	"context"

	"github.com/parley-agents/parley/hub"
)

// OperatorParams name an operator besides the hub's owner.
type OperatorParams struct {
	Name string `json:"name"`
}

// An OperatorKey is a new operator's key, which is shown once.
type OperatorKey struct {
	Name string `json:"name"`
	Key  string `json:"key"`
}

// An OperatorList lists the operators' keys that are valid.
type OperatorList struct {
	Operators []OperatorRow `json:"operators"`
}

// An OperatorRow is one key of an operator. The owner's key has no name.
type OperatorRow struct {
	Name  string   `json:"name,omitempty"`
	Hint  string   `json:"hint"` // the key's last four characters
	Since hub.Time `json:"since,omitzero"`
}

func operatorList(ctx context.Context, s *Services, a hub.Caller, _ None) (OperatorList, error) {
	keys, err := s.Keys.Operators(ctx, a)
	out := OperatorList{[]OperatorRow{}}
	for _, k := range keys {
		holder := hub.Caller{Kind: hub.CallerOperator, ID: hub.Operator, Key: k.ID}
		out.Operators = append(out.Operators, OperatorRow{holder.Person(), k.Hint, k.CreatedAt})
	}
	return out, err
}

func operatorAdd(ctx context.Context, s *Services, a hub.Caller, p OperatorParams) (OperatorKey, error) {
	key, secret, err := s.Keys.AddOperator(ctx, a, p.Name)
	return OperatorKey{key.Label, secret}, err
}

func operatorRemove(ctx context.Context, s *Services, a hub.Caller, p OperatorParams) (OperatorParams, error) {
	return p, s.Keys.RemoveOperator(ctx, a, p.Name)
}

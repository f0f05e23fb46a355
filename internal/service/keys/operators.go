package keys

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
)

// revokeHomeKeys revokes the operator's keys that lay in the hub's home before. Those
// of named operators stay valid.
func revokeHomeKeys(tx hub.Tx, now hub.Time) error {
	keys, err := tx.Keys(hub.Operator)
	for _, k := range keys {
		if err == nil && k.RevokedAt.IsZero() && strings.HasPrefix(k.Label, hub.HomeKeyLabel) {
			_, err = tx.RevokeKeys(hub.Operator, k.Label, now)
		}
	}
	return err
}

// AddOperator makes a key for a person who operates the hub besides its owner. The
// journal names the person in the entries of that key. Only an
// operator may.
func (s *Service) AddOperator(ctx context.Context, actor hub.Caller, name string) (hub.Key, string, error) {
	const op = "keys.AddOperator"
	if err := actor.OperatorOnly(op); err != nil {
		return hub.Key{}, "", err
	}
	if !hub.AgentID(name).Valid() {
		return hub.Key{}, "", hub.Errorf(hub.CodeInvalid, op, "%q is not a valid operator name", name).
			WithHint("use 1 to 64 characters from a-z, 0-9, dot, dash and underscore, starting with a letter or digit")
	}

	key, secret, err := s.makeKey(NewKey{Agent: hub.Operator, Label: name})
	if err != nil {
		return hub.Key{}, "", err
	}

	// The name is the label of the key: a live key with that label is of the same person.
	err = s.update(ctx, "key for the operator "+name, func(tx hub.Tx) error {
		live, err := liveOperators(tx, key.CreatedAt)
		switch {
		case err != nil:
			return err
		case slices.ContainsFunc(live, func(k hub.Key) bool { return k.Label == name }):
			return hub.Errorf(hub.CodeConflict, op, "%s is already an operator", name).
				WithHint("to get a new key, remove the old one first: parley hub operator remove %s", name)
		case len(live) >= maxKeys:
			return hub.Errorf(hub.CodeConflict, op, "the hub already has %d operators", len(live))
		}
		return addKey(tx, actor, key)
	})
	if err != nil {
		return hub.Key{}, "", err
	}
	return key, secret, nil
}

// Operators returns the keys of operators that are valid now. Only an operator may.
func (s *Service) Operators(ctx context.Context, actor hub.Caller) ([]hub.Key, error) {
	if err := actor.OperatorOnly("keys.Operators"); err != nil {
		return nil, err
	}
	return s.operators(ctx)
}

func (s *Service) operators(ctx context.Context) ([]hub.Key, error) {
	live, err := hub.Read(ctx, s.store, func(r hub.Reader) ([]hub.Key, error) { return liveOperators(r, s.clock.Now()) })
	if err != nil {
		return nil, fmt.Errorf("keys: read the operators: %w", err)
	}
	return live, nil
}

func liveOperators(r hub.Reader, now hub.Time) ([]hub.Key, error) {
	keys, err := r.Keys(hub.Operator)
	return slices.DeleteFunc(keys, func(k hub.Key) bool { return !k.Live(now) }), err
}

// OperatorHashes returns the hashes of the operators' keys that are valid now.
func (s *Service) OperatorHashes(ctx context.Context) ([]string, error) {
	live, err := s.operators(ctx)
	var out []string
	for _, k := range live {
		out = append(out, k.Hash)
	}
	return out, err
}

// RemoveOperator revokes the key of a named operator. Only an operator may.
func (s *Service) RemoveOperator(ctx context.Context, actor hub.Caller, name string) error {
	const op = "keys.RemoveOperator"
	if err := actor.OperatorOnly(op); err != nil {
		return err
	}
	if strings.HasPrefix(name, hub.HomeKeyLabel) || name == "" {
		return hub.Errorf(hub.CodeInvalid, op, "%q is not a valid operator name", name)
	}
	return s.update(ctx, "remove the operator "+name, func(tx hub.Tx) error {
		n, err := revoke(tx, actor, hub.Operator, name, s.clock.Now())
		if err == nil && n == 0 {
			err = hub.Errorf(hub.CodeNotFound, op, "no operator named %s", name).WithHint("parley hub operator shows the operators")
		}
		return err
	})
}

package keys

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
)

// DefaultWindow is the name of a window that was given none.
const DefaultWindow = "editor"

// MintWindow makes the key of a window of an agent: with it a program of the operator shows the
// agent, prompts it and answers its questions, and does nothing else. name says which program it
// is, for the journal. Only the operator may.
func (s *Service) MintWindow(ctx context.Context, actor hub.Caller, agent hub.AgentID, name string) (hub.Key, string, error) {
	const op = "keys.MintWindow"
	if err := actor.OperatorOnly(op); err != nil {
		return hub.Key{}, "", err
	}
	keys, err := hub.Read(ctx, s.store, func(r hub.Reader) ([]hub.Key, error) { return r.Keys(agent) })
	if err != nil {
		return hub.Key{}, "", err
	}

	// The name is the label of the key, which two keys of an agent cannot share, even if one of
	// them is revoked.
	taken := func(name string) bool {
		return slices.ContainsFunc(keys, func(k hub.Key) bool { return k.Label == hub.WindowKeyLabel+name })
	}
	if name == "" {
		name = DefaultWindow
		for n := 2; taken(name); n++ {
			name = fmt.Sprintf("%s-%d", DefaultWindow, n)
		}
	}
	switch {
	case !hub.AgentID(name).Valid():
		return hub.Key{}, "", hub.Errorf(hub.CodeInvalid, op, "%q is not a valid window name", name).
			WithHint("use 1 to 64 characters from a-z, 0-9, dot, dash and underscore, starting with a letter or digit")
	case taken(name):
		return hub.Key{}, "", hub.Errorf(hub.CodeConflict, op, "%s already has a window named %s, or had one", agent, name).
			WithHint("choose another name: parley agent window %s --label NAME", agent)
	}
	return s.mint(ctx, actor, NewKey{Agent: agent, Label: hub.WindowKeyLabel + name})
}

// notOfWindow refuses a key of an agent itself whose label is that of a window.
func notOfWindow(op string, k NewKey) error {
	if !strings.HasPrefix(k.Label, hub.WindowKeyLabel) {
		return nil
	}
	return hub.Errorf(hub.CodeInvalid, op, "labels that start with %q are reserved for windows", hub.WindowKeyLabel).
		WithHint("parley agent window %s makes the key of a window", k.Agent)
}

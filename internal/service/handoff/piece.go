package handoff

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/parley-agents/parley/hub"
)

// Work returns the work of a handoff that the actor may see, as its landing needs it. A handoff whose text is
// withheld from the actor has no text.
func (s *Service) Work(ctx context.Context, actor hub.Caller, id hub.HandoffID) (hub.HandoffWork, error) {
	r, err := s.Show(ctx, actor, id)
	if err != nil {
		return hub.HandoffWork{}, err
	}
	return hub.HandoffWork{
		From: r.From, To: r.To, Title: r.Title, Restricted: r.Restricted, Package: r.Package, Commit: r.Commit,
		Attribution: r.Attribution, Ending: r.Ending, Proof: r.Proof, ResolvedAt: r.ResolvedAt,
	}, nil
}

// OpenWork returns the open handoffs of an agent, for a session that knows nothing of
// them.
// It is a text for the model, at most twenty lines of it, and "" without open work.
func (s *Service) OpenWork(ctx context.Context, agent hub.AgentID) (string, error) {
	open, err := s.List(ctx, hub.Caller{Kind: hub.CallerAgent, ID: agent}, hub.HandoffQuery{To: agent, States: hub.ActiveHandoffs, Limit: 20}, true)
	if err != nil || len(open.Handoffs) == 0 {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "[parley] This is a new session of %s. Its open work:\n", agent)
	err = s.store.View(ctx, func(r hub.Reader) error {
		for _, h := range open.Handoffs {
			short, err := r.ShortID(string(h.ID))
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "- handoff %s, %s, from %s: %s\n", cmp.Or(string(short), string(h.ID)), h.Status, h.From, h.Title)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	b.WriteString("The handoff tool of parley (acp_handoff) shows each of them.")
	return b.String(), nil
}

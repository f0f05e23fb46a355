package records_test

import (
	"context"
	"fmt"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/continuation"
)

// A workbench is one working tree that is different each time it is kept, with agents that nobody
// runs.
type workbench struct {
	continuation.Agents
	continuation.Handoffs
	saved int
}

func (b *workbench) Save(_ context.Context, folder, name, _ string) (continuation.Saved, error) {
	b.saved++
	commit := fmt.Sprintf("commit-of-%d", b.saved)
	return continuation.Saved{Rescue: hub.Rescue{Copy: "/copy", Ref: name, Commit: commit, Base: "head", Folder: folder, Files: 1, Insertions: 2}, Tree: commit}, nil
}

func (b *workbench) Drop(context.Context, hub.Rescue) error { return nil }

func (b *workbench) Names(context.Context) ([]hub.Rescue, error) { return nil, nil }

func (b *workbench) Apply(context.Context, hub.Rescue, string) (continuation.Applied, error) {
	return continuation.Applied{}, nil
}

func (b *workbench) Patch(context.Context, hub.Rescue, int) (string, bool, error) {
	return "", false, nil
}

func (b *workbench) Askers(_ hub.Reader, h hub.Handoff) ([]hub.AgentID, error) {
	return []hub.AgentID{h.From}, nil
}

func (b *workbench) Kept(context.Context, hub.AgentID) (continuation.Kept, bool, error) {
	return continuation.Kept{Folder: "/src"}, true, nil
}

// goOn has an agent stop twice in the middle of its task, and the operator drop the first rescue.
func (s *story) goOn(ctx context.Context) {
	s.t.Helper()
	b := &workbench{}
	c := continuation.New(s.store, continuation.Parts{Trees: b, Handoffs: b, Agents: b, Mail: s.mail}, &continuation.Options{Clock: s.clock})
	for _, reason := range []hub.ContinuationReason{hub.ContinueQuota, hub.ContinueClosed} {
		made, err := c.Stop(ctx, continuation.Cause{Agent: "bob", Reason: reason})
		s.must(made, err)
		if len(made) != 1 || made[0].Rescue == nil {
			s.t.Fatalf("got %+v", made)
		}
	}
	s.must(nil, c.Drop(ctx, operator, "s1"))
}

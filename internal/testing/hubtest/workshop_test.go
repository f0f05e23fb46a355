package hubtest_test

import (
	"context"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/continuation"
)

// A workshop is the working trees and the agents of a house: every tree has one changed file, and
// the hub runs no agent.
type workshop struct{}

func (workshop) Save(_ context.Context, _, name, _ string) (continuation.Saved, error) {
	return continuation.Saved{Rescue: hub.Rescue{Copy: "/copy", Ref: name, Commit: "c2", Base: "c1", Files: 1, Insertions: 1, Paths: []string{"a.go"}}, Tree: "t2"}, nil
}

func (workshop) Drop(context.Context, hub.Rescue) error { return nil }

func (workshop) Names(context.Context) ([]hub.Rescue, error) { return nil, nil }

func (workshop) Apply(context.Context, hub.Rescue, string) (continuation.Applied, error) {
	return continuation.Applied{Paths: []string{"a.go"}}, nil
}

func (workshop) Patch(context.Context, hub.Rescue, int) (string, bool, error) { return "", false, nil }

func (workshop) Kept(context.Context, hub.AgentID) (continuation.Kept, bool, error) {
	return continuation.Kept{Folder: "/src"}, false, nil
}

func (workshop) StandInName(_ context.Context, of hub.AgentID, cli string) (hub.AgentID, error) {
	return of + "-" + hub.AgentID(cli), nil
}

func (workshop) StandIn(context.Context, hub.AgentID, continuation.Program) error {
	return hub.Errorf(hub.CodeNotFound, "StandIn", "no agent")
}

func (workshop) Dismiss(context.Context, hub.AgentID) error { return nil }

func (workshop) Resume(context.Context, hub.AgentID, string) error { return nil }

func (workshop) Blocked(context.Context, hub.AgentID) string { return "" }

func (workshop) Off(context.Context, hub.AgentID) string { return "" }

func (workshop) Working(context.Context, hub.AgentID) bool { return false }

func (workshop) Closed(hub.Reader, hub.AgentID) (hub.Time, bool, error) {
	return hub.Time{}, false, nil
}

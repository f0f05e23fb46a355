package reservation_test

import "github.com/parley-agents/parley/hub"

// AddArtifactReader has no effect: the model reads no artifacts.
func (t memoryTx) AddArtifactReader(string, hub.AgentID) error { return nil }

// Teamspaces returns a reader of no teams.
func (t memoryTx) Teamspaces() hub.TeamReader { return noTeams{} }

// noTeams is the part of a store without teams.
type noTeams struct{ hub.TeamReader }

func (noTeams) Teams(hub.TeamQuery) ([]hub.Team, error) { return nil, nil }

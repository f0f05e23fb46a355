package api

import (
	"encoding/json"
	"slices"
	"testing"
)

// actionsOf returns the actions that a schema names.
func actionsOf(t *testing.T, schema string) []string {
	t.Helper()
	var s struct {
		Properties struct {
			Action struct{ Enum []string }
		}
	}
	if err := json.Unmarshal([]byte(schema), &s); err != nil {
		t.Fatal(err)
	}
	return s.Properties.Action.Enum
}

func TestSchemasNameActions(t *testing.T) {
	for _, action := range actionsOf(t, handoffSchema) {
		isOther := slices.Contains([]string{"list", "review", "land", "check", "run"}, action) // these have answers of their own
		if _, ok := handoffActions[action]; !ok && !isOther {
			t.Errorf("acp_handoff: the schema names the action %s, and there is none", action)
		}
	}

	// Agents use every action of a team.
	named := actionsOf(t, teamSchema)
	for _, action := range named {
		if _, ok := teamActions[action]; !ok && action != "list" {
			t.Errorf("acp_team: the schema names the action %s, and there is none", action)
		}
	}
	if len(named) != len(teamActions)+1 {
		t.Errorf("acp_team: the schema names %d actions, want %d and list", len(named), len(teamActions))
	}
}

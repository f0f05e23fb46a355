package launch

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/durable"
)

// Dir is the folder of a home with one record for each identity that launch has used, one
// folder for each launch that runs, and one file for each waiter.
const Dir = "launch"

// An Identity is the record of an agent that launch has used. It outlives the CLI.
type Identity struct {
	Agent   hub.AgentID `json:"agent"`
	CLI     string      `json:"cli"`
	Dir     string      `json:"dir"`
	Made    bool        `json:"made,omitempty"` // by launch, without --as: it is retired when it is not used
	Wake    *bool       `json:"wake,omitempty"` // the user's answer; nil before it was asked
	Last    hub.Time    `json:"last,omitzero"`  // the last start or end
	Process int         `json:"process"`        // of its last launch
	Program string      `json:"program"`        // the CLI's file in its last launch, see programOf
	Version string      `json:"version,omitempty"`

	Connected bool `json:"connected,omitempty"` // launch has written a permanent connection for it
}

// identityFile returns the file with the record of an agent.
func identityFile(home string, agent hub.AgentID) string {
	return filepath.Join(home, Dir, string(agent)+".json")
}

// Save writes the record into a home.
func (i Identity) Save(home string) error {
	raw, err := json.MarshalIndent(i, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(home, Dir), 0o700); err != nil {
		return err
	}
	return durable.WriteFile(identityFile(home, i.Agent), append(raw, '\n'), 0o600)
}

// Identities returns the records of a home, the one used last first. Files that cannot be
// read are left out.
func Identities(home string) []Identity {
	files, err := filepath.Glob(filepath.Join(home, Dir, "*.json"))
	if err != nil {
		return nil
	}
	var all []Identity
	for _, file := range files {
		var i Identity
		if raw, err := os.ReadFile(file); err == nil && json.Unmarshal(raw, &i) == nil && i.Agent.Valid() {
			all = append(all, i)
		}
	}
	slices.SortFunc(all, func(a, b Identity) int { return b.Last.Compare(a.Last.Time) })
	return all
}

// CLIs returns the name of each CLI that has an identity in a home, once.
func CLIs(home string) []string {
	names := []string{}
	for _, i := range Identities(home) {
		if !slices.Contains(names, i.CLI) {
			names = append(names, i.CLI)
		}
	}
	return names
}

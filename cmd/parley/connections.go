package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/durable"
	"github.com/parley-agents/parley/internal/reach/catalog"
	"github.com/parley-agents/parley/internal/shell"
)

// keysDir is the folder of a home with the keys that connect made, and with a record
// of each connection.
const keysDir = "keys"

// A connectionRecord says where connect has written an entry, and for which agent.
type connectionRecord struct {
	CLI       string            `json:"cli"`
	Agent     hub.AgentID       `json:"agent"`
	Scope     catalog.Scope     `json:"scope"`
	Dir       string            `json:"dir,omitempty"` // for scope project
	Name      string            `json:"name"`          // among the CLI's MCP servers
	Transport catalog.Transport `json:"transport,omitempty"`
	Wake      bool              `json:"wake,omitempty"` // with hooks, and mail may start turns
}

// samePlace reports whether two records are about one entry of one CLI.
func (r connectionRecord) samePlace(o connectionRecord) bool {
	return r.CLI == o.CLI && r.Scope == o.Scope && r.Dir == o.Dir && r.Name == o.Name
}

func (r connectionRecord) keyFile(home string) string {
	return filepath.Join(home, keysDir, r.CLI+"."+string(r.Agent)+".key")
}

// recordsFile is the file with the records of all connections.
func recordsFile(home string) string { return filepath.Join(home, keysDir, "connections.json") }

// connections returns the connections of a home, none if the file cannot be read.
func connections(home string) (all []connectionRecord) {
	raw, err := os.ReadFile(recordsFile(home))
	if err == nil && json.Unmarshal(raw, &all) != nil {
		return nil
	}
	return all
}

// saveConnections replaces the records of a home.
func saveConnections(home string, all []connectionRecord) error {
	raw, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(home, keysDir), 0o700); err != nil {
		return err
	}
	return durable.WriteFile(recordsFile(home), append(raw, '\n'), 0o600)
}

// connectedAgent returns the agent as which a CLI is connected: in the current folder,
// else for the user, else "".
func (a *app) connectedAgent(cli string) hub.AgentID {
	home, err := a.homeDir()
	if err != nil {
		return ""
	}
	dir, err := os.Getwd()
	if err != nil {
		return ""
	}
	all := connections(home)
	for _, fits := range []func(connectionRecord) bool{
		func(r connectionRecord) bool { return r.Scope == catalog.ScopeProject && r.Dir == dir },
		func(r connectionRecord) bool { return r.Scope == catalog.ScopeUser },
	} {
		if i := slices.IndexFunc(all, func(r connectionRecord) bool { return strings.EqualFold(r.CLI, cli) && fits(r) }); i >= 0 {
			return all[i].Agent
		}
	}
	return ""
}

// record returns the connection as it is recorded.
func (c *connection) record() connectionRecord {
	r := connectionRecord{CLI: c.cli.Name, Agent: c.agent, Scope: c.place.Scope, Name: c.entry.Name, Transport: c.entry.Transport, Wake: c.wake}
	if r.Name == "" {
		r.Name = catalog.DefaultName
	}
	if r.Scope == catalog.ScopeProject {
		r.Dir = c.place.Dir
	}
	return r
}

// undoLine returns the command that takes the connection back.
func (c *connection) undoLine() string {
	line := c.typed(c.home) + " connect " + c.cli.Name + " --agent " + string(c.agent)
	if c.place.Scope == catalog.ScopeProject {
		line = "cd " + shell.Word(c.place.Dir) + " && " + line + " --scope project"
	}
	if c.entry.Name != "" && c.entry.Name != catalog.DefaultName {
		line += " --name " + c.entry.Name
	}
	return line + " --undo"
}

package connect

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/cli"
	"github.com/parley-agents/parley/internal/ground/durable"
	"github.com/parley-agents/parley/internal/ground/text/shell"
)

// KeysDir is the folder of a home with the keys that connect made, and with a record
// of each connection.
const KeysDir = "keys"

// A Record says where connect has written an entry, and for which agent.
type Record struct {
	CLI       string        `json:"cli"`
	Agent     hub.AgentID   `json:"agent"`
	Scope     cli.Scope     `json:"scope"`
	Dir       string        `json:"dir,omitempty"` // for scope project
	Name      string        `json:"name"`          // among the CLI's MCP servers
	Transport cli.Transport `json:"transport,omitempty"`
	Wake      bool          `json:"wake,omitempty"` // with hooks, and mail may start turns
}

// samePlace reports whether two records are about one entry of one CLI.
func (r Record) samePlace(o Record) bool {
	return r.CLI == o.CLI && r.Scope == o.Scope && r.Dir == o.Dir && r.Name == o.Name
}

// KeyFile returns the file with the key of the connection, in a home.
func (r Record) KeyFile(home string) string {
	return filepath.Join(home, KeysDir, r.CLI+"."+string(r.Agent)+".key")
}

// ConnectLine returns the command that connects the CLI in the same place again. program
// is the beginning of a command line that calls this program for the home.
func (r Record) ConnectLine(program string) string {
	line := program + " connect " + r.CLI + " --agent " + string(r.Agent)
	if r.Scope == cli.ScopeProject {
		line = "cd " + shell.Word(r.Dir) + " && " + line + " --scope project"
	}
	return line
}

// UndoLine returns the command that takes the connection back, as ConnectLine does.
func (r Record) UndoLine(program string) string {
	line := r.ConnectLine(program)
	if r.Name != cli.DefaultName {
		line += " --name " + r.Name
	}
	return line + " --undo"
}

// recordsFile is the file with the records of all connections.
func recordsFile(home string) string { return filepath.Join(home, KeysDir, "connections.json") }

// Records returns the connections of a home, none if the file cannot be read.
func Records(home string) (all []Record) {
	raw, err := os.ReadFile(recordsFile(home))
	if err == nil && json.Unmarshal(raw, &all) != nil {
		return nil
	}
	return all
}

// save replaces the records of a home.
func save(home string, all []Record) error {
	raw, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(home, KeysDir), 0o700); err != nil {
		return err
	}
	return durable.WriteFile(recordsFile(home), append(raw, '\n'), 0o600)
}

// AgentOf returns the agent as which a CLI is connected: in a folder, else for the user,
// else "".
func AgentOf(home, dir, name string) hub.AgentID {
	all := Records(home)
	for _, fits := range []func(Record) bool{
		func(r Record) bool { return r.Scope == cli.ScopeProject && r.Dir == dir },
		func(r Record) bool { return r.Scope == cli.ScopeUser },
	} {
		if i := slices.IndexFunc(all, func(r Record) bool { return strings.EqualFold(r.CLI, name) && fits(r) }); i >= 0 {
			return all[i].Agent
		}
	}
	return ""
}

// Record returns the connection as it is recorded.
func (c *Connection) Record() Record {
	r := Record{CLI: c.CLI.Name, Agent: c.Agent, Scope: c.Place.Scope, Name: c.Entry.Name, Transport: c.Entry.Transport, Wake: c.Wake}
	if r.Name == "" {
		r.Name = cli.DefaultName
	}
	if r.Scope == cli.ScopeProject {
		r.Dir = c.Place.Dir
	}
	return r
}

package cli

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/text/shell"
)

// A Launch is the record of a CLI that launch started, in the folder of the launch.
type Launch struct {
	CLI     string      `json:"cli"`
	Agent   hub.AgentID `json:"agent"`
	Process int         `json:"process"`        // of launch, which lives as long as the CLI
	Label   string      `json:"label"`          // of the key
	Wake    bool        `json:"wake,omitempty"` // notices may start turns
	Binary  string      `json:"binary"`         // of the CLI
	Version string      `json:"version,omitempty"`
	Socket  string      `json:"socket,omitempty"` // of the CLI's own server, for codex
	Input   string      `json:"input,omitempty"`  // file whose lines are prompts, for qwen

	Attended bool `json:"attended,omitempty"` // a person has it in a terminal
}

// Names of files in the folder of a launch.
const (
	KeyFile    = "key"         // the agent's key, mode 0600
	RecordFile = "launch.json" // the Launch
)

// A Request describes a launch to plan.
type Request struct {
	Program []string // parley and its flags, as hooks and MCP entries call it
	Folder  string   // absolute path of the launch's folder
	Env     []string // variables that parley needs where the CLI passes none on: NAME=value
	Agent   hub.AgentID
	Binary  string
	Args    []string // given by the user
	Wake    bool     // notices may start turns
	Getenv  func(string) string
	Read    func(path string) ([]byte, error) // of files that a plan adds to
}

// A Plan is how a CLI is started.
type Plan struct {
	Args   []string          // of the CLI, the user's included
	Env    []string          // to add: NAME=value
	Files  map[string]string // by path in the folder of the launch
	Beside []string          // arguments of the CLI's own server, which runs as long as the CLI; nil for none
	Notes  []string          // for the user
	Launch Launch
}

// A planner makes the plan of one launch.
type planner struct {
	Request
	plan Plan
	err  error
}

// Plan returns how to start the CLI.
func (c CLI) Plan(r Request) (Plan, error) {
	p := planner{Request: r, plan: Plan{Files: map[string]string{}, Launch: Launch{CLI: c.Name, Agent: r.Agent, Binary: r.Binary, Wake: r.Wake}}}
	c.plan(c, &p)
	p.plan.Args = append(p.plan.Args, r.Args...)
	return p.plan, p.err
}

// file adds a file to the folder of the launch and returns its path.
func (p *planner) file(name, content string) string {
	p.plan.Files[name] = content
	return filepath.Join(p.Folder, filepath.FromSlash(name))
}

// json adds a file with a value.
func (p *planner) json(name string, value any) string {
	return p.file(name, p.encode(value))
}

func (p *planner) encode(value any) string {
	raw, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		p.err = err
	}
	return string(raw) + "\n"
}

// given reports whether the user gave a flag.
func (p *planner) given(flag string) bool {
	return slices.ContainsFunc(p.Args, func(a string) bool { return a == flag || strings.HasPrefix(a, flag+"=") })
}

// statusLine returns the line below the prompt, of CLIs that take a command for it: the agent's name, which
// the title of the window and the first lines of the terminal do not keep.
func (p *planner) statusLine() object {
	return object{"type": "command", "command": "echo " + shell.Word(p.shownName())}
}

// shownName returns the agent's name as it is shown on a screen.
func (p *planner) shownName() string { return string(p.Agent) + " on Parley" }

// object is a JSON object.
type object = map[string]any

// server returns the hub's tools as an MCP server that the CLI starts.
func (p *planner) server() object {
	env := map[string]string{}
	for _, e := range p.Env {
		name, value, _ := strings.Cut(e, "=")
		env[name] = value
	}
	return object{"command": p.Program[0], "args": append(slices.Clone(p.Program[1:]), "mcp"), "env": env}
}

// servers returns the file with the MCP servers for the flag of CLIs that have one.
func (p *planner) servers(more object) string {
	s := p.server()
	for name, value := range more {
		s[name] = value
	}
	return p.json("mcp.json", object{"mcpServers": object{"parley": s}})
}

package comply

import (
	"embed"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"github.com/parley-agents/parley/comply/jsont"
)

//go:embed agents/*/agent.json
var known embed.FS

// A KnownAgent is an agent of another project that tests can be run with, because
// it is known how to start it without an account.
type KnownAgent struct {
	Agent
	Title   string
	Version string // the one that is known to work
	Licence string
	API     string // the one over which it asks a model; "" if it has none
}

// KnownAgents returns the agents that are built in, as they are when installed in
// folders of their names in dir.
func KnownAgents(dir string) ([]KnownAgent, error) {
	files, err := known.ReadDir("agents")
	if err != nil {
		return nil, err
	}
	var agents []KnownAgent
	for _, f := range files {
		name := path.Join("agents", f.Name(), "agent.json")
		text, err := known.ReadFile(name)
		if err != nil {
			return nil, err
		}
		root, err := jsont.ParseNode(text)
		if err != nil {
			return nil, fmt.Errorf("comply: %s: %w", name, err)
		}
		p := &jsont.Reader{}
		a := KnownAgent{Agent: readAgent(p, f.Name(), root), Title: p.Text(root, "title"), Version: p.Text(root, "version"), Licence: p.Text(root, "licence"), API: p.Text(root, "api")}
		if p.Err != nil {
			return nil, fmt.Errorf("comply: %s: %w", name, p.Err)
		}
		a.Root = filepath.Join(dir, a.Name)
		agents = append(agents, a)
	}
	return agents, nil
}

// Installed reports whether the agent is there.
func (a KnownAgent) Installed() bool {
	_, err := os.Stat(a.Root)
	return err == nil
}

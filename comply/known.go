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

// A KnownAgent is an agent of another project that the runner can start without an
// account.
type KnownAgent struct {
	Agent
	Title   string
	Version string // the version that was tested
	Licence string
	API     string // the API over which it talks to a model; "" if it uses none
}

// KnownAgents returns the known agents, for an installation of each in the folder of its
// name in dir.
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
		// The files are ours; an error here is found by a test.
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

// Installed reports whether the folder of the agent exists.
func (a KnownAgent) Installed() bool {
	_, err := os.Stat(a.Root)
	return err == nil
}

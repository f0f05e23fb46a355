package comply

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/parley-agents/parley/protocol/comply/jsont"
)

//go:embed agents/*/agent.json
var known embed.FS

// A KnownAgent is an agent of another project that the runner can start, most of them
// without an account.
type KnownAgent struct {
	Agent
	Title   string
	Version string // the version that was tested
	Licence string
	API     string // the API over which it talks to a model; "" if it uses none
	Added   bool   // it is not built in: its file stands in its folder
}

// agentFile is the name of the file that describes an agent, in the folder of its name.
const agentFile = "agent.json"

// KnownAgents returns the known agents, for an installation of each in the folder of its
// name in dir: those that are built in, then those that AddAgent added to dir.
// An added agent with the name of a built-in one is ignored. Nothing is started or
// downloaded.
func KnownAgents(dir string) ([]KnownAgent, error) {
	builtin, err := fs.Sub(known, "agents")
	if err != nil {
		return nil, err
	}
	agents, err := readKnown(builtin, dir, nil)
	if err != nil {
		return nil, err
	}
	added, err := readKnown(os.DirFS(dir), dir, agents)
	for i := range added {
		added[i].Added = true
	}
	return append(agents, added...), err
}

// readKnown reads the agents of a folder, without those that are known.
func readKnown(dir fs.FS, root string, known []KnownAgent) (agents []KnownAgent, _ error) {
	files, err := fs.Glob(dir, "*/"+agentFile)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		name := path.Dir(file)
		if slices.ContainsFunc(known, func(k KnownAgent) bool { return k.Name == name }) {
			continue
		}
		text, err := fs.ReadFile(dir, file)
		if err != nil {
			return nil, fmt.Errorf("comply: the agent %s: %w", name, err)
		}
		at := filepath.Join(root, file)
		n, err := jsont.ParseNode(text)
		if err != nil {
			return nil, jsont.InFile(at, err)
		}
		p := &jsont.Reader{}
		a := KnownAgent{Agent: readAgent(p, name, n), Title: p.Text(n, "title"), Version: p.Text(n, "version"), Licence: p.Text(n, "licence"), API: p.Text(n, "api")}
		if p.Err != nil {
			return nil, jsont.InFile(at, p.Err)
		}
		a.Root = filepath.Join(root, name)
		agents = append(agents, a)
	}
	return agents, nil
}

// AddAgent writes the file of an agent into the folder of its name in dir and returns its
// path. The error is an fs.ErrExist if there is such a folder.
// The folder is made first and exclusively, so two calls cannot add one name twice.
func AddAgent(dir string, a KnownAgent) (string, error) {
	text, err := json.MarshalIndent(struct {
		Title   string            `json:"title,omitempty"`
		Version string            `json:"version,omitempty"`
		Command string            `json:"command"`
		Args    []string          `json:"args,omitempty"`
		Dir     string            `json:"cwd,omitempty"`
		Env     map[string]string `json:"env,omitempty"`
	}{a.Title, a.Version, a.Command, a.Args, a.Dir, a.Env}, "", "  ")
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	folder := filepath.Join(dir, a.Name)
	if err := os.Mkdir(folder, 0o700); err != nil {
		return "", err
	}
	file := filepath.Join(folder, agentFile)
	if err := os.WriteFile(file, append(text, '\n'), 0o600); err != nil { // a variable may be a key
		return "", errors.Join(err, os.RemoveAll(folder))
	}
	return file, nil
}

// Installed reports whether the folder of the agent exists.
func (a KnownAgent) Installed() bool {
	_, err := os.Stat(a.Root)
	return err == nil
}

package comply

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parley-agents/parley/protocol/comply/jsont"
)

// An Agent is a program to test, and how it is started.
type Agent struct {
	Name    string            // for reports
	Command string            // a program, searched in PATH unless it has a slash
	Args    []string          // its arguments
	Env     map[string]string // variables besides the few that every agent gets
	Dir     string            // its working folder; "" for that of this process
	Files   map[string]string // files in its home folder, by their relative paths
	Root    string            // the value of ${root}, the folder that it is installed in; may be ""

	// Serve, if set, is the agent, and Command, Args and Dir are not used: an agent
	// written in Go can be tested by its own tests. It must return when the input ends
	// or ctx does.
	Serve func(ctx context.Context, s *Stdio) error
}

// ParseAgents reads agents as editors configure them:
//
//	{"agent_servers": {"NAME": {"command": "...", "args": ["..."], "env": {"KEY": "..."}}}}
//
// An agent may also have a "cwd" and "files" for its home folder. Errors are of type
// *FileError and name the path.
func ParseAgents(path string, text []byte) ([]Agent, error) {
	root, err := jsont.ParseNode(text)
	if err != nil {
		return nil, jsont.InFile(path, err)
	}
	p := &jsont.Reader{}
	servers := p.Object(root, "agent_servers")
	switch {
	case servers == nil:
		p.Fail(root, `"agent_servers" is required`)
	case len(servers.Members()) == 0:
		p.Fail(servers, `"agent_servers" is empty`)
	}
	var agents []Agent
	for _, m := range servers.Members() {
		agents = append(agents, readAgent(p, m.Name, m.Value))
	}
	return agents, jsont.InFile(path, p.Err)
}

// readAgent reads the command of one agent.
func readAgent(p *jsont.Reader, name string, n *jsont.Node) Agent {
	a := Agent{Name: name, Command: p.Text(n, "command"), Args: p.Texts(n, "args"), Dir: p.Text(n, "cwd"), Env: map[string]string{}}
	if n.Kind != jsont.Object {
		p.Fail(n, "the agent %q must be an object, not %s", name, n.Kind)
	}
	if a.Command == "" {
		p.Fail(n, `the agent %q needs a "command"`, name)
	}
	for _, v := range p.Object(n, "env").Members() {
		if v.Value.Kind != jsont.String {
			p.Fail(v.Value, "the variable %s must be a string", v.Name)
		}
		a.Env[v.Name] = v.Value.Text
	}
	for _, f := range p.Object(n, "files").Members() {
		if a.Files == nil {
			a.Files = map[string]string{}
		}
		if !filepath.IsLocal(filepath.FromSlash(f.Name)) {
			p.Fail(f.Value, "the file %s must be inside the home folder", f.Name)
		}
		// A file that is written as JSON in the list is JSON in the home folder.
		if a.Files[f.Name] = f.Value.Text; f.Value.Kind != jsont.String {
			a.Files[f.Name] = string(f.Value.Encode(jsont.AsIs))
		}
	}
	return a
}

// passed are the variables of this process that every agent gets. They hold no keys.
var passed = []string{"PATH", "LANG", "LANGUAGE", "TZ", "TERM", "USER", "LOGNAME", "SHELL", "SYSTEMROOT", "SYSTEMDRIVE", "COMSPEC", "PATHEXT", "WINDIR"}

// baseEnv returns the variables that every agent and every command gets.
// Everything else of the caller's environment is kept from agents: keys, tokens and
// settings would make results depend on the machine.
func baseEnv(home, temp string) []string {
	var env []string
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if slices.Contains(passed, strings.ToUpper(name)) || strings.HasPrefix(name, "LC_") {
			env = append(env, v)
		}
	}
	return append(env, "HOME="+home, "USERPROFILE="+home, "TMPDIR="+temp, "TEMP="+temp, "TMP="+temp)
}

// command returns the command that starts the agent with the variables in env.
// Dir "" is the working folder of this process, against which a relative Command is
// resolved as well.
func (a Agent) command(env []string) (*exec.Cmd, error) {
	// An absolute path, because the agent may start in another folder.
	path, err := exec.LookPath(a.Command)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", a.Command, err)
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	cmd := exec.Command(path, a.Args...)
	cmd.Dir, cmd.Env = a.Dir, a.environ(env)
	return cmd, nil
}

// environ returns env with the variables of the agent added.
func (a Agent) environ(env []string) []string {
	// Of two variables with one name the later one counts, so those of the agent win.
	out := slices.Clone(env)
	for name, value := range a.Env {
		out = append(out, name+"="+value)
	}
	return out
}

package comply

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// An Agent is a program to test.
type Agent struct {
	Name    string
	Command string            // a program, looked up in PATH unless it has a slash
	Args    []string          // its arguments
	Env     map[string]string // what it needs besides the few variables that every agent gets
	Dir     string            // where it is started; "" for the working folder of this process
	Files   map[string]string // what is in its home folder, by the path there
	Root    string            // the folder that it is installed in; "" if nothing asks for it

	// Serve, if set, is the agent, and Command, Args and Dir are not used: for
	// agents written in Go that are tested by their own tests. It returns when In
	// ends or ctx does.
	Serve func(ctx context.Context, s *Stdio) error
}

// ParseAgents reads agents as editors configure them:
//
//	{"agent_servers": {"NAME": {"command": "...", "args": ["..."], "env": {"KEY": "..."}}}}
//
// Besides, an agent may have a "cwd" and "files" for its home folder.
// The path is named in errors, which are of type *FileError.
func ParseAgents(path string, text []byte) ([]Agent, error) {
	agents, err := parseAgents(text)
	if at := (*lineError)(nil); errors.As(err, &at) {
		return nil, &FileError{path, at.line, at.err}
	}
	return agents, err
}

func parseAgents(text []byte) (agents []Agent, _ error) {
	root, err := parseNode(text)
	if err != nil {
		return nil, err
	}
	p := &parser{test: &Test{}}
	servers := p.object(root, "agent_servers")
	if servers == nil && p.err == nil {
		return nil, linef(root.line, `there is no "agent_servers"`)
	}
	if servers != nil && len(servers.members) == 0 {
		return nil, linef(servers.line, `"agent_servers" is empty`)
	}
	for _, m := range servers.list() {
		if m.value.kind != isObject {
			return nil, linef(m.value.line, "an agent is an object, not %s", m.value.kind)
		}
		agents = append(agents, p.agent(m.name, m.value))
	}
	return agents, p.err
}

// agent reads how one agent is started.
func (p *parser) agent(name string, n *node) Agent {
	a := Agent{Name: name, Command: p.text(n, "command"), Args: p.texts(n, "args"), Dir: p.text(n, "cwd"), Env: map[string]string{}}
	if a.Command == "" {
		p.fail(n, `the agent %q needs a "command"`, name)
	}
	for _, v := range p.object(n, "env").list() {
		if v.value.kind != isString {
			p.fail(v.value, "the variable %s must be a string", v.name)
		}
		a.Env[v.name] = v.value.text
	}
	for _, f := range p.object(n, "files").list() {
		if a.Files == nil {
			a.Files = map[string]string{}
		}
		if !filepath.IsLocal(filepath.FromSlash(f.name)) {
			p.fail(f.value, "the file %s must be inside of the home folder", f.name)
		}
		if a.Files[f.name] = f.value.text; f.value.kind != isString {
			a.Files[f.name] = string(f.value.encode(asIs))
		}
	}
	return a
}

// list returns the members of n, which may be nil.
func (n *node) list() []member {
	if n == nil {
		return nil
	}
	return n.members
}

// passed are the variables of this process that every agent gets. None is known
// to hold a key.
var passed = []string{"PATH", "LANG", "LANGUAGE", "TZ", "TERM", "USER", "LOGNAME", "SHELL", "SYSTEMROOT", "SYSTEMDRIVE", "COMSPEC", "PATHEXT", "WINDIR"}

// baseEnv returns the variables that every agent and every command gets.
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

// command returns the agent ready to be started.
func (a Agent) command(env []string) (*exec.Cmd, error) {
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
	out := slices.Clone(env)
	for name, value := range a.Env {
		out = append(out, name+"="+value)
	}
	return out
}

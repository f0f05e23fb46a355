package client

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/parley-agents/parley/internal/ground/text/shell"
	"github.com/parley-agents/parley/protocol/comply/jsont"
)

// A Client is a program to test, and how it is started. Words in braces in its commands are
// replaced: {agent} by the command of the scripted agent, {prompt} by a prompt, {cwd} by
// the working folder, and in a command for a need the words that [Need] names.
type Client struct {
	Name    string            // for reports
	Command []string          // starts the client; it must send a prompt to the agent
	When    map[Need][]string // commands for scenarios with a need
	Env     map[string]string // variables besides the few that every client gets
	Answer  string            // a line for standard input when the client has to ask its user; "" for none
}

// ParseClient reads the file of a client:
//
//	{"name": "...", "command": ["..."], "when": {"load": ["..."]}, "env": {"KEY": "..."}, "answer": "1"}
//
// "${root}" in the commands and variables is the folder of the file. Errors name the path.
func ParseClient(path string, text []byte) (Client, error) {
	var file struct {
		Name    string
		Command []string
		When    map[Need][]string
		Env     map[string]string
		Answer  string
	}
	root, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return Client{}, err
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return Client{}, &jsont.FileError{Path: path, Line: 1, Err: err}
	}
	if len(file.Command) == 0 {
		return Client{}, &jsont.FileError{Path: path, Line: 1, Err: fmt.Errorf(`"command" is required`)}
	}

	expand := func(words []string) []string {
		out := slices.Clone(words)
		for i := range out {
			out[i] = strings.ReplaceAll(out[i], "${root}", root)
		}
		return out
	}
	c := Client{Name: file.Name, Command: expand(file.Command), When: map[Need][]string{}, Env: map[string]string{}, Answer: file.Answer}
	for need, words := range file.When {
		if !slices.Contains(Needs(), need) {
			return Client{}, &jsont.FileError{Path: path, Line: 1, Err: fmt.Errorf("unknown need %q", need)}
		}
		c.When[need] = expand(words)
	}
	for name, value := range file.Env {
		c.Env[name] = strings.ReplaceAll(value, "${root}", root)
	}
	if c.Name == "" {
		c.Name = filepath.Base(c.Command[0])
	}
	return c, nil
}

// takesPrompt reports whether a command has the prompt as an argument.
func takesPrompt(command []string) bool {
	return slices.ContainsFunc(command, func(w string) bool { return strings.Contains(w, "{prompt}") })
}

// A place has the folders and files of one start of a client.
type place struct {
	root   string // all of it
	dir    string // the working folder
	home   string
	socket string
	agent  []string // the command of the agent
	file   string   // the agent_servers file
}

// newPlace makes the folders of a start. The command of the agent is one word where the system
// has scripts, so that it can be used as a word and as a line.
func newPlace(relay []string) (_ *place, err error) {
	root, err := os.MkdirTemp("", "parley-client-")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(root)
		}
	}()
	// Clients report real paths.
	if root, err = filepath.EvalSymlinks(root); err != nil {
		return nil, err
	}
	p := &place{root: root, dir: filepath.Join(root, "work"), home: filepath.Join(root, "home"), socket: filepath.Join(root, "s"), file: filepath.Join(root, "agent_servers.json")}
	for _, dir := range []string{p.dir, p.home, filepath.Join(root, "tmp")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return nil, err
		}
	}
	if err := p.writeAgent(relay); err != nil {
		return nil, err
	}
	return p, nil
}

// writeAgent writes the files with which a client starts the agent.
func (p *place) writeAgent(relay []string) error {
	p.agent = append(slices.Clone(relay), p.socket)
	if runtime.GOOS != "windows" {
		script := filepath.Join(p.root, "agent")
		text := "#!/bin/sh\nexec " + quoted(p.agent) + "\n"
		if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
			return err
		}
		p.agent = []string{script}
	}
	servers := object{"agent_servers": object{"parley-compliance": object{"type": "custom", "command": p.agent[0], "args": append([]string{}, p.agent[1:]...), "env": object{}}}}
	text, err := json.MarshalIndent(servers, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(p.file, append(text, '\n'), 0o600)
}

// quoted returns words as one line for a POSIX shell.
func quoted(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = shell.Word(w)
	}
	return strings.Join(out, " ")
}

// words returns a command with the words in braces replaced. A word that is nothing but {agent}
// becomes as many words as the command of the agent has.
func (p *place) words(command []string, prompt string) []string {
	fill := strings.NewReplacer(
		"{agent}", quoted(p.agent), "{prompt}", prompt, "{cwd}", p.dir, "{servers}", p.file,
		"{session}", storedSession, "{mode}", wantedMode, "{option}", wantedOption, "{value}", wantedValue, "{method}", loginMethod,
	)
	var out []string
	for _, w := range command {
		if w == "{agent}" {
			out = append(out, p.agent...)
			continue
		}
		out = append(out, fill.Replace(w))
	}
	return out
}

// passed are the variables of this process that every client gets. They hold no keys.
var passed = []string{"PATH", "LANG", "LANGUAGE", "TZ", "TERM", "USER", "LOGNAME", "SHELL", "SYSTEMROOT", "SYSTEMDRIVE", "COMSPEC", "PATHEXT", "WINDIR"}

// environ returns the variables of the client. home is the home folder of the user, "" for an
// empty one.
func (p *place) environ(c Client, home string) []string {
	var env []string
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if slices.Contains(passed, strings.ToUpper(name)) || strings.HasPrefix(name, "LC_") {
			env = append(env, v)
		}
	}
	if home == "" {
		home = p.home
	}
	temp := filepath.Join(p.root, "tmp")
	env = append(env, "HOME="+home, "USERPROFILE="+home, "TMPDIR="+temp, "TEMP="+temp, "TMP="+temp,
		"PARLEY_AGENT_COMMAND="+quoted(p.agent), "PARLEY_AGENT_SERVERS="+p.file)
	for name, value := range c.Env {
		env = append(env, name+"="+value)
	}
	return env
}

// remove removes the folders.
func (p *place) remove() { os.RemoveAll(p.root) }

// Package up keeps the agents that a file declares, parley.yaml: it reads the file,
// compares it with the agents and teams of a hub, and makes the hub as the file says.
//
// A mistake in the file is found before the hub is called, with its line. A plan is shown
// before anything is done: [File.Plan] only reads, [Plan.Apply] writes, and a second plan
// after it has nothing to do. Agents and members that the file does not name stay as they
// are. The package prints nothing, asks no questions and starts no hub.
//
// Reading and planning are tested here; the commands up and down in cmd/parley.
package up

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/cli"
	"github.com/parley-agents/parley/internal/ground/checkfile"
	"github.com/parley-agents/parley/internal/ground/strictjson"
	"github.com/parley-agents/parley/internal/ground/strictyaml"
	"github.com/parley-agents/parley/internal/ground/text/pattern"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/work/keeper"
	"github.com/parley-agents/parley/protocol/sandbox"
)

// Name is the file that is read unless another is named.
const Name = checkfile.Name

// Example is the text of a file to begin with.
const Example = `# The agents in this folder: "parley up" starts them, "parley down" stops them.
agents:
  planner:
    cli: claude          # "parley agent clis" lists the known agents
    dir: .               # working folder, relative to this file; agents cannot share one
    worktree: true       # work in a separate git worktree, on the branch parley/planner
    role: coordinator    # coordinator, researcher, executor, reviewer or integrator
    policy: read         # read, write, build, or ask, where a person answers
    budget: 20/h         # turns per hour that mail may start
  builder:
    cli: codex
    dir: .
    worktree: true
    role: executor
    can: [go, sql]       # abilities shown to other agents
    policy: write
    budget: 20/h
    idle: 5m             # idle time without mail before its process is stopped
  # helper:
  #   command: [my-agent, --acp]   # another program that speaks ACP; you are asked before it runs
  #   dir: ../tools
# teams:
#   auth:
#     goal: log in without a password
#     members: {planner: coordinator, builder: executor}
# checks:                          # commands for "parley check trust"; "parley up" ignores them
#   - name: test
#     command: go test ./...
#     required: true
`

// WriteExample writes the example to a file. It reports CodeConflict if the file exists.
func WriteExample(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return hub.Errorf(hub.CodeConflict, "up.WriteExample", "%s already exists", path).WithHint(`choose another file with "parley up --example FILE"`)
	}
	if err == nil {
		_, err = f.WriteString(Example)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return hub.Errorf(hub.CodeInvalid, "up.WriteExample", "%w", err)
	}
	return nil
}

// A File declares the agents that a hub is to keep, and their teams.
type File struct {
	Agents map[hub.AgentID]Agent `yaml:"agents"`
	Teams  map[hub.TeamID]Team   `yaml:"teams"`
	Checks checkfile.Checks      `yaml:"checks"` // for "parley check trust"; not used here
	Tests  checkfile.Tests       `yaml:"contract_tests"`
}

// A Team declares a team. The goal counts for a team that is new.
type Team struct {
	Goal    string                   `yaml:"goal"`
	Members map[hub.AgentID]hub.Role `yaml:"members"`
}

// An Agent declares one agent.
type Agent struct {
	CLI          string           `yaml:"cli"`
	Command      []string         `yaml:"command"`
	Dir          string           `yaml:"dir"` // relative to the folder of the file
	Worktree     bool             `yaml:"worktree"`
	Role         hub.Role         `yaml:"role"`
	Can          []string         `yaml:"can"`
	V2           bool             `yaml:"v2"` // offer version 2 of the protocol
	Policy       sandbox.Policy   `yaml:"policy"`
	Network      bool             `yaml:"network"`
	Budget       string           `yaml:"budget"`
	Idle         time.Duration    `yaml:"idle"`
	Hang         time.Duration    `yaml:"hang"`
	AnswerWithin time.Duration    `yaml:"answer_within"`
	Memory       strictyaml.Count `yaml:"memory"`
}

// Parse reads the content of a file and checks what can be checked without a hub. The
// folders in it become absolute, relative to that of the file. Errors are CodeInvalid.
func Parse(path string, raw []byte) (file File, err error) {
	if err := strictyaml.DecodeOnly(path, raw, &file); err != nil {
		return file, err
	}
	if len(file.Agents) == 0 && len(file.Teams) == 0 && len(file.Checks) > 0 {
		return file, nil // the file is for the checks alone
	}
	if len(file.Agents) == 0 {
		return file, hub.Errorf(hub.CodeInvalid, "up.Parse", "%s declares no agents", path).WithHint(`run "parley up --example FILE" to write an example`)
	}
	base, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return file, hub.Errorf(hub.CodeInvalid, "up.Parse", "%w", err)
	}

	// An error names the line at which the agent or the team begins.
	lines := strictyaml.Lines(raw)
	for _, name := range slices.Sorted(maps.Keys(file.Agents)) {
		a := file.Agents[name].in(base)
		file.Agents[name] = a
		if err := a.check(name); err != nil {
			var e *hub.Error
			if !errors.As(err, &e) {
				e = &hub.Error{}
			}
			return file, hub.Errorf(hub.CodeInvalid, "up.Parse", "%s: line %d: agent %s: %v", path, lines["agents/"+string(name)], name, err).WithHint("%s", e.Hint)
		}
	}

	for _, id := range slices.Sorted(maps.Keys(file.Teams)) {
		if err := file.Teams[id].check(id); err != nil {
			return file, hub.Errorf(hub.CodeInvalid, "up.Parse", "%s: line %d: team %s: %v", path, lines["teams/"+string(id)], id, err)
		}
	}
	return file, nil
}

// in returns the agent with its folder below base, and with the default policy.
func (a Agent) in(base string) Agent {
	if !filepath.IsAbs(a.Dir) {
		a.Dir = filepath.Join(base, a.Dir)
	}
	a.Policy = cmp.Or(a.Policy, sandbox.PolicyRead)
	return a
}

// errName is the mistake of an agent or a team whose name no hub takes.
var errName = errors.New("invalid name: use at most 64 lowercase letters, digits, dots, dashes and underscores")

// check finds mistakes that need no hub.
func (a Agent) check(name hub.AgentID) error {
	_, budget := PerHour(a.Budget)
	info, err := os.Stat(a.Dir)
	switch {
	case !name.Valid():
		return errName
	case (a.CLI == "") == (len(a.Command) == 0):
		return errors.New("either cli or command is required, but not both")
	case !slices.Contains([]sandbox.Policy{sandbox.PolicyRead, sandbox.PolicyWrite, keeper.PolicyBuild, sandbox.PolicyAsk}, a.Policy):
		return fmt.Errorf("policy must be read, write, build or ask, got %q", a.Policy)
	case a.Network && a.Policy != keeper.PolicyBuild:
		return fmt.Errorf("network is for commands, which only the policy build lets the agent run, not %s", a.Policy)
	case a.Role != "" && !slices.Contains(hub.Roles, a.Role):
		return fmt.Errorf("unknown role %q: use %s", a.Role, roles())
	case budget != nil:
		return fmt.Errorf("budget: %w", budget)
	case err != nil || !info.IsDir():
		return fmt.Errorf("dir: %s is not a folder", a.Dir)
	case a.Idle < 0 || a.Hang < 0 || a.AnswerWithin < 0:
		return errors.New("idle, hang and answer_within must not be negative")
	}
	_, err = Program(a.CLI, a.Command)
	return err
}

// check finds mistakes that need no hub.
func (t Team) check(id hub.TeamID) error {
	switch {
	case !id.Valid():
		return errName
	case t.Goal == "":
		return errors.New("a goal is required")
	case len(t.Members) == 0:
		return errors.New("members are required")
	}
	for _, agent := range slices.Sorted(maps.Keys(t.Members)) {
		if role := t.Members[agent]; !slices.Contains(hub.Roles, role) {
			return fmt.Errorf("member %s: unknown role %q: use %s", agent, role, roles())
		}
	}
	return nil
}

// roles returns the roles of agents for a sentence.
func roles() string {
	var names []string
	for _, r := range hub.Roles {
		names = append(names, string(r))
	}
	return strings.Join(names, ", ")
}

// params returns the parameters that keep the agent.
func (a Agent) params(name hub.AgentID) (p api.KeepParams, err error) {
	p.Agent = name
	p.CLI = a.CLI
	p.Policy = a.Policy
	p.Role = a.Role
	p.Can = a.Can
	p.Memory = strictjson.Count(a.Memory)
	p.Network = a.Network
	p.V2 = a.V2
	p.Worktree = a.Worktree
	p.Idle = keeper.Seconds(a.Idle / time.Second)
	p.Hang = keeper.Seconds(a.Hang / time.Second)
	p.Question = keeper.Seconds(a.AnswerWithin / time.Second)
	p.Path = os.Getenv("PATH")

	if p.PerHour, err = PerHour(a.Budget); err != nil {
		return p, err
	}
	if p.Command, err = Program(a.CLI, a.Command); err != nil {
		return p, err
	}
	p.Dir, err = filepath.EvalSymlinks(a.Dir)
	return p, err
}

var budgetForm = pattern.New(`^([1-9][0-9]{0,3})/h$`)

// PerHour reads a budget of turns such as 20/h; 0 for an empty one.
func PerHour(budget string) (int, error) {
	if budget == "" {
		return 0, nil
	}
	m := budgetForm().FindStringSubmatch(budget)
	if m == nil {
		return 0, fmt.Errorf("must be turns per hour such as 20/h, got %q", budget)
	}
	return strconv.Atoi(m[1])
}

// Program returns the command of a known agent, or another one, with the path of its
// program. It reports CodeInvalid if the program of a command is not on the PATH, and
// CodeDegraded for an agent that is not known or not installed.
func Program(name string, command []string) (_ []string, err error) {
	if name != "" {
		if command, err = cli.Command(name); err != nil {
			return nil, err
		}
	}
	program, err := exec.LookPath(command[0])
	if err == nil {
		program, err = filepath.Abs(program)
	}
	if err != nil {
		return nil, hub.Errorf(hub.CodeInvalid, "up.Program", "no program named %s on the PATH", command[0])
	}
	return append([]string{program}, command[1:]...), nil
}

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/keeper"
	"github.com/parley-agents/parley/internal/service/team"
	"github.com/parley-agents/parley/internal/surface/api"
	"github.com/parley-agents/parley/internal/surface/rpc"
	"github.com/parley-agents/parley/sandbox"
)

// An upFile declares the agents that a hub is to keep, and their teams.
type upFile struct {
	Agents map[hub.AgentID]upAgent `yaml:"agents"`
	Teams  map[hub.TeamID]upTeam   `yaml:"teams"`
}

// An upTeam declares a team. The goal counts for a team that is new.
type upTeam struct {
	Goal    string                   `yaml:"goal"`
	Members map[hub.AgentID]hub.Role `yaml:"members"`
}

// An upAgent declares one agent.
type upAgent struct {
	CLI          string         `yaml:"cli"`
	Command      []string       `yaml:"command"`
	Dir          string         `yaml:"dir"` // relative to the folder of the file
	Worktree     bool           `yaml:"worktree"`
	Role         hub.Role       `yaml:"role"`
	Can          []string       `yaml:"can"`
	Policy       sandbox.Policy `yaml:"policy"`
	Budget       string         `yaml:"budget"`
	Idle         time.Duration  `yaml:"idle"`
	Hang         time.Duration  `yaml:"hang"`
	AnswerWithin time.Duration  `yaml:"answer_within"`
	Memory       count          `yaml:"memory"`
}

// upName is the file that up and down read unless another is named.
const upName = "parley.yaml"

const upExample = `# The agents of this folder: parley up keeps them, parley down stops them.
agents:
  planner:
    cli: claude          # parley agents detect lists the agents that are known
    dir: .               # its folder, relative to this file; no two agents share one
    worktree: true       # work in a git worktree of its own, on the branch parley/planner
    role: coordinator    # coordinator, researcher, executor, reviewer or integrator
    policy: read         # read, write, or ask for a person who answers
    budget: 20/h         # turns that mail may start within an hour
  builder:
    cli: codex
    dir: .
    worktree: true
    role: executor
    can: [go, sql]       # its abilities, which other agents see
    policy: write
    budget: 20/h
    idle: 5m             # after this time without mail its process is stopped
  # helper:
  #   command: [my-agent, --acp]   # another program that speaks ACP; it runs after a yes
  #   dir: ../tools
# teams:
#   auth:
#     goal: log in without a password
#     members: {planner: coordinator, builder: executor}
`

// An upStep is the change that one agent or one team needs.
type upStep struct {
	Agent  hub.AgentID `json:"agent,omitempty"`
	Team   hub.TeamID  `json:"team,omitempty"`
	Action string      `json:"action"`            // keep, create, change, restart, stop, forget or none
	Reason string      `json:"reason,omitempty"`  // for people
	Asks   []string    `json:"command,omitempty"` // a command that is no known agent and needs a yes

	params api.KeepParams
	role   bool // the role of the agent is changed, too
	team   []team.Request
}

// name returns the name of the agent, or of the team as messages address it.
func (s upStep) name() string {
	if s.Team != "" {
		return "team:" + string(s.Team)
	}
	return string(s.Agent)
}

// An upPlan is all that is to be done, in the order of the names.
type upPlan struct {
	Hub     string   `json:"hub,omitempty"` // the home in which a hub is started
	Steps   []upStep `json:"steps"`
	Applied bool     `json:"applied"`
}

// idle reports whether there is nothing to do.
func (p upPlan) idle() bool {
	return p.Hub == "" && !slices.ContainsFunc(p.Steps, func(s upStep) bool { return s.Action != "none" })
}

func (p upPlan) write(w io.Writer) {
	if p.Hub != "" {
		fmt.Fprintf(w, "start a hub in %s\n", p.Hub)
	}
	writeTable(w, "", p.Steps, func(s upStep) []any {
		return []any{map[string]string{"keep": "+", "create": "+", "change": "~", "restart": ">", "stop": "-", "forget": "-", "none": "="}[s.Action], s.name(), s.Reason}
	})
}

func (a *app) upCommand() *cobra.Command {
	var yes, commands, example, dry bool
	cmd := &cobra.Command{
		Use: "up [FILE]", Short: "Keep the agents that a file declares",
		Long: `Have the hub keep the agents that a file declares (default parley.yaml): agents
that are new are added, those that differ are changed, those that are stopped are
restarted. Then the teams of the file are created, or get the members and roles that
they lack. A second call changes nothing. Agents and members that the file does not
name stay as they are. If no hub runs, one is started.

You see the plan first and are asked. Scripts say --yes; a command that is no known
agent then needs --allow-commands as well, because the file may come from others.`,
		Example: `  parley up --example
  parley up
  parley up team.yaml --yes --as-operator`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := cmp.Or(strings.Join(args, ""), upName)
			if example {
				return a.writeExample(path)
			}
			file, err := a.readUp(cmd.Context(), path)
			if err != nil {
				return err
			}
			return a.up(cmd.Context(), file, yes, commands, dry)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&yes, "yes", false, "do not ask")
	f.BoolVar(&commands, "allow-commands", false, "with --yes: also run commands that are no known agents")
	f.BoolVar(&dry, "dry-run", false, "show the plan and change nothing")
	f.BoolVar(&example, "example", false, "write an example to the file, which must not exist")
	cmd.MarkFlagsMutuallyExclusive("example", "yes")
	cmd.MarkFlagsMutuallyExclusive("example", "dry-run")
	return cmd
}

func (a *app) downCommand() *cobra.Command {
	var forget bool
	cmd := &cobra.Command{
		Use: "down [FILE]", Short: "Stop the agents that a file declares; their mail waits",
		Long: `Stop the agents that a file declares (default parley.yaml). Their mail waits until
parley up. The hub goes on; parley stop stops it.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			file, err := a.readUp(ctx, cmp.Or(strings.Join(args, ""), upName))
			if err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			kept, err := keptByName(ctx, c)
			if err != nil {
				return err
			}
			plan := upPlan{Steps: []upStep{}, Applied: true}
			for _, name := range slices.Sorted(maps.Keys(file.Agents)) {
				now, known := kept[name]
				step := upStep{Agent: name, Action: "stop", Reason: "is stopped; its mail waits"}
				switch {
				case !known:
					step.Action, step.Reason = "none", "is not kept"
				case forget:
					step.Action, step.Reason = "forget", "is not kept any more"
				case now.State == keeper.Stopped:
					step.Action, step.Reason = "none", "is stopped already"
				}
				if step.Action != "none" {
					if _, err := rpc.Call(ctx, c, api.StopAgent, api.StopParams{Agent: name, Forget: forget}); err != nil {
						return err
					}
				}
				plan.Steps = append(plan.Steps, step)
			}
			return a.print(plan, plan.write)
		},
	}
	cmd.Flags().BoolVar(&forget, "forget", false, "do not keep them any more")
	return cmd
}

// writeExample writes an example of a file.
func (a *app) writeExample(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return hub.Errorf(hub.CodeConflict, "parley", "%s exists already", path).WithHint("name another file: parley up --example FILE")
	}
	if err == nil {
		_, err = f.WriteString(upExample)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return invalid(err)
	}
	return a.print(map[string]string{"file": path}, func(w io.Writer) { fmt.Fprintf(w, "wrote %s: edit it, then parley up\n", path) })
}

// readUp reads a file. The folders in it become absolute.
func (a *app) readUp(ctx context.Context, path string) (file upFile, err error) {
	raw, err := a.read(ctx, path, maxContent, hub.Errorf(hub.CodePayloadTooLarge, "parley", "%s has more than %d bytes", path, maxContent))
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return file, hub.Errorf(hub.CodeInvalid, "parley", "there is no file %s", path).WithHint("parley up --example writes one")
		}
		return file, err
	}
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	dec.KnownFields(true)
	if err := dec.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return file, configError(path, reflect.TypeOf(file), err)
	}
	if !errors.Is(dec.Decode(&yaml.Node{}), io.EOF) {
		return file, hub.Errorf(hub.CodeInvalid, "parley", "%s: there is more after the first document", path)
	}
	if len(file.Agents) == 0 {
		return file, hub.Errorf(hub.CodeInvalid, "parley", "%s declares no agents", path).WithHint("parley up --example FILE writes an example")
	}
	base, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return file, invalid(err)
	}
	lines := lineNumbers(raw)
	for _, name := range slices.Sorted(maps.Keys(file.Agents)) {
		u := file.Agents[name]
		if !filepath.IsAbs(u.Dir) {
			u.Dir = filepath.Join(base, u.Dir)
		}
		u.Policy = cmp.Or(u.Policy, sandbox.PolicyRead)
		file.Agents[name] = u
		if err := u.check(name); err != nil {
			var e *hub.Error
			if !errors.As(err, &e) {
				e = &hub.Error{}
			}
			return file, hub.Errorf(hub.CodeInvalid, "parley", "%s: line %d: agent %s: %v", path, lines["agents/"+string(name)], name, err).WithHint("%s", e.Hint)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(file.Teams)) {
		if err := file.Teams[id].check(id); err != nil {
			return file, hub.Errorf(hub.CodeInvalid, "parley", "%s: line %d: team %s: %v", path, lines["teams/"+string(id)], id, err)
		}
	}
	return file, nil
}

// lineNumbers returns the lines on which the agents and teams of a file are declared, as
// agents/NAME and teams/NAME.
func lineNumbers(raw []byte) map[string]int {
	lines := map[string]int{}
	var doc map[string]yaml.Node
	yaml.Unmarshal(raw, &doc) // it was read before
	for list, node := range doc {
		for i := 0; i+1 < len(node.Content); i += 2 {
			lines[list+"/"+node.Content[i].Value] = node.Content[i].Line
		}
	}
	return lines
}

// check finds mistakes that need no hub.
func (u upTeam) check(id hub.TeamID) error {
	switch {
	case !id.Valid():
		return errors.New("its name is not valid: lower case letters, digits, dots, dashes and underlines, at most 64")
	case u.Goal == "":
		return errors.New("it needs a goal")
	case len(u.Members) == 0:
		return errors.New("it needs members")
	}
	for _, agent := range slices.Sorted(maps.Keys(u.Members)) {
		if role := u.Members[agent]; !slices.Contains(hub.Roles, role) {
			return fmt.Errorf("member %s: %q is not one of %s", agent, role, strings.Join(words(hub.Roles), ", "))
		}
	}
	return nil
}

// step compares a team with that of the hub; without a hub it is new.
func (u upTeam) step(ctx context.Context, c *rpc.Client, id hub.TeamID) (upStep, error) {
	step := upStep{Team: id, Action: "none", Reason: "as it is"}
	var seats []team.Seat
	for _, agent := range slices.Sorted(maps.Keys(u.Members)) {
		seats = append(seats, team.Seat{Agent: agent, Role: u.Members[agent]})
	}
	var now team.Answer
	err := error(hub.Errorf(hub.CodeNotFound, "parley", "no hub"))
	if c != nil {
		now, err = rpc.Call(ctx, c, api.Team, team.Request{Action: "show", Team: id, Limit: 1})
	}
	if hub.CodeOf(err) == hub.CodeNotFound {
		step.Action, step.Reason = "create", fmt.Sprintf("%d members: %s", len(seats), u.Goal)
		step.team = []team.Request{{Action: "create", Team: id, Objective: u.Goal, Members: seats}, {Action: "status", Team: id, Lifecycle: hub.TeamActive}}
		return step, nil
	}
	if err != nil {
		return step, err
	}
	var changes []string
	for _, seat := range seats {
		i := slices.IndexFunc(now.Team.Members, func(m team.Seat) bool { return m.Agent == seat.Agent })
		switch {
		case i < 0:
			changes = append(changes, fmt.Sprintf("%s becomes %s", seat.Agent, seat.Role))
			step.team = append(step.team, team.Request{Action: "add", Team: id, Agent: seat.Agent, Role: seat.Role})
		case now.Team.Members[i].Role != seat.Role:
			changes = append(changes, fmt.Sprintf("%s changes from %s to %s", seat.Agent, now.Team.Members[i].Role, seat.Role))
			step.team = append(step.team, team.Request{Action: "role", Team: id, Agent: seat.Agent, Role: seat.Role, Reason: "coverage"})
		}
	}
	if len(changes) > 0 {
		step.Action, step.Reason = "change", strings.Join(changes, ", ")
	}
	return step, nil
}

// check finds mistakes that need no hub.
func (u upAgent) check(name hub.AgentID) error {
	_, budget := perHour(u.Budget)
	info, err := os.Stat(u.Dir)
	switch {
	case !name.Valid():
		return errors.New("its name is not valid: lower case letters, digits, dots, dashes and underlines, at most 64")
	case (u.CLI == "") == (len(u.Command) == 0):
		return errors.New("give either cli or command")
	case !slices.Contains([]sandbox.Policy{sandbox.PolicyRead, sandbox.PolicyWrite, sandbox.PolicyAsk}, u.Policy):
		return fmt.Errorf("policy: %q is not read, write or ask", u.Policy)
	case u.Role != "" && !slices.Contains(hub.Roles, u.Role):
		return fmt.Errorf("role: %q is not one of %s", u.Role, strings.Join(words(hub.Roles), ", "))
	case budget != nil:
		return fmt.Errorf("budget: %q is not of the form 20/h", u.Budget)
	case err != nil || !info.IsDir():
		return fmt.Errorf("dir: %s is not a folder", u.Dir)
	case u.Idle < 0 || u.Hang < 0 || u.AnswerWithin < 0:
		return errors.New("idle, hang and answer_within must not be negative")
	}
	_, err = keptProgram(u.CLI, u.Command)
	return err
}

// params returns the parameters that keep the agent.
func (u upAgent) params(name hub.AgentID) (p api.KeepParams, err error) {
	p.Agent, p.CLI, p.Policy, p.Role, p.Can, p.Memory, p.Worktree = name, u.CLI, u.Policy, u.Role, u.Can, hub.Count(u.Memory), u.Worktree
	for into, d := range map[*keeper.Seconds]time.Duration{&p.Idle: u.Idle, &p.Hang: u.Hang, &p.Question: u.AnswerWithin} {
		*into = keeper.Seconds(d / time.Second)
	}
	if p.PerHour, err = perHour(u.Budget); err != nil {
		return p, err
	}
	p.Path = os.Getenv("PATH")
	if p.Command, err = keptProgram(u.CLI, u.Command); err != nil {
		return p, err
	}
	p.Dir, err = filepath.EvalSymlinks(u.Dir)
	return p, err
}

// keptByName returns the agents that a hub keeps.
func keptByName(ctx context.Context, c *rpc.Client) (map[hub.AgentID]api.KeptAgent, error) {
	got, err := rpc.Call(ctx, c, api.ListKept, api.None{})
	out := map[hub.AgentID]api.KeptAgent{}
	for _, k := range got.Agents {
		out[k.Agent] = k
	}
	return out, err
}

// plan compares a file with the agents and teams of the hub. Without a hub everything is new.
func (file upFile) plan(ctx context.Context, c *rpc.Client) (upPlan, error) {
	plan := upPlan{Steps: []upStep{}}
	kept, roles := map[hub.AgentID]api.KeptAgent{}, map[hub.AgentID]hub.Role{}
	if c != nil {
		var err error
		if kept, err = keptByName(ctx, c); err != nil {
			return plan, err
		}
		agents, err := rpc.Call(ctx, c, api.ListAgents, api.None{})
		if err != nil {
			return plan, err
		}
		for _, one := range agents.Agents {
			roles[one.ID] = one.Role
		}
	}
	if c != nil {
		if err := file.checkMembers(roles); err != nil {
			return plan, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(file.Agents)) {
		u := file.Agents[name]
		p, err := u.params(name)
		if err != nil {
			return plan, err
		}
		step := upStep{Agent: name, Action: "none", Reason: "as it is", params: p}
		now, known := kept[name]
		changes := differences(now.Definition, p)
		if was := roles[name]; was != "" && u.Role != "" && was != u.Role {
			step.role = true
			changes = append(changes, fmt.Sprintf("role %s to %s", was, u.Role))
		}
		switch {
		case !known:
			step.Action, step.Reason = "keep", fmt.Sprintf("%s in %s, policy %s", cmp.Or(p.CLI, strings.Join(p.Command, " ")), p.Dir, p.Policy)
		case len(changes) > 0:
			step.Action, step.Reason = "change", strings.Join(changes, ", ")
		case now.State == keeper.Stopped:
			step.Action, step.Reason = "restart", cmp.Or(now.Problem, "it is stopped")
		}
		if p.CLI == "" && (!known || !slices.Equal(now.Command, p.Command)) {
			step.Asks = p.Command
		}
		plan.Steps = append(plan.Steps, step)
	}
	for _, id := range slices.Sorted(maps.Keys(file.Teams)) {
		step, err := file.Teams[id].step(ctx, c, id)
		if err != nil {
			return plan, err
		}
		plan.Steps = append(plan.Steps, step)
	}
	return plan, nil
}

// checkMembers refuses a team with a member that is neither in the file nor on the hub,
// whose agents have roles.
func (file upFile) checkMembers(roles map[hub.AgentID]hub.Role) error {
	for _, id := range slices.Sorted(maps.Keys(file.Teams)) {
		for _, member := range slices.Sorted(maps.Keys(file.Teams[id].Members)) {
			_, declared := file.Agents[member]
			if _, known := roles[member]; !declared && !known {
				return hub.Errorf(hub.CodeUnknownRecipient, "parley", "team %s: no agent named %q in the file or on this hub", id, member).
					WithHint("declare it under agents, or add it: parley agent add %s", member)
			}
		}
	}
	return nil
}

// differences returns the changes that make a definition that of the parameters. The
// folder of a worktree was chosen by the hub.
func differences(was keeper.Definition, p api.KeepParams) (out []string) {
	differ := func(name string, was, now any) {
		if was != now {
			out = append(out, fmt.Sprintf("%s %v to %v", name, cmp.Or(fmt.Sprint(was), "none"), cmp.Or(fmt.Sprint(now), "none")))
		}
	}
	differ("cli", was.CLI, p.CLI)
	differ("command", strings.Join(was.Command, " "), strings.Join(p.Command, " "))
	differ("worktree", was.Branch != "", p.Worktree)
	if was.Branch == "" && !p.Worktree {
		differ("dir", was.Dir, p.Dir)
	}
	differ("policy", was.Policy, p.Policy)
	differ("budget", was.PerHour, p.PerHour)
	differ("idle", was.Idle, p.Idle)
	differ("hang", was.Hang, p.Hang)
	differ("answer_within", was.Question, p.Question)
	differ("memory", was.Memory, p.Memory)
	return out
}

// up makes the hub keep the agents of a file, after a yes.
func (a *app) up(ctx context.Context, file upFile, yes, commands, dry bool) error {
	home, err := a.homeDir()
	if err != nil {
		return err
	}
	running, err := a.runningHub(ctx, home)
	if err != nil {
		return err
	}
	var c *rpc.Client
	if running != nil {
		c = running.Client
	}
	plan, err := file.plan(ctx, c)
	if err != nil {
		return err
	}
	if c == nil {
		plan.Hub = home
	}
	if dry || plan.idle() {
		plan.Applied = !dry
		return a.print(plan, plan.write)
	}
	if !a.json {
		plan.write(a.err)
	}
	if ok, err := a.agreed(ctx, plan, yes, commands); err != nil || !ok {
		return err
	}
	if c == nil {
		settings, err := a.loadConfig(home)
		if err != nil {
			return err
		}
		started, err := a.hubForRun(ctx, home, settings)
		if err != nil {
			return err
		}
		c = started.Client
		shown := plan.Hub
		if plan, err = file.plan(ctx, c); err != nil { // the hub may keep some already
			return err
		}
		plan.Hub = shown
	}
	for _, s := range plan.Steps {
		if err := s.apply(ctx, c); err != nil {
			return hub.Errorf(hub.CodeOf(err), "parley", "%s: %w; the plan is carried out up to there", s.name(), err)
		}
	}
	plan.Applied = true
	return a.print(plan, func(w io.Writer) { fmt.Fprintf(w, "%d agents are up: parley agent kept\n", len(file.Agents)) })
}

// agreed asks whether a plan may be carried out, and about each command that is no
// known agent.
func (a *app) agreed(ctx context.Context, plan upPlan, yes, commands bool) (bool, error) {
	terminal := isTerminal(a.in)
	if !yes && !terminal {
		return false, usagef("no person is here to agree to the plan").WithHint("--yes agrees to it, --dry-run shows it")
	}
	for _, s := range plan.Steps {
		switch {
		case s.Asks == nil || yes && commands:
		case yes || !terminal:
			return false, hub.Errorf(hub.CodeDenied, "parley", "agent %s runs a command that is no known agent: %s", s.Agent, strings.Join(s.Asks, " ")).
				WithHint("--allow-commands agrees to it")
		default:
			ok, err := a.askYes(ctx, fmt.Sprintf("Run %s, which is no known agent, in %s?", strings.Join(s.Asks, " "), s.params.Dir))
			if err != nil || !ok {
				return false, err
			}
		}
	}
	if yes {
		return true, nil
	}
	return a.askYes(ctx, "Carry out this plan? Turns cost tokens.")
}

// apply makes the change of one agent or team.
func (s upStep) apply(ctx context.Context, c *rpc.Client) (err error) {
	for _, r := range s.team {
		if _, err := rpc.Call(ctx, c, api.Team, r); err != nil {
			return err
		}
	}
	if s.Team != "" {
		return nil
	}
	switch s.Action {
	case "keep", "change":
		_, err = rpc.Call(ctx, c, api.KeepAgent, s.params)
	case "restart":
		_, err = rpc.Call(ctx, c, api.RestartAgent, api.RestartParams{Agent: s.Agent})
	}
	if err == nil && s.role {
		_, err = rpc.Call(ctx, c, api.SetRole, api.AgentParams{ID: s.Agent, Role: s.params.Role})
	}
	return err
}

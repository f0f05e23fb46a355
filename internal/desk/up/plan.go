package up

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/team"
	"github.com/parley-agents/parley/internal/work/keeper"
)

// An Action is the change that a step makes.
type Action string

// The actions.
const (
	Keep    Action = "keep"    // an agent that the hub did not keep
	Create  Action = "create"  // a team that is new
	Change  Action = "change"  // an agent or a team that differs from the file
	Restart Action = "restart" // an agent that is stopped
	Stop    Action = "stop"    // an agent, whose mail waits
	Forget  Action = "forget"  // an agent that is not to be kept any more
	None    Action = "none"    // nothing
)

// A Step is the change that one agent or one team needs.
type Step struct {
	Agent  hub.AgentID `json:"agent,omitempty"`
	Team   hub.TeamID  `json:"team,omitempty"`
	Action Action      `json:"action"`
	Reason string      `json:"reason,omitempty"`  // for people
	Asks   []string    `json:"command,omitempty"` // a command that is no known agent and needs a yes

	params api.KeepParams
	role   bool // the role of the agent is changed, too
	team   []api.TeamParams
}

// Name returns the name of the agent, or of the team as messages address it.
func (s Step) Name() string {
	if s.Team != "" {
		return "team:" + string(s.Team)
	}
	return string(s.Agent)
}

// Dir returns the folder in which the agent of a step will work.
func (s Step) Dir() string { return s.params.Dir }

// A Plan is all that is to be done, in the order of the names.
type Plan struct {
	Hub     string `json:"hub,omitempty"` // the home in which a hub is started
	Steps   []Step `json:"steps"`
	Applied bool   `json:"applied"`
}

// Idle reports whether there is nothing to do.
func (p Plan) Idle() bool {
	return p.Hub == "" && !slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Action != None })
}

// Apply carries the plan out, step by step. A step that fails ends it.
func (p *Plan) Apply(ctx context.Context, c *rpc.Client) error {
	for _, s := range p.Steps {
		if err := s.apply(ctx, c); err != nil {
			return hub.Errorf(hub.CodeOf(err), "up.Apply", "%s: %w; the steps before it are done", s.Name(), err)
		}
	}
	p.Applied = true
	return nil
}

// apply makes the change of one agent or team.
func (s Step) apply(ctx context.Context, c *rpc.Client) (err error) {
	for _, r := range s.team {
		if _, err := rpc.Call(ctx, c, api.Team, r); err != nil {
			return err
		}
	}
	if s.Team != "" {
		return nil
	}
	switch s.Action {
	case Keep, Change:
		_, err = rpc.Call(ctx, c, api.KeepAgent, s.params)
	case Restart:
		_, err = rpc.Call(ctx, c, api.RestartAgent, api.RestartParams{Agent: s.Agent})
	}
	if err == nil && s.role {
		_, err = rpc.Call(ctx, c, api.SetRole, api.AgentParams{ID: s.Agent, Role: s.params.Role})
	}
	return err
}

// Plan compares the file with the agents and teams of the hub that c calls. Without a hub,
// for a nil client, everything is new.
func (f File) Plan(ctx context.Context, c *rpc.Client) (Plan, error) {
	plan := Plan{Steps: []Step{}}
	kept := map[hub.AgentID]api.KeptAgent{}
	roles := map[hub.AgentID]hub.Role{}
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
		if err := f.checkMembers(roles); err != nil {
			return plan, err
		}
	}

	// The steps are sorted by name, so that the plan of a file reads the same each time.
	for _, name := range slices.Sorted(maps.Keys(f.Agents)) {
		now, known := kept[name]
		step, err := f.Agents[name].step(name, now, known, roles[name])
		if err != nil {
			return plan, err
		}
		plan.Steps = append(plan.Steps, step)
	}

	// Teams follow the agents, which are their members.
	for _, id := range slices.Sorted(maps.Keys(f.Teams)) {
		step, err := f.Teams[id].step(ctx, c, id)
		if err != nil {
			return plan, err
		}
		plan.Steps = append(plan.Steps, step)
	}
	return plan, nil
}

// checkMembers refuses a team with a member that is neither in the file nor on the hub,
// whose agents have roles.
func (f File) checkMembers(roles map[hub.AgentID]hub.Role) error {
	for _, id := range slices.Sorted(maps.Keys(f.Teams)) {
		for _, member := range slices.Sorted(maps.Keys(f.Teams[id].Members)) {
			_, declared := f.Agents[member]
			if _, known := roles[member]; !declared && !known {
				return hub.Errorf(hub.CodeUnknownRecipient, "up.Plan", "team %s: no agent named %q in the file or on this hub", id, member).
					WithHint(`declare it under agents, or run "parley agent add %s"`, member)
			}
		}
	}
	return nil
}

// step compares an agent with the one that the hub keeps, if known, and with its role on
// the hub, "" if the hub does not have the agent.
func (a Agent) step(name hub.AgentID, now api.KeptAgent, known bool, role hub.Role) (Step, error) {
	p, err := a.params(name)
	step := Step{Agent: name, Action: None, Reason: "unchanged", params: p}
	if err != nil {
		return step, err
	}
	changes := differences(now.Definition, p)
	if role != "" && a.Role != "" && role != a.Role {
		step.role = true
		changes = append(changes, fmt.Sprintf("role %s to %s", role, a.Role))
	}

	switch {
	case !known:
		step.Action = Keep
		step.Reason = fmt.Sprintf("%s in %s, policy %s", cmp.Or(p.CLI, strings.Join(p.Command, " ")), p.Dir, p.Policy)
	case len(changes) > 0:
		step.Action = Change
		step.Reason = strings.Join(changes, ", ")
	case now.State == keeper.Stopped:
		step.Action = Restart
		step.Reason = cmp.Or(now.Problem, "stopped")
	}
	if p.CLI == "" && (!known || !slices.Equal(now.Command, p.Command)) {
		step.Asks = p.Command
	}
	return step, nil
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
	differ("network", was.Network, p.Network)
	differ("v2", was.V2, p.V2)
	differ("budget", was.PerHour, p.PerHour)
	differ("idle", was.Idle, p.Idle)
	differ("hang", was.Hang, p.Hang)
	differ("answer_within", was.Question, p.Question)
	differ("memory", was.Memory, p.Memory)
	return out
}

// step compares a team with that of the hub; without a hub it is new.
func (t Team) step(ctx context.Context, c *rpc.Client, id hub.TeamID) (Step, error) {
	step := Step{Team: id, Action: None, Reason: "unchanged"}
	var seats []team.Seat
	for _, agent := range slices.Sorted(maps.Keys(t.Members)) {
		seats = append(seats, team.Seat{Agent: agent, Role: t.Members[agent]})
	}
	var now team.Answer
	err := error(hub.Errorf(hub.CodeNotFound, "up.Plan", "no hub"))
	if c != nil {
		now, err = rpc.Call(ctx, c, api.Team, api.TeamParams{Action: "show", Team: id, Limit: 1})
	}

	switch hub.CodeOf(err) {
	case "":
		step.seat(seats, now.Team.Members)
	case hub.CodeNotFound:
		step.Action = Create
		step.Reason = fmt.Sprintf("%d members: %s", len(seats), t.Goal)
		step.team = []api.TeamParams{
			{Action: "create", Team: id, Objective: t.Goal, Members: seats},
			{Action: "status", Team: id, Lifecycle: hub.TeamActive},
		}
	default:
		return step, err
	}
	return step, nil
}

// seat makes the step the change that gives a team with the members now the seats that it
// lacks.
func (s *Step) seat(seats, now []team.Seat) {
	var changes []string
	for _, seat := range seats {
		i := slices.IndexFunc(now, func(m team.Seat) bool { return m.Agent == seat.Agent })
		switch {
		case i < 0:
			changes = append(changes, fmt.Sprintf("%s becomes %s", seat.Agent, seat.Role))
			s.team = append(s.team, api.TeamParams{Action: "add", Team: s.Team, Agent: seat.Agent, Role: seat.Role})
		case now[i].Role != seat.Role:
			changes = append(changes, fmt.Sprintf("%s changes from %s to %s", seat.Agent, now[i].Role, seat.Role))
			s.team = append(s.team, api.TeamParams{Action: "role", Team: s.Team, Agent: seat.Agent, Role: seat.Role, Reason: "coverage"})
		}
	}
	if len(changes) > 0 {
		s.Action = Change
		s.Reason = strings.Join(changes, ", ")
	}
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

// Down stops the agents of the file, whose mail then waits; with forget the hub does not
// keep them any more. It returns the plan that it carried out.
func (f File) Down(ctx context.Context, c *rpc.Client, forget bool) (Plan, error) {
	plan := Plan{Steps: []Step{}, Applied: true}
	kept, err := keptByName(ctx, c)
	if err != nil {
		return plan, err
	}
	for _, name := range slices.Sorted(maps.Keys(f.Agents)) {
		now, known := kept[name]
		step := stopping(name, now, known, forget)
		if step.Action != None {
			if _, err := rpc.Call(ctx, c, api.StopAgent, api.StopParams{Agent: name, Forget: forget}); err != nil {
				return plan, err
			}
		}
		plan.Steps = append(plan.Steps, step)
	}
	return plan, nil
}

// stopping returns the step that stops an agent, which the hub keeps if known.
func stopping(name hub.AgentID, now api.KeptAgent, known, forget bool) Step {
	step := Step{Agent: name, Action: Stop, Reason: "stopped; its mail is kept"}
	switch {
	case !known:
		step.Action = None
		step.Reason = "not kept"
	case forget:
		step.Action = Forget
		step.Reason = "no longer kept"
	case now.State == keeper.Stopped:
		step.Action = None
		step.Reason = "already stopped"
	}
	return step
}

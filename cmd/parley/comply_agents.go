package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/text/pattern"
	"github.com/parley-agents/parley/protocol/comply"
	"github.com/parley-agents/parley/protocol/comply/model"
)

// selectAgents returns the agents to test: the command line, the agents of the file, or
// known agents.
func (a *app) selectAgents(f complyFlags, args []string) ([]comply.Agent, error) {
	var agents []comply.Agent
	switch {
	case f.agents == "" && len(args) == 0 && len(f.only) == 0:
		return nil, usagef("no agent to test").WithHint("pass its command after --, a file with --agents, or a name from --list-agents with --agent")
	case f.agents != "" && len(args) > 0:
		return nil, usagef("--agents and a command after -- cannot be combined").WithHint("use one of the two")
	case len(f.only) > 0 && len(args) > 0:
		return nil, usagef("--agent and the command %s cannot be combined", args[0]).WithHint("use one of the two; --test NAME selects a test")
	case len(args) > 0:
		agents = []comply.Agent{{Name: filepath.Base(args[0]), Command: args[0], Args: args[1:]}}
	case f.agents == "":
		known, err := a.knownAgents()
		if err != nil {
			return nil, err
		}
		for _, k := range known {
			if slices.Contains(f.only, k.Name) && !k.Installed() {
				return nil, usagef("--agent: %s is not installed in %s", k.Name, k.Root).WithHint(`run "scripts/agents %s" to install it`, k.Name)
			}
			agents = append(agents, k.Agent)
		}
	default:
		text, err := os.ReadFile(f.agents)
		if err != nil {
			return nil, invalid(err)
		}
		if agents, err = comply.ParseAgents(f.agents, text); err != nil {
			return nil, invalid(err)
		}
	}

	// Each name of --agent must be among the agents that were found.
	for _, name := range f.only {
		if !slices.ContainsFunc(agents, func(a comply.Agent) bool { return a.Name == name }) {
			return nil, usagef("--agent: no agent named %q", name).WithHint(`run "parley comply --list-agents" to list the agents that Parley can start`)
		}
	}
	if len(f.only) > 0 {
		agents = slices.DeleteFunc(agents, func(a comply.Agent) bool { return !slices.Contains(f.only, a.Name) })
	}

	for i := range agents {
		addEnv(&agents[i], f.env)
	}
	return agents, nil
}

// addEnv gives an agent the variables of --env: NAME, or NAME=VALUE.
func addEnv(a *comply.Agent, env []string) {
	if a.Env == nil {
		a.Env = map[string]string{}
	}
	for _, v := range env {
		name, value, given := strings.Cut(v, "=")
		if !given {
			value = os.Getenv(name)
		}
		a.Env[name] = value
	}
}

// knownAgents returns the known agents, for an installation in the home.
func (a *app) knownAgents() ([]comply.KnownAgent, error) {
	home, err := a.homeDir()
	if err != nil {
		return nil, err
	}
	return comply.KnownAgents(filepath.Join(home, "agents"))
}

// complyAgentsCommand holds the commands about agents that Parley knows how to start.
func (a *app) complyAgentsCommand() *cobra.Command {
	return group("agents", "Manage the agents that Parley can start", a.complyAddCommand())
}

// addedName matches the names that an agent can be added under: they are names of folders.
var addedName = pattern.New(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// features are the features that an agent is tried for when it is added, each with the test that
// needs it: NA means that the scripted model could not make the agent use it.
var features = []struct{ name, test string }{
	{"open a session", "required.session.new"},
	{"say text", "prompt.text"},
	{"call tools", "tool.calls"},
	{"ask for permission", "permission.allow"},
	{"read through the client", "fs.read"},
	{"write through the client", "fs.write"},
	{"use a terminal of the client", "terminal.use"},
	{"show a plan", "plan"},
	{"show a diff", "tool.diff"},
	{"use a tool of an MCP server", "mcp.tool"},
	{"load a session", "session.load"},
	{"change its mode", "mode.set"},
	{"ask for values", "elicitation"},
}

// A triedFeature is a feature of an agent and the result of its test.
type triedFeature struct {
	Feature string        `json:"feature"`
	Test    string        `json:"test"`
	Driven  bool          `json:"driven"`
	Status  comply.Status `json:"status"`
	Reason  string        `json:"reason"`
}

// complyAddCommand adds an agent.
func (a *app) complyAddCommand() *cobra.Command {
	var f complyFlags
	cmd := &cobra.Command{
		Use:   "add NAME [flags] -- COMMAND [ARG...]",
		Short: "Try an agent and add it to the known agents",
		Long: `Start an agent with the scripted model, try its features, and write
agents/NAME/agent.json in the hub's home. From then on, "parley comply --agent NAME"
tests it. An agent that cannot start or does not open a session is not added.

To use the scripted model, the agent needs its address: put ${modelURL} into an
argument or into a variable passed with --env.`,
		Example: `  parley comply agents add mine --env 'OPENAI_BASE_URL=${modelURL}/v1' --env OPENAI_API_KEY=any -- my-agent --acp`,
		Args:    cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.ArgsLenAtDash() != 1 {
				return usagef("the agent's command must follow --")
			}
			return a.addAgent(cmd.Context(), f, args[0], args[1:])
		},
	}
	cmd.Flags().StringArrayVar(&f.env, "env", nil, "variable to pass to the agent: NAME, or NAME=VALUE")
	cmd.Flags().Float64Var(&f.run.TimeoutScale, "timeout-scale", 1, "factor for all timeouts, for slow agents and machines")
	return cmd
}

// addAgent tries an agent and writes its file.
func (a *app) addAgent(ctx context.Context, f complyFlags, name string, command []string) error {
	if !addedName().MatchString(name) {
		return usagef("%q is not a valid agent name", name).WithHint("use at most 64 lowercase letters, digits, dots, dashes and underscores, starting with a letter or digit")
	}
	known, err := a.knownAgents()
	if err != nil {
		return invalid(err)
	}

	home, err := a.homeDir()
	if err != nil {
		return err
	}
	dir := filepath.Join(home, "agents")
	taken := hub.Errorf(hub.CodeConflict, "parley", "agent %s already exists", name).WithHint("choose another name, or remove %s", filepath.Join(dir, name))
	if slices.ContainsFunc(known, func(k comply.KnownAgent) bool { return k.Name == name }) {
		return taken
	}

	agent := comply.KnownAgent{Agent: comply.Agent{Name: name, Command: command[0], Args: command[1:]}}
	addEnv(&agent.Agent, f.env)
	// The file must mean the same in another folder.
	if agent.Dir, err = os.Getwd(); err != nil {
		return err
	}
	if strings.ContainsRune(agent.Command, filepath.Separator) {
		if agent.Command, err = filepath.Abs(agent.Command); err != nil {
			return err
		}
	}

	report, err := a.tryAgent(ctx, f, agent.Agent)
	if err != nil {
		return err
	}
	tried := []triedFeature{}
	for i, t := range report.Tests {
		tried = append(tried, triedFeature{features[i].name, t.ID, t.Status != comply.NA && t.Status != comply.Errored, t.Status, t.Reason})
	}
	if !tried[0].Driven || report.Tests[0].Failed() {
		return invalid(fmt.Errorf("%s did not open a session: %s", command[0], tried[0].Reason))
	}

	var info struct{ Name, Title, Version string }
	json.Unmarshal(report.AgentInfo, &info) // an agent need not say
	agent.Title, agent.Version = info.Title, strings.TrimSpace(info.Name+" "+info.Version)
	file, err := comply.AddAgent(dir, agent)
	if errors.Is(err, fs.ErrExist) {
		return taken
	}
	if err != nil {
		return err
	}

	return a.print(map[string]any{"file": file, "model": agent.UsesModel(), "features": tried}, func(w io.Writer) {
		for _, t := range tried {
			word, why := "yes", ""
			if !t.Driven {
				word, why = "no", t.Reason
			}
			fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("%-30s %-4s %s", t.Feature, word, why), " "))
		}
		if !agent.UsesModel() {
			fmt.Fprintln(w, "the agent did not use the scripted model: ${modelURL} is not in its command or variables")
		}
		fmt.Fprintf(w, `wrote %s; run "parley comply --agent %s" to test the agent`+"\n", file, name)
	})
}

// tryAgent runs the tests of the features.
func (a *app) tryAgent(ctx context.Context, f complyFlags, agent comply.Agent) (*comply.AgentReport, error) {
	if f.run.TimeoutScale <= 0 {
		return nil, usagef("--timeout-scale must be greater than 0")
	}
	suite, err := comply.Suite()
	if err != nil {
		return nil, err
	}
	var tests []*comply.Test
	for _, feature := range features {
		tests = append(tests, suite[slices.IndexFunc(suite, func(t *comply.Test) bool { return t.ID == feature.test })])
	}
	endModel, err := f.startModel(ctx, []comply.Agent{agent})
	if err != nil {
		return nil, err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	f.run.Once = true // a try is no judgement
	report, err := comply.Run(ctx, []comply.Agent{agent}, tests, &f.run)
	if unstarted := (*comply.StartError)(nil); errors.As(err, &unstarted) {
		err = invalid(err)
	}
	if err := errors.Join(err, endModel()); err != nil {
		return nil, err
	}
	return &report.Agents[0], nil
}

// startModel starts the scripted model if an agent needs it. The returned function ends it.
func (f *complyFlags) startModel(ctx context.Context, agents []comply.Agent) (end func() error, _ error) {
	if !f.withModel && f.script == "" && !slices.ContainsFunc(agents, comply.Agent.UsesModel) {
		return func() error { return nil }, nil
	}
	script, err := modelScript(f.script)
	if err != nil {
		return nil, err
	}
	listener, err := model.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f.run.ModelURL = "http://" + listener.Addr().String()
	ctx, cancel := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- model.New(script).Serve(ctx, listener) }()
	return func() error {
		cancel()
		return <-served
	}, nil
}

func (a *app) listAgents() error {
	agents, err := a.knownAgents()
	if err != nil {
		return err
	}
	type item struct {
		Name      string `json:"name"`
		Title     string `json:"title"`
		Version   string `json:"version"`
		Licence   string `json:"licence"`
		API       string `json:"api"`
		Installed bool   `json:"installed"`
	}
	items := []item{}
	for _, k := range agents {
		items = append(items, item{k.Name, k.Title, k.Version, k.Licence, k.API, k.Installed()})
	}
	return a.print(map[string]any{"agents": items}, func(w io.Writer) {
		for _, i := range items {
			state := "not installed"
			if i.Installed {
				state = "installed"
			}
			fmt.Fprintf(w, "%-18s %-14s %s\n", i.Name, state, i.Version)
		}
	})
}

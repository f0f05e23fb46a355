package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parley-agents/parley/comply"
	"github.com/parley-agents/parley/comply/model"
)

// selectAgents returns the agents to test: the command line, the agents of the file, or
// known agents.
func (a *app) selectAgents(f complyFlags, args []string) ([]comply.Agent, error) {
	var agents []comply.Agent
	switch {
	case f.agents == "" && len(args) == 0 && len(f.only) == 0:
		return nil, usagef("no agent to test").WithHint("give its command after --, a file with --agents, or a name from --list-agents with --agent")
	case f.agents != "" && len(args) > 0:
		return nil, usagef("both --agents and a command after --").WithHint("give one of the two")
	case len(args) > 0:
		agents = []comply.Agent{{Name: filepath.Base(args[0]), Command: args[0], Args: args[1:]}}
	case f.agents == "":
		known, err := a.knownAgents()
		if err != nil {
			return nil, err
		}
		for _, k := range known {
			if slices.Contains(f.only, k.Name) && !k.Installed() {
				return nil, usagef("--agent: %s is not installed in %s", k.Name, k.Root).WithHint("scripts/agents %s installs it", k.Name)
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
	for _, name := range f.only {
		if !slices.ContainsFunc(agents, func(a comply.Agent) bool { return a.Name == name }) {
			return nil, usagef("--agent: no agent %q", name).WithHint("parley comply --list-agents lists the agents that Parley knows how to start")
		}
	}
	if len(f.only) > 0 {
		agents = slices.DeleteFunc(agents, func(a comply.Agent) bool { return !slices.Contains(f.only, a.Name) })
	}
	for i := range agents {
		if agents[i].Env == nil {
			agents[i].Env = map[string]string{}
		}
		for _, v := range f.env {
			name, value, given := strings.Cut(v, "=")
			if !given {
				value = os.Getenv(name)
			}
			agents[i].Env[name] = value
		}
	}
	return agents, nil
}

// knownAgents returns the known agents, for an installation in the home.
func (a *app) knownAgents() ([]comply.KnownAgent, error) {
	home, err := a.homeDir()
	if err != nil {
		return nil, err
	}
	return comply.KnownAgents(filepath.Join(home, "agents"))
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

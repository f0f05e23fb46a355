package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/briefing"
	"github.com/parley-agents/parley/internal/connect"
	"github.com/parley-agents/parley/internal/reach/catalog"
	"github.com/parley-agents/parley/internal/reach/fleet"
)

// needsConnection reports whether this user can give the CLI the hub's entries only in
// a file of the user.
func (l *launching) needsConnection() bool { return l.cli.RootOnly && os.Getuid() > 0 }

// runConnected runs a CLI as the agent of its permanent connection. If there is none,
// it names the file, asks once, and connects the CLI as parley connect --wake does.
// The session has no folder and no key of its own.
func (l *launching) runConnected(ctx context.Context, binary string) error {
	agent := connect.AgentOf(l.home, l.dir, l.cli.Name)
	switch {
	case agent == "":
		var err error
		if agent, err = l.connectOnce(ctx); err != nil {
			return err
		}
	case l.as != "" && l.as != agent:
		return hub.Errorf(hub.CodeConflict, "parley", "%s is connected as %s, for all its sessions", l.cli.Title, agent).
			WithHint("leave --as out, or change it: parley connect %s --agent %s --wake", l.cli.Name, l.as)
	}
	if err := l.offerRoot(ctx, l.client, l.dir); err != nil {
		return err
	}
	l.identity.Agent = agent
	args := l.args
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	return l.foreground(ctx, binary, args, fleet.Environment(""))
}

// connectOnce connects the CLI after a yes.
func (l *launching) connectOnce(ctx context.Context) (hub.AgentID, error) {
	agent := cmp.Or(l.as, hub.AgentID(l.cli.Name))
	c, err := l.connection(agent)
	if err != nil {
		return "", err
	}
	change, err := c.Preview()
	if err != nil {
		return "", err
	}
	var files []string
	for _, e := range change.Edits {
		if !slices.Contains(files, e.Path) {
			files = append(files, e.Path)
		}
	}
	file := strings.Join(files, " and ")
	if !isTerminal(l.in) {
		return "", hub.Errorf(hub.CodeDenied, "parley", "%s takes the hub's tools and hooks only from %s, and no person is here who could allow the change", l.cli.Title, file).
			WithHint("run once: parley connect %s --agent %s --wake", l.cli.Name, agent)
	}
	yes, err := l.askYes(ctx, fmt.Sprintf("%s takes the hub's tools and hooks only from %s. Write them there? parley launch %s --undo takes them out.", l.cli.Title, file, l.cli.Name))
	if err != nil {
		return "", err
	}
	if !yes {
		return "", hub.Errorf(hub.CodeDenied, "parley", "%s was not connected", l.cli.Title).WithHint("start it without Parley, or show the change: parley connect %s --agent %s --wake --print", l.cli.Name, agent)
	}
	if err := l.app.connect(ctx, c); err != nil {
		return "", err
	}
	return agent, identity{Agent: agent, CLI: l.cli.Name, Dir: l.dir, Connected: true, Last: hub.At(now())}.save(l.home)
}

// connection returns the permanent connection of the CLI as an agent.
func (l *launching) connection(agent hub.AgentID) (*connect.Connection, error) {
	c := &connect.Connection{Agent: agent, Role: l.role, Wake: true, Client: l.app.client}
	c.Entry.Instruction = briefing.Connected
	c.Place.Scope = catalog.ScopeUser
	return c, l.locate(c, l.cli.Name)
}

// disconnect takes out a connection that launch has made.
func (l *launching) disconnect(ctx context.Context, agent hub.AgentID) error {
	quiet := *l.app
	quiet.out = newPrinter(io.Discard)
	l = &launching{app: &quiet, cli: l.cli, home: l.home, dir: l.dir}
	c, err := l.connection(agent)
	if err != nil {
		return err
	}
	return quiet.disconnect(ctx, c)
}

package launch

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/cli"
	"github.com/parley-agents/parley/internal/desk/connect"
	"github.com/parley-agents/parley/internal/ground/briefing"
	"github.com/parley-agents/parley/internal/work/fleet"
)

// needsConnection reports whether this user can give the CLI the hub's entries only in
// a file of the user.
func (l *Launch) needsConnection() bool { return l.CLI.RootOnly && os.Getuid() > 0 }

// runConnected runs a CLI as the agent of its permanent connection. If there is none,
// it names the file, asks once, and connects the CLI as parley connect --wake does.
// The session has no folder and no key of its own.
func (l *Launch) runConnected(ctx context.Context, binary string) error {
	agent := connect.AgentOf(l.Home, l.Dir, l.CLI.Name)
	switch {
	case agent == "":
		var err error
		if agent, err = l.connectOnce(ctx); err != nil {
			return err
		}
	case l.As != "" && l.As != agent:
		return hub.Errorf(hub.CodeConflict, "launch.Run", "%s is connected as %s, for all its sessions", l.CLI.Title, agent).
			WithHint(`leave out --as, or run "parley connect %s --agent %s --wake" to change the agent`, l.CLI.Name, l.As)
	}
	if err := l.OfferRoot(ctx, l.client, l.Dir); err != nil {
		return err
	}

	l.identity.Agent = agent
	args := l.Args
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	return l.foreground(ctx, binary, args, fleet.Environment(""))
}

// connectOnce connects the CLI after a yes.
func (l *Launch) connectOnce(ctx context.Context) (hub.AgentID, error) {
	agent := cmp.Or(l.As, hub.AgentID(l.CLI.Name))
	c, err := l.connection(agent)
	if err != nil {
		return "", err
	}
	if err := l.agreeToConnect(ctx, c); err != nil {
		return "", err
	}

	done, err := c.Connect(ctx)
	if err == nil {
		err = l.Connected(c, done)
	}
	if err != nil {
		return "", err
	}
	i := Identity{Agent: agent, CLI: l.CLI.Name, Dir: l.Dir, Connected: true, Last: hub.At(time.Now())}
	return agent, i.Save(l.Home)
}

// agreeToConnect asks whether the files of a connection may be changed. It reports
// CodeDenied without a yes.
func (l *Launch) agreeToConnect(ctx context.Context, c *connect.Connection) error {
	change, err := c.Preview()
	if err != nil {
		return err
	}
	var files []string
	for _, e := range change.Edits {
		if !slices.Contains(files, e.Path) {
			files = append(files, e.Path)
		}
	}
	file := strings.Join(files, " and ")
	if l.Ask == nil {
		return hub.Errorf(hub.CodeDenied, "launch.Run", "%s reads the hub's tools and hooks only from %s, and there is no terminal to ask for permission", l.CLI.Title, file).
			WithHint(`run "parley connect %s --agent %s --wake" once`, l.CLI.Name, c.Agent)
	}

	yes, err := l.Ask(ctx, fmt.Sprintf(`%s reads the hub's tools and hooks only from %s. Write them there? "parley launch %s --undo" removes them.`, l.CLI.Title, file, l.CLI.Name))
	if err == nil && !yes {
		return hub.Errorf(hub.CodeDenied, "launch.Run", "%s was not connected", l.CLI.Title).WithHint(`start it without Parley, or run "parley connect %s --agent %s --wake --print" to see the change`, l.CLI.Name, c.Agent)
	}
	return err
}

// connection returns the permanent connection of the CLI as an agent.
func (l *Launch) connection(agent hub.AgentID) (*connect.Connection, error) {
	c := &connect.Connection{
		CLI: l.CLI, Agent: agent, Role: l.Role, Wake: true, Client: l.Client, Ask: l.Ask,
		Entry: cli.Entry{Instruction: briefing.Connected}, Place: cli.Place{Scope: cli.ScopeUser},
	}
	return c, c.Locate(l.Home, l.url)
}

// disconnect takes out a connection that launch has made.
func (l *Launch) disconnect(ctx context.Context, agent hub.AgentID) error {
	c, err := l.connection(agent)
	if err != nil {
		return err
	}
	done, err := c.Undo(ctx)
	if done.StillWakes != nil {
		l.Note(fmt.Sprintf("mail may still start turns: %v", done.StillWakes))
	}
	for _, note := range done.Notes() {
		l.Note(note)
	}
	return err
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/reach/catalog"
	"github.com/parley-agents/parley/internal/reach/terminal"
	"github.com/parley-agents/parley/server"
)

// A removal has the things that uninstall found, and is its answer with --json.
type removal struct {
	Home        string             `json:"home"`
	Connections []connectionRecord `json:"connections"`       // entries in files of CLIs
	Launched    []string           `json:"launched"`          // CLIs that were launched as agents
	Service     string             `json:"service,omitempty"` // the file of the service
	Running     bool               `json:"running"`           // a hub, before
	Worktrees   []string           `json:"worktrees"`         // folders of kept agents, with their work
	Purged      bool               `json:"purged"`            // the home was removed
	Program     string             `json:"program"`           // this program; it stays
	Removed     bool               `json:"removed"`           // false: nothing was changed
	Left        []string           `json:"left,omitempty"`    // sentences about the things that stay
	hub         bool               // the home is that of a hub
}

func (a *app) uninstallCommand() *cobra.Command {
	var yes, purge, printOnly bool
	cmd := &cobra.Command{
		Use: "uninstall", Short: "Take Parley out of agent CLIs and the system, and print what is left",
		Long: `Take the hub out of the files of agent CLIs, revoke their keys, remove the
service and stop the hub. The hub's home with all messages and records stays, unless
--purge is given. You are asked first; scripts say --yes. The program itself and the
home are named at the end, with how to remove them.`,
		Example: `  parley uninstall --print
  parley uninstall --purge`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := a.findRemoval()
			if err != nil {
				return err
			}
			if printOnly {
				return a.print(r, func(w io.Writer) { r.plan(w, purge); fmt.Fprintln(a.err, "nothing was changed") })
			}
			if !yes {
				if !isTerminal(a.in) {
					return usagef("no person is here who could confirm").WithHint("say --yes, or --print to see what would be removed")
				}
				r.plan(a.err, purge)
				question := "Do all of this?"
				if purge {
					question = "Do all of this? Messages, keys and records in " + r.Home + " cannot be had back."
				}
				if ok, err := a.askYes(cmd.Context(), question); err != nil || !ok {
					fmt.Fprintln(a.err, "nothing was changed")
					return err
				}
			}
			if err := a.remove(cmd.Context(), r, purge); err != nil {
				return err
			}
			return a.print(r, func(w io.Writer) {
				for _, line := range r.Left {
					fmt.Fprintln(w, line)
				}
			})
		},
	}
	f := cmd.Flags()
	f.BoolVar(&yes, "yes", false, "do not ask")
	f.BoolVar(&purge, "purge", false, "also remove the hub's home, with all messages, keys and records")
	f.BoolVar(&printOnly, "print", false, "print what would be removed, and change nothing")
	return cmd
}

// findRemoval finds the files and entries that Parley has made for this user and this home. It reports
// CodeNotFound if there is nothing.
func (a *app) findRemoval() (*removal, error) {
	s, err := a.service()
	if hub.CodeOf(err) == hub.CodeNotEnabled {
		s, err = nil, nil // this system has no services
	}
	if err != nil {
		return nil, err
	}
	home, err := a.homeDir()
	if err == nil {
		home, err = filepath.Abs(home)
	}
	if err != nil {
		return nil, err
	}
	r := &removal{Home: home, Connections: connections(home), Launched: []string{}, Worktrees: []string{}, Running: server.Running(home)}
	if r.Connections == nil {
		r.Connections = []connectionRecord{}
	}
	for _, i := range identities(home) {
		if !slices.Contains(r.Launched, i.CLI) {
			r.Launched = append(r.Launched, i.CLI)
		}
	}
	if s != nil {
		switch installed, err := s.Installed(); {
		case hub.CodeOf(err) == hub.CodeConflict: // the service of another home stays
		case err != nil:
			return nil, err
		case installed:
			r.Service = s.File
		}
	}
	if found, err := filepath.Glob(filepath.Join(home, "worktrees", "*")); err == nil && found != nil {
		r.Worktrees = found
	}
	_, err = os.Stat(filepath.Join(home, server.OperatorKeyFile))
	r.hub = err == nil
	if !r.hub && r.Service == "" && len(r.Connections) == 0 {
		return nil, hub.Errorf(hub.CodeNotFound, "parley", "there is no hub in %s, and no service of it", home).WithHint("give the hub's home with --home")
	}
	r.Program, err = os.Executable()
	return r, err
}

// plan writes the steps of a removal.
func (r *removal) plan(w io.Writer, purge bool) {
	for _, c := range r.Connections {
		where := "your files"
		if c.Dir != "" {
			where = c.Dir
		}
		fmt.Fprintf(w, "take the hub out of the files of %s in %s (agent %s)\n", c.CLI, where, c.Agent)
	}
	for _, cli := range r.Launched {
		fmt.Fprintf(w, "forget the launches of %s\n", cli)
	}
	if r.Service != "" {
		fmt.Fprintf(w, "remove the service %s\n", r.Service)
	}
	if r.Running {
		fmt.Fprintf(w, "stop the hub in %s\n", r.Home)
	}
	if purge {
		fmt.Fprintf(w, "remove the home %s\n", r.Home)
	}
}

// remove performs a removal. The hub, if it runs, revokes keys first and is stopped
// then. A step that fails ends it; to run it again goes on with the rest.
func (a *app) remove(ctx context.Context, r *removal, purge bool) error {
	if purge && !r.hub {
		return hub.Errorf(hub.CodeNotFound, "parley", "%s is not the home of a hub: it is not removed", r.Home)
	}
	os.Unsetenv("PARLEY_URL") // it may name another hub than that of the home
	quiet := *a               // the commands below speak for themselves otherwise
	quiet.out, quiet.json, quiet.home, quiet.asOperator, quiet.keyFile = newPrinter(io.Discard), false, r.Home, true, ""
	for _, c := range r.Connections {
		if err := quiet.disconnectRecord(ctx, c); err != nil {
			return fmt.Errorf("disconnect %s: %w", c.CLI, err)
		}
	}
	if r.Running {
		for _, name := range r.Launched {
			cli, err := terminal.Lookup(name)
			if err != nil {
				return err
			}
			l := launching{app: &quiet, cli: cli, home: r.Home}
			if err := l.takeBack(ctx); err != nil {
				return fmt.Errorf("forget the launches of %s: %w", name, err)
			}
		}
	}
	if r.Service != "" {
		s, err := quiet.service()
		if err == nil {
			err = s.Remove(ctx)
		}
		if err != nil {
			return err
		}
	}
	if server.Running(r.Home) { // the service has stopped its own
		c, err := quiet.client()
		if err == nil {
			_, err = stopHub(ctx, c, r.Home)
		}
		if err != nil {
			return err
		}
	}
	r.Removed = true
	for _, w := range r.Worktrees {
		if !purge {
			r.Left = append(r.Left, fmt.Sprintf("a kept agent has worked in %s; git worktree remove takes it away", w))
		}
	}
	if purge {
		if err := os.RemoveAll(r.Home); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		r.Purged = true
		if len(r.Worktrees) > 0 {
			r.Left = append(r.Left, "the branches parley/NAME of kept agents are in your repositories; git worktree prune forgets their folders")
		}
	} else {
		r.Left = append(r.Left, fmt.Sprintf("the hub's home %s stays, with messages, keys, records and the former files of CLIs in %s; parley uninstall --purge removes it", r.Home, backupsDir))
	}
	r.Left = append(r.Left, fmt.Sprintf("the program %s stays; remove it as you installed it (docs/uninstall.md)", r.Program))
	return nil
}

// disconnectRecord takes out one connection.
func (a *app) disconnectRecord(ctx context.Context, r connectionRecord) error {
	cli, err := catalog.Lookup(r.CLI)
	if err != nil {
		return err
	}
	c := &connection{app: a, cli: cli, agent: r.Agent}
	c.place.Scope, c.entry.Name, c.entry.Transport = r.Scope, r.Name, r.Transport
	if err := c.locate(); err != nil {
		return err
	}
	if r.Dir != "" {
		if _, err := os.Stat(r.Dir); errors.Is(err, fs.ErrNotExist) {
			return nil // its files are gone with it
		}
		c.place.Dir = r.Dir
	}
	return c.undo(ctx, false)
}

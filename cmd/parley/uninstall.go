package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/cli"
	"github.com/parley-agents/parley/internal/desk/connect"
	"github.com/parley-agents/parley/internal/desk/guard"
	"github.com/parley-agents/parley/internal/desk/launch"
)

func (a *app) uninstallCommand() *cobra.Command {
	var yes, purge, printOnly bool
	cmd := &cobra.Command{
		Use: "uninstall", Short: "Remove Parley from agent CLIs and the system",
		Long: `Remove the hub from the files of agent CLIs, revoke their keys, remove the service and
stop the hub. The hub's home, with all messages and records, stays unless --purge is
given. You are asked to confirm; scripts pass --yes. At the end the command prints how
to remove the program itself and the home.`,
		Example: `  parley uninstall --print
  parley uninstall --purge`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			u, err := a.uninstaller()
			if err != nil {
				return err
			}
			r, err := u.Find()
			if err != nil {
				return err
			}

			if printOnly {
				return a.print(r, func(w io.Writer) { r.WritePlan(w, purge); fmt.Fprintln(a.err, "nothing was changed") })
			}

			if !yes {
				if !isTerminal(a.in) {
					return usagef("this needs confirmation, and there is no terminal to ask on").WithHint("pass --yes, or --print to see what would be removed")
				}
				r.WritePlan(a.err, purge)
				question := "Do all of this?"
				if purge {
					question = "Do all of this? Messages, keys and records in " + r.Home + " cannot be recovered."
				}
				if ok, err := a.askYes(cmd.Context(), question); err != nil || !ok {
					fmt.Fprintln(a.err, "nothing was changed")
					return err
				}
			}

			if err := u.Remove(cmd.Context(), r, purge); err != nil {
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
	f.BoolVar(&yes, "yes", false, "do not ask for confirmation")
	f.BoolVar(&purge, "purge", false, "also remove the hub's home, with all messages, keys and records")
	f.BoolVar(&printOnly, "print", false, "print what would be removed, and change nothing")
	return cmd
}

// uninstaller returns the program that removes the hub of the home. It calls the hub as
// the operator, and never one that PARLEY_URL names: that may be another than the home's.
func (a *app) uninstaller() (*connect.Uninstaller, error) {
	home, err := a.homeDir()
	if err != nil {
		return nil, err
	}

	// This copy of the app calls the hub of the home with the operator's key.
	os.Unsetenv("PARLEY_URL")
	operator := *a
	operator.home = home
	operator.asOperator = true
	operator.keyFile = ""

	u := &connect.Uninstaller{Home: home, Launches: launches{app: &operator}, Guards: guards(home), Client: operator.client, Note: a.note}
	u.Stop = func(ctx context.Context) error {
		c, err := operator.client()
		if err == nil {
			_, err = stopHub(ctx, c, home)
		}
		return err
	}

	s, err := operator.service()
	switch {
	case hub.CodeOf(err) == hub.CodeNotEnabled: // this system has no services
		return u, nil
	case err != nil:
		return nil, err
	}
	u.Service = s
	u.ServiceFile = s.File
	return u, nil
}

// guards are the hooks of git that call the guard of a home.
type guards string

// Folders returns the hooks folders of repositories.
func (g guards) Folders() []string { return guard.Installed(string(g)) }

// Remove takes the guard out of the hook in a folder.
func (g guards) Remove(folder string) error {
	h, err := guard.HookIn(folder)
	if err != nil {
		return err
	}
	if _, err := h.Remove(); err != nil {
		return err
	}
	return guard.Note(string(g), h, false)
}

// launches are the agent CLIs that were launched as agents of the app's home, which is
// absolute.
type launches struct{ *app }

// CLIs returns the name of each CLI once.
func (l launches) CLIs() []string { return launch.CLIs(l.home) }

// Forget forgets the identities of a CLI and revokes their keys.
func (l launches) Forget(ctx context.Context, name string) error {
	known, err := cli.Lookup(name)
	if err != nil {
		return err
	}
	forgotten := launch.Launch{Host: l.launchHost(l.home), CLI: known, Home: l.home}
	_, err = forgotten.Undo(ctx)
	return err
}

package main

import (
	"cmp"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
)

func (a *app) hubCommand() *cobra.Command {
	return noun("hub", "Manage the hub: folders, people, backups, records", a.hubListCommand(),
		a.hubFolderCommand(), a.hubOperatorCommand(), a.hubViewerCommand(), a.hubServiceCommand(),
		a.backupCommand(), a.exportCommand(), a.importCommand(), a.archiveCommand(), a.hubMoveCommand(),
		a.hubJournalCommand(), a.hubVerifyCommand(), a.hubKeyCommand(), a.hubWitnessCommand(), a.hubFiguresCommand(), a.forgetCommand())
}

// A hubOverview is the answer of parley hub with --json.
type hubOverview struct {
	URL       string             `json:"url"`
	Home      string             `json:"home"`
	Folders   api.RootList       `json:"folders"`
	Operators api.OperatorList   `json:"operators"`
	Viewers   api.WebSessionList `json:"viewers"`
}

func (a *app) hubListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "Show the hub's address, folders and people (operator)",
		Example: "  parley hub\n  parley hub folder add .\n  parley hub backup /var/backups/parley",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			var o hubOverview
			if o.Home, err = a.homeDir(); err != nil {
				return err
			}
			if o.URL, err = a.hubURL(); err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			if o.Folders, err = rpc.Call(cmd.Context(), c, api.ListRoots, api.None{}); err != nil {
				return err
			}
			if o.Operators, err = rpc.Call(cmd.Context(), c, api.ListOperators, api.None{}); err != nil {
				return err
			}
			if o.Viewers, err = rpc.Call(cmd.Context(), c, api.WebSessions, api.None{}); err != nil {
				return err
			}
			return a.print(o, func(w io.Writer) { writeHub(w, o) })
		},
	}
}

// writeHub writes the facts about a hub, with the command that changes each.
func writeHub(w io.Writer, o hubOverview) {
	fmt.Fprintf(w, "%s, data in %s\n", o.URL, o.Home)
	for _, r := range o.Folders.Roots {
		fmt.Fprintf(w, "folder    %s\n", r.Path)
	}
	for _, p := range o.Operators.Operators {
		fmt.Fprintf(w, "operator  %s\n", cmp.Or(p.Name, "(the key in the hub's home)"))
	}
	fmt.Fprintf(w, "%s in a browser\n", counted(len(o.Viewers.Sessions), "session"))
	if len(o.Folders.Roots) == 0 {
		fmt.Fprintln(w, "no folder is allowed yet: parley hub folder add .")
	}
}

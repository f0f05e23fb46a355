package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/internal/desk/launch"
	"github.com/parley-agents/parley/internal/ground/process/confine"
)

// confinedCommand returns the command with which the hub starts the checks of repositories.
func (a *app) confinedCommand() *cobra.Command {
	return &cobra.Command{
		Use: "confined -- COMMAND [ARG]...", Short: "Run the command of a check, confined",
		Long: `Run the command of a check, confined. The hub starts this command and passes the rules
on standard input.`,
		Hidden: true, DisableFlagParsing: true, DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if slices.Equal(args, []string{"--help"}) {
				return cmd.Help()
			}
			return launch.ExitError(confine.Main(args))
		},
	}
}

package main

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/internal/surface/rpc"
	"github.com/parley-agents/parley/server"
)

// now is the clock of the commands.
func now() time.Time { return time.Now() }

func (a *app) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Check the hub and its home, and print a remedy for each problem; exit 1 if there is one",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			home, err := a.homeDir()
			if err != nil {
				return err
			}
			url, err := a.hubURL()
			if err != nil {
				return err
			}
			checks := server.Diagnose(cmd.Context(), home, url)
			config := server.Check{What: "configuration", OK: true}
			if _, err := a.loadConfig(home); err != nil {
				d := rpc.Describe(err, rpc.Commands)
				config.OK, config.Detail, config.Hint = false, d.Message, d.Hint
			}
			checks = append(checks, config)
			healthy := !slices.ContainsFunc(checks, func(c server.Check) bool { return !c.OK })
			return a.check(healthy, map[string]any{"ok": healthy, "checks": checks}, func(w io.Writer) {
				for _, c := range checks {
					mark := a.paint(w, "32", "ok  ")
					if !c.OK {
						mark = a.paint(w, "31", "FAIL")
					}
					fmt.Fprintf(w, "%s %s", mark, c.What)
					if c.Detail != "" {
						fmt.Fprintf(w, ": %s", c.Detail)
					}
					fmt.Fprintln(w)
					if !c.OK && c.Hint != "" {
						fmt.Fprintf(w, "     %s\n", c.Hint)
					}
				}
			})
		},
	}
}

package main

import (
	"fmt"
	"io"
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
			if _, err := a.loadConfig(home); err != nil {
				d := rpc.Describe(err)
				checks = append(checks, server.Check{What: "configuration", Detail: d.Message, Hint: d.Hint})
			} else {
				checks = append(checks, server.Check{What: "configuration", OK: true})
			}
			healthy := true
			for _, c := range checks {
				healthy = healthy && c.OK
			}
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

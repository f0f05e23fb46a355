package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
)

func (a *app) traceCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "trace ID",
		Short: "Show one message from end to end: journal and delivery attempts, in order",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			got, err := c.Trace(cmd.Context(), hub.EnvelopeID(args[0]))
			if err != nil {
				return err
			}
			return a.print(got, func(w io.Writer) {
				e := got.Message
				fmt.Fprintf(w, "%s  %s from %s to %s  %s, %s\n", e.ID, e.Type, e.From, strings.Trim(fmt.Sprint(e.To), "[]"), e.Priority, e.Status)
				fmt.Fprintf(w, "thread %s, hop %d", e.ThreadID, got.Hop)
				if got.Cause != "" {
					fmt.Fprintf(w, ", caused by %s", got.Cause)
				}
				fmt.Fprintln(w)
				tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
				for _, s := range got.Steps {
					fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\n", s.At, s.Kind, s.Who, s.What, s.Detail)
				}
				tw.Flush()
			})
		},
	}
}

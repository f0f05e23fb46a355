package main

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/handoff"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/surface/api"
	"github.com/parley-agents/parley/internal/surface/rpc"
)

func (a *app) approveCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "approve [ID]",
		Short: "Let a held message or a handoff pass; without an id, list what waits",
		Long: `Let a held message pass, or a handoff that needs a human be accepted; without
an id, list what waits. On a terminal it is shown and you are asked first. Only
the operator can do this.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			if len(args) == 0 {
				got, err := rpc.Call(cmd.Context(), c, api.ListHeld, api.None{})
				if err != nil {
					return err
				}
				return a.print(got, func(w io.Writer) {
					io.WriteString(w, mailroom.RenderMessages(got.Messages))
					for _, h := range got.Handoffs {
						io.WriteString(w, "\n"+handoff.Render(h))
					}
				})
			}
			id := hub.EnvelopeID(args[0])
			if ok, err := a.confirm(cmd, c, id, "Let it pass?", yes); err != nil || !ok {
				return err
			}
			return a.verdict(rpc.Call(cmd.Context(), c, api.Approve, api.IDParams{ID: id}))
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

// confirm shows a held message and asks the person at the terminal, if there is one.
func (a *app) confirm(cmd *cobra.Command, c *rpc.Client, id hub.EnvelopeID, question string, yes bool) (bool, error) {
	if yes || !isTerminal(a.in) {
		return true, nil
	}
	t, err := rpc.Call(cmd.Context(), c, api.Trace, api.IDParams{ID: id})
	switch hub.CodeOf(err) {
	case "":
		io.WriteString(a.err, mailroom.RenderMessages([]hub.Envelope{t.Message}))
	case hub.CodeNotFound: // it may be a handoff
		h, second := rpc.Call(cmd.Context(), c, api.Handoff, api.HandoffParams{Action: "show", ID: hub.HandoffID(id)})
		if second != nil {
			return false, err
		}
		io.WriteString(a.err, handoff.Render(*h.Report))
	default:
		return false, err
	}
	fmt.Fprintf(a.err, "\n%s [y/N] ", question)
	line, err := await(cmd.Context(), func() (string, error) { return bufio.NewReader(a.in).ReadString('\n') })
	if err != nil && err != io.EOF {
		fmt.Fprintln(a.err)
		return false, err
	}
	if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
		fmt.Fprintln(a.err, "nothing was changed")
		return false, nil
	}
	return true, nil
}

func (a *app) verdict(v mailroom.Verdict, err error) error {
	if err != nil {
		return err
	}
	return a.print(v, func(w io.Writer) { fmt.Fprintf(w, "%s %s from %s\n", v.Decision, v.ID, v.From) })
}

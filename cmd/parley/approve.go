package main

import (
	"bufio"
	"context"
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
		Short: "Approve a held message or a handoff; without an id, list those that wait",
		Long: `Approve a held message, or a handoff that needs a human; without an id, list
those that wait. On a terminal it is shown and you are asked first. Only the
operator can do this.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return answer(cmd.Context(), a, api.ListHeld, api.None{}, func(w io.Writer, got api.HeldList) {
					if len(got.Messages)+len(got.Handoffs)+len(got.Teams)+len(got.Asks) == 0 {
						fmt.Fprintln(w, "Nothing waits.")
					}
					if len(got.Messages) > 0 {
						io.WriteString(w, mailroom.RenderMessages(got.Messages, got.ShortIDs, ""))
					}
					for _, h := range got.Handoffs {
						io.WriteString(w, "\n"+handoff.Render(h))
					}
					for _, t := range got.Teams {
						fmt.Fprintf(w, "\n%s: %s asks to %s in the team %s\n> %s\n", got.ShortIDs.Of(t.ID), t.Actor, t.Action, t.Team, t.Request)
					}
					for _, k := range got.Asks {
						for _, q := range k.Asks {
							fmt.Fprintf(w, "\n%s asks: %s\nparley agent answer %[1]s %[3]d yes, or no\n", k.Agent, q.Text, q.ID)
						}
					}
				})
			}
			return a.decide(cmd, api.Approve, api.IDParams{ID: hub.EnvelopeID(args[0])}, "Approve it?", yes)
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
		io.WriteString(a.err, mailroom.RenderMessages([]hub.Envelope{t.Message}, nil, ""))
	case hub.CodeNotFound: // it may be a handoff
		h, second := rpc.Call(cmd.Context(), c, api.Handoff, api.HandoffParams{Action: "show", ID: hub.HandoffID(id)})
		if second != nil { // or an operation of a team, whose answer says if there is none
			break
		}
		io.WriteString(a.err, handoff.Render(*h.Report))
	default:
		return false, err
	}
	fmt.Fprintln(a.err)
	ok, err := a.askYes(cmd.Context(), question)
	if err == nil && !ok {
		fmt.Fprintln(a.err, "nothing was changed")
	}
	return ok, err
}

// askYes asks the person at the terminal a question. Anything but a yes is a no.
func (a *app) askYes(ctx context.Context, question string) (bool, error) {
	fmt.Fprintf(a.err, "%s [y/N] ", question)
	line, err := await(ctx, func() (string, error) { return bufio.NewReader(a.in).ReadString('\n') })
	if err != nil && err != io.EOF {
		fmt.Fprintln(a.err)
		return false, err
	}
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes", nil
}

// decide approves or denies a held message, after the person at the terminal
// has confirmed it.
func (a *app) decide(cmd *cobra.Command, o rpc.Operation[*api.Services, api.IDParams, api.Decision], p api.IDParams, question string, yes bool) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	if ok, err := a.confirm(cmd, c, p.ID, question, yes); err != nil || !ok {
		return err
	}
	return answer(cmd.Context(), a, o, p, func(w io.Writer, v api.Decision) { fmt.Fprintf(w, "%s %s from %s\n", v.Decision, p.ID, v.From) })
}

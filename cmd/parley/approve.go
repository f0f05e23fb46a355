package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/text/plaintext"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/attention"
	"github.com/parley-agents/parley/internal/service/mailroom"
)

func (a *app) approveCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "approve [ID]",
		Short: "Approve a held message or handoff",
		Long: `Approve a held message or team operation, or a handoff that needs approval. Without
an id, list everything that is waiting. On a terminal the item is shown and you are
asked to confirm. Only the operator can approve; a handoff into a team can also be
approved by a member whose role permits it.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return answer(cmd.Context(), a, api.ListHeld, api.None{}, writeHeld)
			}
			return a.decide(cmd, api.Approve, api.IDParams{ID: hub.EnvelopeID(args[0])}, "Approve it?", yes)
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask for confirmation")
	return cmd
}

// writeHeld lists what a person approves, denies or answers.
func writeHeld(w io.Writer, got api.HeldList) {
	if len(got.Messages)+len(got.Handoffs)+len(got.Teams)+len(got.Asks) == 0 {
		fmt.Fprintln(w, "Nothing waits.")
	}
	for _, e := range got.Messages {
		writeHeldMessage(w, got, e)
	}
	for _, h := range got.Handoffs {
		h.ShortID = hub.ShortID(got.ShortIDs.Of(string(h.ID)))
		writeHandoff(w, h)
	}
	for _, t := range got.Teams {
		writeHeldAction(w, got, t)
	}
	for _, k := range got.Asks {
		for _, q := range k.Asks {
			fmt.Fprintf(w, "%s asks: %s\n  parley agent answer %[1]s %[3]d yes, or no\n", k.Agent, plaintext.Line(q.Text), q.ID)
		}
	}
}

// writeHeldMessage writes a message that waits, with its whole text.
func writeHeldMessage(w io.Writer, got api.HeldList, e hub.Envelope) {
	fmt.Fprintf(w, "%s %s: %s from %s to %s", got.ShortIDs.Of(string(e.ID)), state("held").on(w), e.Type, e.From, mailroom.JoinTo(e.To))
	if e.Priority != hub.PriorityNormal {
		fmt.Fprintf(w, ", %s", e.Priority)
	}
	if old := e.RetryOf(); old != "" {
		fmt.Fprintf(w, ", retry of %s", got.ShortIDs.Of(string(old)))
	}
	fmt.Fprintf(w, ", sent %s\n", when(e.CreatedAt))
	text := mailroom.Text{Short: got.ShortIDs, When: when}
	for line := range strings.Lines(text.Payload(e)) {
		io.WriteString(w, "  "+line)
	}
}

// writeHeldAction writes an operation of a team that waits.
func writeHeldAction(w io.Writer, got api.HeldList, t hub.HeldAction) {
	fmt.Fprintf(w, "%s %s: %s asks to %s in the team %s\n", got.ShortIDs.Of(t.ID), state("held").on(w), t.Actor, t.Action, t.Team)
	var request map[string]json.RawMessage
	if json.Unmarshal(t.Request, &request) != nil {
		return
	}
	delete(request, "action")
	delete(request, "team")

	var f facts
	f.add("asked", when(t.At))
	for _, name := range slices.Sorted(maps.Keys(request)) {
		f.add(strings.ReplaceAll(name, "_", " "), factText(request[name], got.ShortIDs))
	}
	f.write(w)
}

// showHeld writes the thing with an id, if it waits: the list of what waits says what it is.
func (a *app) showHeld(ctx context.Context, c *rpc.Client, id hub.EnvelopeID) error {
	got, err := rpc.Call(ctx, c, api.ListHeld, api.None{})
	if hub.CodeOf(err) == hub.CodeDenied { // an agent; it may decide about handoffs into its teams
		if h, err := rpc.Call(ctx, c, api.Handoff, api.HandoffParams{Action: "show", ID: hub.HandoffID(id)}); err == nil {
			writeHandoff(a.err, *h.Report)
		}
		return nil
	}
	if err != nil {
		return err
	}

	i, ok := got.Find(string(id))
	if !ok {
		return nil // the answer to the decision says why
	}

	switch i.Thing {
	case attention.ThingMessage:
		n := slices.IndexFunc(got.Messages, func(e hub.Envelope) bool { return string(e.ID) == i.ID })
		writeHeldMessage(a.err, got, got.Messages[n])
	case attention.ThingHandoff:
		h, err := rpc.Call(ctx, c, api.Handoff, api.HandoffParams{Action: "show", ID: hub.HandoffID(i.ID)})
		if err != nil {
			return err
		}
		writeHandoff(a.err, *h.Report)
	case attention.ThingOperation:
		n := slices.IndexFunc(got.Teams, func(t hub.HeldAction) bool { return t.ID == i.ID })
		writeHeldAction(a.err, got, got.Teams[n])
	}
	return nil
}

// confirm shows what a decision is about and asks the person at the terminal, if there is
// one.
func (a *app) confirm(cmd *cobra.Command, c *rpc.Client, id hub.EnvelopeID, question string, yes bool) (bool, error) {
	if yes || !isTerminal(a.in) {
		return true, nil
	}
	if err := a.showHeld(cmd.Context(), c, id); err != nil {
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
	return answer(cmd.Context(), a, o, p, func(w io.Writer, v api.Decision) { writeDecision(w, p.ID, v) })
}

// writeDecision writes a decision about the thing whose id was typed.
func writeDecision(w io.Writer, id hub.EnvelopeID, v api.Decision) {
	noun := "message"
	switch {
	case v.HandoffStatus != "":
		noun = "handoff"
	case v.ActionVerdict != "":
		noun = "team request"
	}
	fmt.Fprintf(w, "%s %s: %s from %s", id, state(v.Decision).on(w), noun, v.From)
	if len(v.To) > 0 {
		fmt.Fprintf(w, " to %s", mailroom.JoinTo(v.To))
	}
	fmt.Fprintln(w)
}

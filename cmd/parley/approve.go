package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/text/plaintext"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/coordination"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/attention"
	"github.com/parley-agents/parley/internal/service/mailroom"
)

func (a *app) approveCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "approve [ID]",
		Short: "Say yes to a thing that waits for you",
		Long: `Say yes to a thing that waits: a held message, a handoff, a landing, a review, an operation
of a team, a peer, or a question of a kept agent. Without an id, list everything that
waits. On a terminal the item is shown and you are asked to confirm. An agent answers
only its own part: its review, or a handoff into a team in which its role permits it.`,
		Example: `  parley approve
  parley approve h3
  parley approve q1`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return answer(cmd.Context(), a, api.ListHeld, api.None{}, writeHeld)
			}
			return a.answerWaiting(cmd, verdict{id: args[0], isYes: true, yes: yes})
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
			fmt.Fprintf(w, "q%d %s asks: %s\n", q.ID, k.Agent, plaintext.Line(q.Text))
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

// A verdict is the answer of a person to a thing that waits.
type verdict struct {
	id      string
	isYes   bool
	because string
	yes     bool // do not ask the person at the terminal
}

// answerWaiting answers the thing that waits under an id.
func (a *app) answerWaiting(cmd *cobra.Command, v verdict) error {
	ctx := cmd.Context()
	c, err := a.client()
	if err != nil {
		return err
	}
	switch kind, _ := splitID(v.id); kind {
	case "q":
		choice := "no"
		if v.isYes {
			choice = "yes"
		}
		return a.answerQuestion(ctx, c, v.id, choice)
	case "v":
		return a.answerReview(ctx, v)
	}
	if done, err := a.answerPeer(ctx, c, v); done || err != nil {
		return err
	}

	question, o := "Deny it?", api.Deny
	if v.isYes {
		question, o = "Approve it?", api.Approve
	}
	p := api.IDParams{ID: hub.EnvelopeID(v.id), Reason: v.because}
	if ok, err := a.confirm(cmd, c, p.ID, question, v.yes); err != nil || !ok {
		return err
	}
	got, err := rpc.Call(ctx, c, o, p)
	if hub.CodeOf(err) == hub.CodeDenied && v.isYes { // an agent; it may approve a handoff into its team
		if h, mayApprove := rpc.Call(ctx, c, api.Handoff, api.HandoffParams{Action: "approve", ID: hub.HandoffID(v.id)}); mayApprove == nil {
			return a.print(h, func(w io.Writer) { writeHandoff(w, *h.Report) })
		}
	}
	if err != nil {
		return err
	}
	return a.print(got, func(w io.Writer) { writeDecision(w, p.ID, got) })
}

// answerReview answers a review.
func (a *app) answerReview(ctx context.Context, v verdict) error {
	p := api.ReviewParams{ID: v.id, Verdict: hub.VerdictApprove}
	if !v.isYes {
		p.Verdict = hub.VerdictChanges
		p.Findings = []hub.ReviewFinding{{Text: v.because}}
		if v.because == "" {
			return usagef("--because is required: a review that asks for changes says which").
				WithHint("or name the lines: parley land review %s changes --finding PATH:LINE:TEXT", v.id)
		}
	}
	return answer(ctx, a, api.GiveReview, p, writeReview)
}

// answerPeer approves a peer; done is false if the id names none.
func (a *app) answerPeer(ctx context.Context, c *rpc.Client, v verdict) (done bool, err error) {
	if !strings.HasPrefix(v.id, "aid://") {
		return false, nil
	}
	o := coordination.ApprovePeer
	if !v.isYes {
		o = coordination.RemovePeer
	}
	got, err := rpc.Call(ctx, c, o, coordination.PeerParams{AID: coord.AID(v.id)})
	if err != nil {
		return true, err
	}
	return true, a.print(got, func(w io.Writer) { writePeer(w, got) })
}

// answerQuestion answers a question of a kept agent: yes allows it once, no rejects it, and the id of an
// option selects that option.
func (a *app) answerQuestion(ctx context.Context, c *rpc.Client, id, choice string) error {
	_, n := splitID(id)
	list, err := rpc.Call(ctx, c, api.ListKept, api.None{})
	if err != nil {
		return err
	}
	for _, k := range list.Agents {
		for _, q := range k.Asks {
			if int64(q.ID) != n {
				continue
			}
			got, err := rpc.Call(ctx, c, api.AnswerAgent, api.AnswerParams{Agent: k.Agent, Question: q.ID, Choice: choice})
			if err != nil {
				return err
			}
			return a.print(got, func(w io.Writer) {
				fmt.Fprintf(w, "%s of %s is answered: %s\n", id, k.Agent, cmp.Or(got.Choice.Label(), "denied"))
			})
		}
	}
	return hub.Errorf(hub.CodeNotFound, "parley", "no question %s waits", id).WithHint("parley approve lists what waits")
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

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/text/plaintext"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/service/deliberation"
	"github.com/parley-agents/parley/internal/service/mailroom"
)

func (a *app) offerCommand() *cobra.Command {
	return nounVerb(a.offerTaskCommand(), a.talksCommand("negotiations", "List negotiations about tasks, newest first", hub.KindNegotiation))
}

func (a *app) offerTaskCommand() *cobra.Command {
	var m messageFlags
	var to, capabilities, criteria []string
	var description, effort string
	var respondBy, deadline hub.Time
	cmd := &cobra.Command{
		Use: "offer TITLE --to AGENT[,AGENT...]", Short: "Offer a task to other agents",
		Long: `Offer a task to other agents. The first agent to accept gets the task; the others are
notified. Agents accept, decline or counter with "parley reply --type task.accept",
task.decline or task.counter.`,
		Example: `  parley offer "review the parser" --to bo --deadline 48h
  parley offer "fix the build" --to '*' --respond-by 2h --priority high`,
		Args: cobra.ExactArgs(1),
	}

	f := cmd.Flags()
	f.StringSliceVar(&to, "to", nil, "agents to offer the task to, or '*' for all")
	f.StringVar(&description, "description", "", "description of the task (default the title)")
	f.StringSliceVar(&capabilities, "needs", nil, "abilities needed for the task, as a hint")
	f.StringArrayVar(&criteria, "criterion", nil, "success criterion (repeatable)")
	f.StringVar(&effort, "effort", "", "estimated effort, such as PT2H or P3D")
	byWhen := momentFlag(cmd, &respondBy, 1, "respond-by", "expiry of the offer: a duration such as 2h, or an ISO 8601 time (default the hub's response time)")
	due := momentFlag(cmd, &deadline, 1, "deadline", "deadline of the work: a duration such as 4h, or an ISO 8601 time")

	m.register(cmd)

	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if to = list(strings.Join(to, ",")); len(to) == 0 {
			return usagef("a recipient is required").WithHint("use --to builder,tester, or --to '*' for all")
		}
		for _, prepare := range []preparation{byWhen, due} {
			if err := prepare(cmd.Context(), nil); err != nil {
				return err
			}
		}

		c, err := a.client()
		if err != nil {
			return err
		}
		if err := m.complete(cmd, a, c); err != nil {
			return err
		}

		if description == "" {
			description = args[0]
		}
		m.Type = hub.TypeTaskOffer
		m.Payload, err = json.Marshal(struct {
			Title        string   `json:"title"`
			Description  string   `json:"description"`
			RespondBy    hub.Time `json:"respond_by,omitzero"`
			Deadline     hub.Time `json:"deadline,omitzero"`
			Capabilities []string `json:"required_capabilities,omitempty"`
			Effort       string   `json:"estimated_effort,omitempty"`
			Criteria     []string `json:"acceptance_criteria,omitempty"`
		}{args[0], description, respondBy, deadline, capabilities, effort, criteria})
		if err != nil {
			return err
		}

		for _, id := range to {
			m.To = append(m.To, hub.AgentID(id))
		}
		return a.receipt(retry(cmd.Context(), c, api.Send, m.SendParams))
	}
	return cmd
}

// talksCommand returns a command that lists deliberations of a kind.
func (a *app) talksCommand(name, short string, kind hub.DeliberationKind) *cobra.Command {
	p := api.TalkListParams{Kind: kind}
	cmd := &cobra.Command{
		Use: "list", Short: short,
		Long: short + `: your own, or all of them for auditors.
"parley show ID" prints the state of one, its messages and the replies that you may send.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.listTalks(cmd.Context(), name, p) },
	}
	cmd.Flags().BoolVar(&p.Open, "open", false, "leave out those that have ended")
	cmd.Flags().Var(&p.Limit, "limit", "maximum number of results (default 50)")
	cmd.Flags().StringVar(&p.Cursor, "cursor", "", "continue from the cursor printed by the previous page")
	return cmd
}

// listTalks prints deliberations.
func (a *app) listTalks(ctx context.Context, name string, p api.TalkListParams) error {
	return answer(ctx, a, api.ListTalks, p, func(w io.Writer, got deliberation.Listing) {
		writeList(w, name, "ID, STATE, FROM, TO, UNTIL, TITLE", got.Deliberations, func(d hub.Deliberation) []any {
			return []any{mailroom.ShortIDs(got.ShortIDs).Of(d.ID), state(d.State), d.From, joined(d.Asked), d.DueAt, d.Title}
		})
	})
}

func joined(ids []hub.AgentID) string { return strings.Join(words(ids), ",") }

// writeTalk writes a deliberation with its messages.
func writeTalk(w io.Writer, r deliberation.Report) {
	short := mailroom.ShortIDs(r.ShortIDs)
	fmt.Fprintf(w, "%s %s: %q from %s to %s\n", short.Of(r.ID), state(r.State).on(w), plaintext.Line(r.Title), r.From, mailroom.JoinTo(r.Asked))

	var f facts
	f.add("kind", string(r.Kind))
	if r.ClaimedBy != "" {
		f.add("claimed", fmt.Sprintf("%s by %s", when(r.ClaimedAt), r.ClaimedBy))
	}
	for _, c := range r.Conditions {
		f.add("condition", c)
	}
	if r.State == hub.TalkEscalated {
		f.add("escalated", "to "+mailroom.JoinTo(r.Deciders))
		f.add("because", r.Reason)
	}
	f.add("outcome", r.Outcome)
	if r.DecidedBy != "" {
		f.add("decided", "by "+string(r.DecidedBy))
		f.add("because", r.Reason)
	}
	if !r.DueAt.IsZero() {
		f.add("until", when(r.DueAt))
	}
	f.add("you may send", strings.Join(words(r.Possible), ", "))
	f.write(w)

	if len(r.Turns) > 0 {
		fmt.Fprintln(w)
		io.WriteString(w, mailroom.Text{Short: short, When: when}.Messages(r.Turns))
	}
}

func (a *app) decideCommand() *cobra.Command {
	return nounVerb(a.decideThreadCommand(), a.decideListCommand())
}

func (a *app) decideThreadCommand() *cobra.Command {
	var p api.DecideParams
	cmd := &cobra.Command{
		Use: "decide THREAD DECISION --because WHY", Short: "Decide an escalated negotiation or disagreement",
		Long: `Decide an escalated negotiation or disagreement. The decision about a negotiation is
accept or decline, where accept means the last counter. A decision is final. It is made
by the operator or by an agent that the matter was escalated to.`,
		Example: `  parley decide m17 accept --because "the later date is fine"
  parley decide m21 "we keep SQLite" --because "one file, no server"`,
		Args: cobra.ExactArgs(2),
	}
	cmd.Flags().StringVar(&p.Because, "because", "", "reason, sent to all participants")
	return operation(a, cmd, api.Decide, &p, writeTalk, argument(0, &p.Thread), argument(1, &p.Decision), func(context.Context, []string) error {
		if p.Because == "" {
			return usagef("a reason is required").WithHint("pass it with --because")
		}
		return nil
	})
}

func (a *app) decideListCommand() *cobra.Command {
	var p api.DecisionListParams
	open := false
	cmd := &cobra.Command{
		Use: "list", Short: "List decisions, newest first",
		Long: `List decisions, newest first: those about negotiations and disagreements, those of
teams, and those that repositories recorded in projects. With --open, list the
disagreements that have not been decided.`,
		Example: "  parley decide\n  parley decide --open",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().StringVar(&p.Team, "team", "", "only decisions of this team")
	cmd.Flags().Var(&p.Limit, "limit", "maximum number of results (default 50)")
	cmd.Flags().BoolVar(&open, "open", false, "list the disagreements that have not been decided")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if open {
			return a.listTalks(cmd.Context(), "open disagreements", api.TalkListParams{Kind: hub.KindDisagreement, Open: true, Limit: p.Limit})
		}
		return answer(cmd.Context(), a, api.ListDecisions, p, writeRulings)
	}
	return cmd
}

// writeRulings writes decisions.
func writeRulings(w io.Writer, got api.DecisionList) {
	if len(got.Decisions) == 0 {
		fmt.Fprintln(w, "no decisions")
	}
	for _, d := range got.Decisions {
		writeRuling(w, d)
	}
}

// writeRuling writes a decision: a sentence with its state, and the facts.
func writeRuling(w io.Writer, d hub.Decision) {
	fmt.Fprintf(w, "%s %s by %s", state(d.Status).on(w), when(d.At), joined(d.Deciders))
	if d.Team != "" {
		fmt.Fprintf(w, " in team %s", d.Team)
	}
	fmt.Fprintf(w, ": %q\n", plaintext.Line(d.Decision))

	var f facts
	if d.Title != d.Decision {
		f.add("about", d.Title)
	}
	f.add("because", d.Rationale)
	f.write(w)
}

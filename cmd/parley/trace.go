package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/handoff"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/surface/api"
	"github.com/parley-agents/parley/internal/surface/rpc"
)

func (a *app) traceCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "trace ID",
		Short: "Trace a message, run or handoff",
		Long: `Show a message, run or handoff from end to end: its journal entries, messages and
delivery attempts, in order.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}

			// An id that no message has may be that of a run or a handoff.
			got, err := rpc.Call(cmd.Context(), c, api.Trace, api.IDParams{ID: hub.EnvelopeID(args[0])})
			if hub.CodeOf(err) == hub.CodeNotFound {
				run, missing := rpc.Call(cmd.Context(), c, api.ShowRun, api.RunIDParams{ID: hub.RunID(args[0])})
				if missing == nil {
					return a.print(run, func(w io.Writer) { writeRunTrace(w, run) })
				}
				task, missing := rpc.Call(cmd.Context(), c, api.Handoff, api.HandoffParams{Action: "show", ID: hub.HandoffID(args[0])})
				if missing == nil {
					return a.traceHandoff(cmd.Context(), c, *task.Report)
				}
			}
			if err != nil {
				return err
			}

			return a.print(got, func(w io.Writer) {
				e := got.Message
				fmt.Fprintf(w, "%s  %s from %s to %s  %s, %s\n", e.ID, e.Type, e.From, mailroom.JoinTo(e.To), e.Priority, e.Status)
				fmt.Fprintf(w, "thread %s, hop %d", e.ThreadID, got.Hop)
				if got.Cause != "" {
					fmt.Fprintf(w, ", caused by %s", got.Cause)
				}
				fmt.Fprintln(w)
				writeTable(w, "", got.Steps, func(s mailroom.Step) []any { return []any{s.At, s.Kind, s.Who, s.What, s.Detail} })
			})
		},
	}
}

// traceHandoff prints a handoff and, for people, the messages of its thread.
func (a *app) traceHandoff(ctx context.Context, c *rpc.Client, h handoff.Report) error {
	mail, err := rpc.Call(ctx, c, api.Query, api.QueryParams{Thread: h.ThreadID})
	if err != nil {
		return err
	}
	return a.print(h, func(w io.Writer) {
		io.WriteString(w, handoff.Render(h))
		fmt.Fprintln(w, "\nmessages:")
		slices.Reverse(mail.Messages)
		writeTable(w, "", mail.Messages, func(e hub.Envelope) []any {
			return []any{e.CreatedAt, e.Type, e.From + " to " + hub.AgentID(mailroom.JoinTo(e.To)), e.Status, mail.ShortIDs.Of(string(e.ID))}
		})
	})
}

// writeRunTrace writes a run from end to end, for people.
func writeRunTrace(w io.Writer, r api.RunTrace) {
	fmt.Fprintf(w, "%s  run of %s for %s  %s", r.ID, r.Agent, r.By, r.State)
	if r.Verdict != "" {
		fmt.Fprintf(w, ", %s", r.VerdictText())
	}
	fmt.Fprintf(w, "\nthread %s", r.ThreadID)
	if r.Handoff != "" {
		fmt.Fprintf(w, ", handoff %s", r.Handoff)
	}
	if r.Message != "" {
		fmt.Fprintf(w, ", told by message %s", r.Message)
	}
	fmt.Fprintln(w)
	for _, c := range r.Contradictions {
		fmt.Fprintf(w, "%s: %s; found: %s\n", c.Kind, c.Claim, c.Found)
	}
	writeTable(w, "", r.Journal, func(e hub.Entry) []any { return []any{e.At, "journal", e.Actor, e.Action, factsText(e)} })
}

// factsText returns the facts of a journal entry for a person: name and value of each,
// without hashes.
func factsText(e hub.Entry) string {
	var facts map[string]json.RawMessage
	if json.Unmarshal(e.Facts, &facts) != nil {
		return string(e.Facts)
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(facts)) {
		text := string(facts[name])
		if s := ""; json.Unmarshal(facts[name], &s) == nil {
			text = s
		}
		if text != "" && text != "null" && name != "sha256" {
			parts = append(parts, name+" "+text)
		}
	}
	return strings.Join(parts, ", ")
}

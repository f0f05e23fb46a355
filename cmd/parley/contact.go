package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/contact"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/service/mailroom"
)

func (a *app) agentContactCommand() *cobra.Command {
	var p api.ContactParams
	cmd := &cobra.Command{
		Use:   "contact [AGENT]",
		Short: "Control who may write to or wake an agent",
		Long: `Show or set which agents may write to an agent and which may wake it. By default all
agents may do both. A message from an agent that may not write is refused; a message
from an agent that may write but not wake waits in the inbox. The operator and the hub
are never restricted, and an answer to a message from the agent is always delivered.
Only the operator can change a rule.`,
		Example: `  parley agent contact builder --from planner,team:auth --wake-from planner
  parley agent contact builder
  parley agent contact builder --open`,
		Args: cobra.MaximumNArgs(1),
	}

	from := listFlag(cmd, &p.From, "from", "agents and teams (team:NAME) that may write to it, or '*' for everyone")
	wake := listFlag(cmd, &p.WakeFrom, "wake-from", "agents and teams that may wake it, or '*' for everyone who may write")
	cmd.Flags().BoolVar(&p.Open, "open", false, "let everyone write to it and wake it")

	// Without a new rule the command shows the rules that exist.
	run := func(ctx context.Context) error {
		if p.From == nil && p.WakeFrom == nil && !p.Open {
			return answer(ctx, a, api.ListContacts, api.ContactListParams{Agent: p.Agent}, writeContacts)
		}
		if err := openAlone(p); err != nil {
			return err
		}
		if p.Agent == "" {
			return usagef("an agent is required").WithHint("for example: parley agent contact builder --from planner")
		}
		return answer(ctx, a, api.SetContact, p, func(w io.Writer, got api.AgentContact) {
			writeContacts(w, api.ContactList{Rules: contact.Rules{got.Agent: got.Rule}})
		})
	}

	return prepared(cmd, run, argument(0, &p.Agent), from, wake)
}

// openAlone refuses --open together with a list of agents.
func openAlone(p api.ContactParams) error {
	other := ""
	switch {
	case !p.Open:
		return nil
	case p.From != nil:
		other = "--from"
	case p.WakeFrom != nil:
		other = "--wake-from"
	default:
		return nil
	}
	return hub.Errorf(hub.CodeInvalid, "parley", "--open cannot be combined with %s", other).WithHint("leave out one of them")
}

// writeContacts writes rules for contact, one a line.
func writeContacts(w io.Writer, got api.ContactList) {
	if len(got.Rules) == 0 {
		fmt.Fprintln(w, "everyone may write to every agent and wake it")
	}
	for _, id := range slices.Sorted(maps.Keys(got.Rules)) {
		rule := got.Rules[id]
		everyone := "everyone"
		if len(rule.From) > 0 {
			everyone = mailroom.JoinTo(rule.From)
		}
		fmt.Fprintf(w, "%s takes messages from %s; woken by %s\n", id, everyone, cmp.Or(mailroom.JoinTo(rule.WakeFrom), everyone))
	}
}

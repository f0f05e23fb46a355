package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/operation/coordination"
	"github.com/parley-agents/parley/internal/service/contract"
)

func (a *app) contextCommand() *cobra.Command {
	cmd := noun("context", "Share knowledge between repositories", a.contextListCommand(),
		a.contextShareCommand(), a.contextAskCommand(), a.contextDecideCommand(), a.contextThreadCommand())
	cmd.Long = `Context is the knowledge shared by the repositories of a project: code, types,
questions and decisions. A packet never changes; answers refer to it.`
	return cmd
}

// relations adds the flags that relate a packet to contracts and other packets.
func relations(cmd *cobra.Command, r *contract.Relations) preparation {
	cmd.Flags().StringVar((*string)(&r.ReplyTo), "reply-to", "", "packet to answer")
	return listFlag(cmd, &r.Related, "contract", "related contracts")
}

func writeShared(w io.Writer, got coordination.Shared) { fmt.Fprintf(w, "shared %s\n", got.Packet) }

func (a *app) contextShareCommand() *cobra.Command {
	var p contract.NewPacket
	cmd := &cobra.Command{
		Use: "share --type TYPE --content JSON|@FILE|-", Short: "Share code, types or other knowledge",
		Example: `  parley context share --type code_snippet \
    --content '{"language":"go","file":"auth/jwt.go","snippet":"func Verify(token string) error"}'`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar((*string)(&p.Type), "type", "", "type of the packet: code_snippet, type_definition, api_spec, error_catalog, env_config, test_case, dependency_info or implementation_status")
	choices(cmd, "type", coord.PacketTypes...)
	asFlag(cmd, &p.As)
	return operation(a, cmd, coordination.Share, &p, writeShared,
		a.jsonFlag(cmd, &p.Content, "content", "content: a JSON object, @FILE, or - for standard input"),
		relations(cmd, &p.Relations), a.inProject(cmd, &p.InProject))
}

func (a *app) contextAskCommand() *cobra.Command {
	var p contract.Question
	cmd := &cobra.Command{
		Use: "ask QUESTION", Short: "Ask the other repositories a question",
		Example: `  parley context ask "JWT or session cookies?" --option JWT --option cookies`,
		Args:    cobra.ExactArgs(1),
	}
	cmd.Flags().StringArrayVar(&p.Options, "option", nil, "possible answer (repeatable)")
	cmd.Flags().BoolVar(&p.Urgent, "urgent", false, "mark the question as urgent")
	asFlag(cmd, &p.As)
	return operation(a, cmd, coordination.AskQuestion, &p, writeShared,
		argument(0, &p.Question), relations(cmd, &p.Relations), a.inProject(cmd, &p.InProject))
}

func (a *app) contextDecideCommand() *cobra.Command {
	var p contract.Decision
	cmd := &cobra.Command{
		Use: "decide SUBJECT --chosen CHOICE --rationale REASON", Short: "Record a decision",
		Example: `  parley context decide "Authentication" --chosen JWT --rationale "works across services"`,
		Args:    cobra.ExactArgs(1),
	}
	f := cmd.Flags()
	f.StringVar(&p.Chosen, "chosen", "", "chosen option")
	f.StringVar(&p.Rationale, "rationale", "", "reason for the decision")
	f.StringArrayVar(&p.Implications, "implication", nil, "consequence of the decision (repeatable)")
	asFlag(cmd, &p.As)
	return operation(a, cmd, coordination.RecordDecision, &p, writeShared,
		argument(0, &p.Decision), relations(cmd, &p.Relations), a.inProject(cmd, &p.InProject))
}

func (a *app) contextListCommand() *cobra.Command {
	var p coordination.ContextParams
	var since hub.Time
	cmd := &cobra.Command{Use: "list", Short: "List shared packets, newest first", Args: cobra.NoArgs}
	f := cmd.Flags()
	f.StringVar((*string)(&p.Type), "type", "", "only packets of this type")
	f.StringVar((*string)(&p.Contract), "contract", "", "only packets about this contract")
	f.Var(&p.Limit, "limit", "maximum number of packets (default 50)")
	f.StringVar(&p.Cursor, "cursor", "", "continue from the cursor printed by the previous page")
	return operation(a, cmd, coordination.ListContext, &p, func(w io.Writer, got coordination.Context) {
		writePackets(w, got.Packets)
		if got.Next != "" {
			fmt.Fprintf(w, "older: add --cursor %s\n", got.Next)
		}
	}, momentFlag(cmd, &since, -1, "since", "earliest time: a duration ago such as 2h, or an ISO 8601 time"), func(context.Context, []string) error {
		if !since.IsZero() {
			p.Since = coord.InstantAt(since.Time)
		}
		return nil
	}, a.inProject(cmd, &p.InProject))
}

// writePackets writes packets.
func writePackets(w io.Writer, packets []coord.Packet) {
	if len(packets) == 0 {
		fmt.Fprintln(w, "nothing was shared")
	}
	for _, p := range packets {
		fmt.Fprintf(w, "%s %s from %s\n", p.ID, p.Type, p.FromAgent)
		if p.ReplyTo != "" {
			fmt.Fprintf(w, "  answers %s\n", p.ReplyTo)
		}
		fmt.Fprintf(w, "  %s\n", p.Content)
	}
}

func (a *app) contextThreadCommand() *cobra.Command {
	var p coordination.ThreadParams
	cmd := &cobra.Command{Use: "thread PACKET", Short: "Show a packet and its answers", Args: cobra.ExactArgs(1)}
	cmd.Flags().BoolVar(&p.Deep, "deep", false, "show the thread from the beginning, with answers to answers")
	return operation(a, cmd, coordination.GetThread, &p, func(w io.Writer, got coordination.Thread) { writePackets(w, got.Thread) },
		argument(0, &p.Packet), a.inProject(cmd, &p.InProject))
}

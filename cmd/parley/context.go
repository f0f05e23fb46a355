package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/service/contract"
	"github.com/parley-agents/parley/internal/surface/coordination"
)

func (a *app) contextCommand() *cobra.Command {
	cmd := group("context", "Knowledge that the repositories of a project share",
		a.contextShareCommand(), a.contextAskCommand(), a.contextDecideCommand(), a.contextListCommand(), a.contextThreadCommand())
	cmd.Long = `Context is the knowledge that the repositories of a project share: code, types,
questions, decisions. A packet never changes; answers refer to it.`
	return cmd
}

// relations adds the flags that relate a packet to contracts and other packets.
func relations(cmd *cobra.Command, r *contract.Relations) preparation {
	cmd.Flags().StringVar((*string)(&r.ReplyTo), "reply-to", "", "packet that it answers")
	return listFlag(cmd, &r.Related, "contract", "contracts that it is about")
}

func writeShared(w io.Writer, got coordination.Shared) { fmt.Fprintf(w, "shared %s\n", got.Packet) }

func (a *app) contextShareCommand() *cobra.Command {
	var p contract.NewPacket
	cmd := &cobra.Command{
		Use: "share --type TYPE --content JSON|@FILE|-", Short: "Share code, types or other knowledge with the others",
		Example: `  parley context share --type code_snippet \
    --content '{"language":"go","file":"auth/jwt.go","snippet":"func Verify(token string) error"}'`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar((*string)(&p.Type), "type", "", "code_snippet, type_definition, api_spec, error_catalog, env_config, test_case, dependency_info or implementation_status")
	choices(cmd, "type", coord.PacketTypes...)
	asFlag(cmd, &p.As)
	return operation(a, cmd, coordination.Share, &p, writeShared,
		a.jsonFlag(cmd, &p.Content, "content", "what to share: a JSON object, @FILE, or - for standard input"),
		relations(cmd, &p.Relations), a.inProject(cmd, &p.InProject))
}

func (a *app) contextAskCommand() *cobra.Command {
	var p contract.Question
	cmd := &cobra.Command{
		Use: "ask QUESTION", Short: "Ask the others a question",
		Example: `  parley context ask "JWT or session cookies?" --option JWT --option cookies`,
		Args:    cobra.ExactArgs(1),
	}
	cmd.Flags().StringArrayVar(&p.Options, "option", nil, "an answer to choose from (repeatable)")
	cmd.Flags().BoolVar(&p.Urgent, "urgent", false, "the answer cannot wait")
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
	f.StringVar(&p.Chosen, "chosen", "", "what was chosen")
	f.StringVar(&p.Rationale, "rationale", "", "why")
	f.StringArrayVar(&p.Implications, "implication", nil, "what follows from it (repeatable)")
	asFlag(cmd, &p.As)
	return operation(a, cmd, coordination.RecordDecision, &p, writeShared,
		argument(0, &p.Decision), relations(cmd, &p.Relations), a.inProject(cmd, &p.InProject))
}

func (a *app) contextListCommand() *cobra.Command {
	var p coordination.ContextParams
	var since hub.Time
	cmd := &cobra.Command{Use: "list", Short: "Show the newest shared packets", Args: cobra.NoArgs}
	f := cmd.Flags()
	f.StringVar((*string)(&p.Type), "type", "", "only packets of one type")
	f.StringVar((*string)(&p.Contract), "contract", "", "only packets about one contract")
	f.Var(&p.Limit, "limit", "how many at most (default 50)")
	f.StringVar(&p.Cursor, "cursor", "", "continue with older packets: the cursor that the page before printed")
	return operation(a, cmd, coordination.ListContext, &p, func(w io.Writer, got coordination.Context) {
		writePackets(w, got.Packets)
		if got.Next != "" {
			fmt.Fprintf(w, "older: add --cursor %s\n", got.Next)
		}
	}, momentFlag(cmd, &since, -1, "since", "a span like 2h, or an ISO 8601 time"), func(context.Context, []string) error {
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
	cmd := &cobra.Command{Use: "thread PACKET", Short: "Show a packet with the answers to it", Args: cobra.ExactArgs(1)}
	cmd.Flags().BoolVar(&p.Deep, "deep", false, "from the beginning of the thread, with answers to answers")
	return operation(a, cmd, coordination.GetThread, &p, func(w io.Writer, got coordination.Thread) { writePackets(w, got.Thread) },
		argument(0, &p.Packet), a.inProject(cmd, &p.InProject))
}

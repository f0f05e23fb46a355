package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/surface/coordination"
)

func (a *app) contextCommand() *cobra.Command {
	cmd := group("context", "What repositories of a project let each other know",
		a.contextShareCommand(), a.contextAskCommand(), a.contextDecideCommand(), a.contextListCommand(), a.contextThreadCommand())
	cmd.Long = `Context is what the repositories of a project let each other know: code, types,
questions, decisions. A packet never changes; answers refer to it.`
	return cmd
}

// packetFlags are the flags that every command has which shares a packet.
type packetFlags struct {
	project   *projectFlag
	contracts []string
	replyTo   string
}

func packetFlagsOf(cmd *cobra.Command) *packetFlags {
	r := &packetFlags{project: projectOf(cmd)}
	cmd.Flags().StringSliceVar(&r.contracts, "contract", nil, "contracts that it is about")
	cmd.Flags().StringVar(&r.replyTo, "reply-to", "", "packet that it answers")
	return r
}

// find returns the project and the relations that the flags name.
func (r *packetFlags) find(ctx context.Context, a *app) (coordination.InProject, coordination.Relations, error) {
	in, err := r.project.find(ctx, a)
	return in, coordination.Relations{Related: typed[hub.ContractID](r.contracts), ReplyTo: hub.PacketID(r.replyTo)}, err
}

func writeShared(w io.Writer, got coordination.Shared) { fmt.Fprintf(w, "shared %s\n", got.Packet) }

func (a *app) contextShareCommand() *cobra.Command {
	var kind, content string
	var r *packetFlags
	cmd := &cobra.Command{
		Use: "share --type TYPE --content JSON|@FILE|-", Short: "Let the others know something",
		Example: `  parley context share --type code_snippet \
    --content '{"language":"go","file":"auth/jwt.go","snippet":"func Verify(token string) error"}'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			raw, err := a.object(cmd.Context(), "--content", content)
			if err != nil {
				return err
			}
			in, relations, err := r.find(cmd.Context(), a)
			if err != nil {
				return err
			}
			return answer(cmd.Context(), a, coordination.Share,
				coordination.ShareParams{InProject: in, Relations: relations, Type: hub.ContextType(kind), Content: raw}, writeShared)
		},
	}
	r = packetFlagsOf(cmd)
	cmd.Flags().StringVar(&kind, "type", "", "code_snippet, type_definition, api_spec, error_catalog, env_config, test_case, dependency_info or implementation_status")
	cmd.Flags().StringVar(&content, "content", "", "what to share: a JSON object, @FILE, or - for standard input")
	cmd.RegisterFlagCompletionFunc("type", cobra.FixedCompletions(words(hub.PacketTypes), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (a *app) contextAskCommand() *cobra.Command {
	var options []string
	var urgent bool
	var r *packetFlags
	cmd := &cobra.Command{
		Use: "ask QUESTION", Short: "Ask the others something",
		Example: `  parley context ask "JWT or session cookies?" --option JWT --option cookies`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			in, relations, err := r.find(cmd.Context(), a)
			if err != nil {
				return err
			}
			return answer(cmd.Context(), a, coordination.AskQuestion,
				coordination.Question{InProject: in, Relations: relations, Question: args[0], Options: options, Urgent: urgent}, writeShared)
		},
	}
	r = packetFlagsOf(cmd)
	cmd.Flags().StringArrayVar(&options, "option", nil, "an answer to choose from (repeatable)")
	cmd.Flags().BoolVar(&urgent, "urgent", false, "the answer cannot wait")
	return cmd
}

func (a *app) contextDecideCommand() *cobra.Command {
	var chosen, rationale string
	var implications []string
	var r *packetFlags
	cmd := &cobra.Command{
		Use: "decide SUBJECT --chosen WHAT --rationale WHY", Short: "Write a decision down",
		Example: `  parley context decide "Authentication" --chosen JWT --rationale "works across services"`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			in, relations, err := r.find(cmd.Context(), a)
			if err != nil {
				return err
			}
			return answer(cmd.Context(), a, coordination.RecordDecision,
				coordination.Decision{InProject: in, Relations: relations, Decision: args[0], Chosen: chosen, Rationale: rationale, Implications: implications}, writeShared)
		},
	}
	r = packetFlagsOf(cmd)
	f := cmd.Flags()
	f.StringVar(&chosen, "chosen", "", "what was chosen")
	f.StringVar(&rationale, "rationale", "", "why")
	f.StringArrayVar(&implications, "implication", nil, "what follows from it (repeatable)")
	return cmd
}

func (a *app) contextListCommand() *cobra.Command {
	var kind, contract, since, cursor string
	var limit int
	cmd := a.inProject(&cobra.Command{
		Use: "list", Short: "Show what was shared, the newest of it", Args: cobra.NoArgs,
	}, func(ctx context.Context, in coordination.InProject, _ []string) error {
		p := coordination.ContextParams{InProject: in, Type: hub.ContextType(kind), Contract: hub.ContractID(contract), Limit: limit, Cursor: cursor}
		from, err := moment("since", since, -1)
		if err != nil {
			return err
		}
		if !from.IsZero() {
			p.Since = hub.InstantAt(from.Time)
		}
		return answer(ctx, a, coordination.ListContext, p, func(w io.Writer, got coordination.Context) {
			writePackets(w, got.Packets)
			if got.Next != "" {
				fmt.Fprintf(w, "older: add --cursor %s\n", got.Next)
			}
		})
	})
	f := cmd.Flags()
	f.StringVar(&kind, "type", "", "only packets of one type")
	f.StringVar(&contract, "contract", "", "only packets about one contract")
	f.StringVar(&since, "since", "", "a span like 2h, or an ISO 8601 time")
	f.IntVar(&limit, "limit", 0, "how many at most (default 50)")
	f.StringVar(&cursor, "cursor", "", "go on with what is older: next of the page before")
	return cmd
}

// writePackets shows packets, with the text of other agents made safe to print.
func writePackets(w io.Writer, packets []hub.Packet) {
	if len(packets) == 0 {
		fmt.Fprintln(w, "nothing was shared")
	}
	for _, p := range packets {
		fmt.Fprintf(w, "%s %s from %s\n", p.ID, p.Type, visible(string(p.FromAgent)))
		if p.ReplyTo != "" {
			fmt.Fprintf(w, "  answers %s\n", p.ReplyTo)
		}
		fmt.Fprintf(w, "  %s\n", visible(string(p.Content)))
	}
}

func (a *app) contextThreadCommand() *cobra.Command {
	var deep bool
	cmd := a.inProject(&cobra.Command{
		Use: "thread PACKET", Short: "Show a packet with the answers to it", Args: cobra.ExactArgs(1),
	}, func(ctx context.Context, in coordination.InProject, args []string) error {
		p := coordination.ThreadParams{InProject: in, Packet: hub.PacketID(args[0]), Deep: deep}
		return answer(ctx, a, coordination.GetThread, p, func(w io.Writer, got coordination.Thread) { writePackets(w, got.Thread) })
	})
	cmd.Flags().BoolVar(&deep, "deep", false, "from where the thread began, with answers to answers")
	return cmd
}

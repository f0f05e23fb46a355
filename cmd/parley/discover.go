package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/federation"
	"github.com/parley-agents/parley/internal/operation/coordination"
)

func (a *app) peerFindCommand() *cobra.Command {
	var p coordination.SearchParams
	var add coordination.PeerParams
	cmd := &cobra.Command{
		Use: "find [WORD...]", Short: "Search an exchange for agents (operator)",
		Long: `Search an exchange for coordinating agents. No exchange is contacted unless you name
one, here or when starting the hub. The entries of an
exchange are claims: keys decide what a peer may do, and this hub checks the peer's
id itself. With --add, the agent with that id becomes a peer at once, at the endpoint
listed by the exchange.`,
		Example: `  parley peer find --exchange https://exchange.example --role frontend --language typescript
  parley peer find --exchange https://exchange.example --add aid://front.example/hub@1.0.0`,
		RunE: func(cmd *cobra.Command, args []string) error {
			p.Query = strings.Join(args, " ")
			if add.AID != "" {
				return a.addDiscovered(cmd.Context(), p, add)
			}
			return answer(cmd.Context(), a, coordination.Discover, p, func(w io.Writer, got coordination.Discovered) {
				writeList(w, "agents found", "AGENT, LISTED AS, ENDPOINT, NAME", got.Agents, func(f federation.Discovery) []any {
					return []any{f.AID, listedAs(f), f.Endpoint, f.Name}
				})
			})
		},
	}

	f := cmd.Flags()
	f.StringVar(&p.Exchange, "exchange", "", "address of the exchange (default the hub's own setting)")
	f.StringVar(&p.Role, "role", "", "only agents whose repository has this role")
	f.StringSliceVar(&p.Languages, "language", nil, "only agents whose repository uses this language")
	f.Var(&p.Limit, "limit", "maximum number of agents (default 10)")
	f.StringVar((*string)(&add.AID), "add", "", "make the agent with this id a peer")
	f.StringVar(&add.Repo, "repo", "", "with --add: the peer's repository (default its name)")
	return cmd
}

func (a *app) peerPublishCommand() *cobra.Command {
	var p coordination.ExchangeParams
	cmd := &cobra.Command{
		Use: "publish", Short: "Register this hub in an exchange (operator)",
		Long:    `Register this hub in an exchange, so that other hubs find its agents.`,
		Example: `  parley peer publish --exchange https://exchange.example`,
		Args:    cobra.NoArgs,
	}
	cmd.Flags().StringVar(&p.Exchange, "exchange", "", "address of the exchange (default the hub's own setting)")
	return operation(a, cmd, coordination.Enlist, &p, writeRegistration)
}

// listedAs returns the word of the exchange about an agent.
func listedAs(f federation.Discovery) string {
	if f.Verified {
		return federation.ListedVerified
	}
	return federation.ListedUnverified
}

// addDiscovered makes one of the agents that a search finds a peer.
func (a *app) addDiscovered(ctx context.Context, p coordination.SearchParams, add coordination.PeerParams) error {
	p.Limit = cmp.Or(p.Limit, 100)
	found, err := call(ctx, a, coordination.Discover, p)
	if err != nil {
		return err
	}
	for _, f := range found.Agents {
		if f.AID == string(add.AID) {
			add.Endpoint = f.Endpoint
			add.Repo = cmp.Or(add.Repo, f.Name)
			add.Listed = listedAs(f)
			return answer(ctx, a, coordination.AddPeer, add, writeAdded)
		}
	}
	return hub.Errorf(hub.CodeNotFound, "parley", "the exchange lists no agent %s (%d agents found)", add.AID, len(found.Agents)).
		WithHint(`run "parley peer find" to list the agents`)
}

func writeRegistration(w io.Writer, got federation.Registration) {
	word := "is registered"
	if got.Existed {
		word = "was registered already"
	}
	fmt.Fprintf(w, "%s %s\n", got.AID, word)
}

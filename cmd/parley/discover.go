package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/internal/federation"
	"github.com/parley-agents/parley/internal/surface/coordination"
)

func (a *app) discoverCommand() *cobra.Command {
	var p coordination.SearchParams
	var register bool
	cmd := &cobra.Command{
		Use: "discover [WORD...]", Short: "Search an exchange for agents (operator)",
		Long: `Search an exchange for agents that coordinate, or register this hub there. No
exchange is asked unless one is named, here or when the hub is started. The entries
of an exchange are claims: a peer is trusted when keys were exchanged with it.`,
		Example: `  parley discover --exchange https://exchange.example --role frontend --language typescript
  parley discover --exchange https://exchange.example --register`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if register {
				return answer(cmd.Context(), a, coordination.Enlist, coordination.ExchangeParams{Exchange: p.Exchange}, writeRegistration)
			}
			p.Query = strings.Join(args, " ")
			return answer(cmd.Context(), a, coordination.Discover, p, func(w io.Writer, got coordination.Discovered) {
				writeList(w, "agents found", "AGENT, VERIFIED, ENDPOINT, NAME", got.Agents, func(f federation.Discovery) []any {
					return []any{f.AID, f.Verified, f.Endpoint, f.Name}
				})
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&p.Exchange, "exchange", "", "address of the exchange (default the one that the hub was started with)")
	f.StringVar(&p.Role, "role", "", "role of their repository")
	f.StringSliceVar(&p.Languages, "language", nil, "language of their repository")
	f.IntVar(&p.Limit, "limit", 0, "how many at most (default 10)")
	f.BoolVar(&register, "register", false, "register this hub in the exchange")
	return cmd
}

func writeRegistration(w io.Writer, got federation.Registration) {
	word := "is registered"
	if got.Existed {
		word = "was registered already"
	}
	fmt.Fprintf(w, "%s %s\n", got.AID, word)
}

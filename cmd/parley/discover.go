package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/surface/coordination"
)

func (a *app) discoverCommand() *cobra.Command {
	var s coordination.Search
	var register bool
	cmd := &cobra.Command{
		Use: "discover [WORD...]", Short: "Look for agents in an exchange (operator)",
		Long: `Look for agents that coordinate in an exchange, or tell the exchange about this
hub. No exchange is asked unless one is named, here or when the hub is started.
What an exchange says of an agent is its word alone: a peer is trusted when keys
were exchanged with it.`,
		Example: `  parley discover --exchange https://exchange.example --role frontend --language typescript
  parley discover --exchange https://exchange.example --register`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if register {
				return a.enlist(cmd, s.Exchange)
			}
			s.Query = strings.Join(args, " ")
			return answer(cmd.Context(), a, coordination.Discover, coordination.SearchParams{Search: s}, func(w io.Writer, got coordination.Discovered) {
				if len(got.Agents) == 0 {
					fmt.Fprintln(w, "no agents found")
					return
				}
				t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
				fmt.Fprintln(t, "AGENT\tVERIFIED\tENDPOINT\tNAME")
				for _, f := range got.Agents {
					fmt.Fprintf(t, "%s\t%t\t%s\t%s\n", visible(f.AID), f.Verified, visible(f.Endpoint), visible(f.Name))
				}
				t.Flush()
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&s.Exchange, "exchange", "", "address of the exchange (default the one that the hub was started with)")
	f.StringVar(&s.Role, "role", "", "what their repository is")
	f.StringSliceVar(&s.Languages, "language", nil, "what it is written in")
	f.IntVar(&s.Limit, "limit", 0, "how many at most (default 10)")
	f.BoolVar(&register, "register", false, "tell the exchange about this hub")
	return cmd
}

func (a *app) enlist(cmd *cobra.Command, exchange string) error {
	return answer(cmd.Context(), a, coordination.Enlist, coordination.ExchangeParams{Exchange: exchange}, func(w io.Writer, got hub.Registration) {
		word := "is registered"
		if got.Existed {
			word = "was registered already"
		}
		fmt.Fprintf(w, "%s %s\n", got.AID, word)
	})
}

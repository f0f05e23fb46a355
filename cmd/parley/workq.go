package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/surface/api"
)

func (a *app) workqCommand() *cobra.Command {
	cmd := group("workq", "Claim items of the hub's own queue", a.workqClaimCommand(), a.workqReleaseCommand(), a.workqListCommand())
	cmd.Long = `Claim items of the hub's own queue. An item is any name that agents agree on, such as
the number of an issue; it has one owner. A handoff that names it as a workq_item
gives it to the receiver. A hub whose gateway has a queue (gateway.workq) uses that
one.`
	return cmd
}

func (a *app) workqClaimCommand() *cobra.Command {
	var p api.ClaimParams
	cmd := &cobra.Command{Use: "claim ITEM", Short: "Become the owner of an item", Example: "  parley workq claim app#42", Args: cobra.ExactArgs(1)}
	return operation(a, cmd, api.ClaimItem, &p, func(w io.Writer, c hub.ItemClaim) {
		fmt.Fprintf(w, "%s owns %s since %s\n", c.Owner, c.Item, c.At)
	}, argument(0, &p.Item))
}

func (a *app) workqReleaseCommand() *cobra.Command {
	var p api.ClaimParams
	cmd := &cobra.Command{Use: "release ITEM", Short: "Give an item back; the operator may release any", Args: cobra.ExactArgs(1)}
	return operation(a, cmd, api.ReleaseItem, &p, func(w io.Writer, c hub.ItemClaim) {
		fmt.Fprintf(w, "%s is free; it belonged to %s\n", c.Item, c.Owner)
	}, argument(0, &p.Item))
}

func (a *app) workqListCommand() *cobra.Command {
	var p api.ClaimsParams
	cmd := &cobra.Command{Use: "list", Short: "List the owners of items", Args: cobra.NoArgs}
	cmd.Flags().StringVar((*string)(&p.Owner), "owner", "", "only items of this agent")
	return operation(a, cmd, api.ListClaims, &p, func(w io.Writer, got api.ClaimList) {
		writeList(w, "claims", "ITEM, OWNER, SINCE", got.Claims, func(c hub.ItemClaim) []any { return []any{c.Item, c.Owner, c.At} })
	})
}

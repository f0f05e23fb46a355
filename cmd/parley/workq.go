package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/service/handoff"
)

func (a *app) workqCommand() *cobra.Command {
	cmd := noun("workq", "Claim items from the hub's queue", a.workqListCommand(), a.workqAddCommand(), a.workqNextCommand(), a.workqClaimCommand(), a.workqReleaseCommand(), a.workqDoneCommand())
	cmd.Long = `Claim items from the hub's own queue. An item is any name that agents agree on, such as
an issue number, and has one owner. Added items wait until an agent asks for the next
one; a released item is free again until it is done. A handoff that names an item as
its workq_item gives it to the receiver. If the hub's gateway has a queue
(gateway.workq), that queue is used.`
	return cmd
}

func (a *app) workqClaimCommand() *cobra.Command {
	var p api.ClaimParams
	cmd := &cobra.Command{Use: "claim ITEM", Short: "Claim an item", Example: "  parley workq claim app#42", Args: cobra.ExactArgs(1)}
	return operation(a, cmd, api.ClaimItem, &p, func(w io.Writer, c hub.ItemClaim) {
		fmt.Fprintf(w, "%s owns %s since %s\n", c.Owner, c.Item, when(c.At))
	}, argument(0, &p.Item))
}

func (a *app) workqAddCommand() *cobra.Command {
	var p api.ClaimParams
	cmd := &cobra.Command{Use: "add ITEM", Short: "Add an item to the end of the queue", Example: "  parley workq add app#42", Args: cobra.ExactArgs(1)}
	return operation(a, cmd, api.AddItem, &p, func(w io.Writer, q handoff.QueuedItem) {
		fmt.Fprintf(w, "%s was added to the queue at %s\n", q.Item, when(q.At))
	}, argument(0, &p.Item))
}

func (a *app) workqNextCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "next",
		Short: "Claim the oldest free item",
		Long: `Claim the oldest free item of the queue. Two callers never get the same item. If no item
is free, the exit code is 4 and the error code is not_found.`,
		Example: "  parley workq next --json",
		Args:    cobra.NoArgs,
	}
	return operation(a, cmd, api.NextItem, &api.None{}, func(w io.Writer, c hub.ItemClaim) {
		fmt.Fprintf(w, "%s owns %s since %s\n", c.Owner, c.Item, when(c.At))
	})
}

func (a *app) workqDoneCommand() *cobra.Command {
	var p api.ClaimParams
	cmd := &cobra.Command{Use: "done ITEM", Short: "Remove a finished item from the queue", Args: cobra.ExactArgs(1)}
	return operation(a, cmd, api.FinishItem, &p, func(w io.Writer, c hub.ItemClaim) {
		fmt.Fprintf(w, "%s is done\n", c.Item)
	}, argument(0, &p.Item))
}

func (a *app) workqReleaseCommand() *cobra.Command {
	var p api.ClaimParams
	cmd := &cobra.Command{Use: "release ITEM", Short: "Release an item", Long: "Release an item. The operator can release any item.", Args: cobra.ExactArgs(1)}
	return operation(a, cmd, api.ReleaseItem, &p, func(w io.Writer, c hub.ItemClaim) {
		fmt.Fprintf(w, "%s is free; it belonged to %s\n", c.Item, c.Owner)
	}, argument(0, &p.Item))
}

func (a *app) workqListCommand() *cobra.Command {
	var p api.ClaimsParams
	cmd := &cobra.Command{Use: "list", Short: "List items and their owners", Args: cobra.NoArgs}
	cmd.Flags().StringVar((*string)(&p.Owner), "owner", "", "only items of this agent")
	return operation(a, cmd, api.ListClaims, &p, func(w io.Writer, got api.ClaimList) {
		rows := got.Claims
		for _, q := range got.Free {
			rows = append(rows, hub.ItemClaim{Item: q.Item, Owner: "-", At: q.At})
		}
		writeList(w, "claims", "ITEM, OWNER, SINCE", rows, func(c hub.ItemClaim) []any { return []any{c.Item, c.Owner, c.At} })
	})
}

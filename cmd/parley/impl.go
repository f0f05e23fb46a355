package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/internal/service/contract"
	"github.com/parley-agents/parley/internal/surface/coordination"
)

func (a *app) implCommand() *cobra.Command {
	cmd := group("impl", "How far each repository is with a contract",
		a.implStartCommand(), a.implCompleteCommand(), a.implVerifyCommand(), a.implStatusCommand())
	cmd.Long = `Say that your repository begins to implement a contract, has implemented it, or
that the implementations work together. When all have completed a contract it is
implemented; when one of them has verified it, it is done.`
	return cmd
}

// writeWorkState tells how far an implementation is.
func writeWorkState(w io.Writer, got coordination.WorkState) {
	fmt.Fprintf(w, "%s; contract %s is %s\n", got.Status, got.ContractID, got.ContractStatus)
	if len(got.PendingRepos) > 0 {
		fmt.Fprintf(w, "not completed by %s\n", visible(strings.Join(got.PendingRepos, ", ")))
	}
}

func (a *app) implStartCommand() *cobra.Command {
	var plan string
	var files []string
	cmd := a.inContract(&cobra.Command{
		Use: "start CONTRACT", Short: "Say that your repository begins", Args: cobra.ExactArgs(1),
	}, func(ctx context.Context, in coordination.InContract, _ []string) error {
		return answer(ctx, a, coordination.StartWork, coordination.StartParams{InContract: in, Plan: plan, Files: files}, writeWorkState)
	})
	cmd.Flags().StringVar(&plan, "plan", "", "how it will be done")
	cmd.Flags().StringArrayVar(&files, "file", nil, "file that will probably change (repeatable)")
	return cmd
}

func (a *app) implCompleteCommand() *cobra.Command {
	var files []string
	var notes, endpoint string
	cmd := a.inContract(&cobra.Command{
		Use: "complete CONTRACT --file FILE", Short: "Say that your repository is done", Args: cobra.ExactArgs(1),
	}, func(ctx context.Context, in coordination.InContract, _ []string) error {
		p := coordination.CompleteParams{InContract: in, Files: files, Notes: notes, TestEndpoint: endpoint}
		return answer(ctx, a, coordination.CompleteWork, p, writeWorkState)
	})
	f := cmd.Flags()
	f.StringArrayVar(&files, "file", nil, "file that was changed (repeatable)")
	f.StringVar(&notes, "notes", "", "what the others should know")
	f.StringVar(&endpoint, "test-endpoint", "", "where it can be tried")
	return cmd
}

func (a *app) implVerifyCommand() *cobra.Command {
	var result, notes string
	cmd := a.inContract(&cobra.Command{
		Use: "verify CONTRACT --result success|failure|partial", Short: "Say whether the implementations work together", Args: cobra.ExactArgs(1),
	}, func(ctx context.Context, in coordination.InContract, _ []string) error {
		return answer(ctx, a, coordination.VerifyWork, coordination.VerifyParams{InContract: in, Result: result, Notes: notes}, writeWorkState)
	})
	cmd.Flags().StringVar(&result, "result", "", "success, failure or partial")
	cmd.Flags().StringVar(&notes, "notes", "", "what was tried, and what was seen")
	cmd.RegisterFlagCompletionFunc("result", cobra.FixedCompletions([]string{contract.VerifySuccess, contract.VerifyFailure, contract.VerifyPartial}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (a *app) implStatusCommand() *cobra.Command {
	cmd := a.inContract(&cobra.Command{
		Use: "status CONTRACT", Short: "Show how far each repository is", Args: cobra.ExactArgs(1),
	}, func(ctx context.Context, in coordination.InContract, _ []string) error {
		return answer(ctx, a, coordination.WorkStatus, coordination.ContractParams{InContract: in}, func(w io.Writer, got coordination.Progress) {
			fmt.Fprintf(w, "contract %s version %d is %s\n", got.Contract, got.Version, got.Status)
			t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
			for _, i := range got.Implementations {
				fmt.Fprintf(t, "  %s\t%s\t%s\n", visible(string(i.Agent)), i.Status, visible(strings.Join(i.Files, ", ")))
			}
			t.Flush()
			if len(got.PendingRepos) > 0 {
				fmt.Fprintf(w, "not completed by %s\n", visible(strings.Join(got.PendingRepos, ", ")))
			}
		})
	})
	return cmd
}

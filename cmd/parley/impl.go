package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/internal/service/contract"
	"github.com/parley-agents/parley/internal/surface/coordination"
)

func (a *app) implCommand() *cobra.Command {
	cmd := group("impl", "How far each repository is with a contract",
		a.implStartCommand(), a.implCompleteCommand(), a.implVerifyCommand(), a.implStatusCommand())
	cmd.Long = `Report that your repository begins to implement a contract, has implemented it, or
that the implementations work together. When all have completed a contract it is
implemented; when one of them has verified it, it is verified.`
	return cmd
}

// writeWorkState writes the state of an implementation.
func writeWorkState(w io.Writer, got coordination.WorkState) {
	fmt.Fprintf(w, "%s; contract %s is %s\n", got.Status, got.ContractID, got.ContractStatus)
	writePending(w, got.PendingRepos)
}

func writePending(w io.Writer, repos []string) {
	if len(repos) > 0 {
		fmt.Fprintf(w, "not completed by %s\n", strings.Join(repos, ", "))
	}
}

func (a *app) implStartCommand() *cobra.Command {
	var p contract.Work
	cmd := &cobra.Command{Use: "start CONTRACT", Short: "Report that your repository begins", Args: cobra.ExactArgs(1)}
	cmd.Flags().StringVar(&p.Plan, "plan", "", "how it will be done")
	cmd.Flags().StringArrayVar(&p.Estimated, "file", nil, "file that will probably change (repeatable)")
	asFlag(cmd, &p.As)
	return operation(a, cmd, coordination.StartWork, &p, writeWorkState, a.inContract(cmd, &p.InContract))
}

func (a *app) implCompleteCommand() *cobra.Command {
	var p contract.Work
	cmd := &cobra.Command{Use: "complete CONTRACT --file FILE", Short: "Report that your repository is done", Args: cobra.ExactArgs(1)}
	f := cmd.Flags()
	f.StringArrayVar(&p.Files, "file", nil, "file that was changed (repeatable)")
	f.StringVar(&p.Notes, "notes", "", "what the others should know")
	f.StringVar(&p.TestEndpoint, "test-endpoint", "", "where it can be tried")
	asFlag(cmd, &p.As)
	return operation(a, cmd, coordination.CompleteWork, &p, writeWorkState, a.inContract(cmd, &p.InContract))
}

func (a *app) implVerifyCommand() *cobra.Command {
	var p contract.Verification
	cmd := &cobra.Command{
		Use: "verify CONTRACT --result success|failure|partial", Short: "Report whether the implementations work together", Args: cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&p.Result, "result", "", "success, failure or partial")
	cmd.Flags().StringVar(&p.Notes, "notes", "", "what was tried, and what was seen")
	choices(cmd, "result", contract.VerifySuccess, contract.VerifyFailure, contract.VerifyPartial)
	asFlag(cmd, &p.As)
	return operation(a, cmd, coordination.VerifyWork, &p, writeWorkState, a.inContract(cmd, &p.InContract))
}

func (a *app) implStatusCommand() *cobra.Command {
	var p coordination.ContractParams
	cmd := &cobra.Command{Use: "status CONTRACT", Short: "Show how far each repository is", Args: cobra.ExactArgs(1)}
	return operation(a, cmd, coordination.WorkStatus, &p, func(w io.Writer, got coordination.Progress) {
		fmt.Fprintf(w, "contract %s version %d is %s\n", got.Contract, got.Version, got.Status)
		writeTable(w, "", got.Implementations, func(i coordination.RepoProgress) []any {
			return []any{"  " + string(i.Agent), i.Status, strings.Join(i.Files, ", ")}
		})
		writePending(w, got.PendingRepos)
	}, a.inContract(cmd, &p.InContract))
}

package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/internal/operation/coordination"
	"github.com/parley-agents/parley/internal/service/contract"
)

// writeWorkState writes the state of an implementation.
func writeWorkState(w io.Writer, got coordination.WorkState) {
	fmt.Fprintf(w, "%s; contract %s is %s\n", got.Status, got.ContractID, got.ContractStatus)
	if got.Commit != "" {
		fmt.Fprintf(w, "%s at commit %s against version %d (%s)\n", got.Result, shortCommit(got.Commit), got.Against, got.Kind)
	}
	writePending(w, got.PendingRepos)
}

func writePending(w io.Writer, repos []string) {
	if len(repos) > 0 {
		fmt.Fprintf(w, "not completed by %s\n", strings.Join(repos, ", "))
	}
}

func (a *app) contractStartCommand() *cobra.Command {
	var p contract.Work
	cmd := &cobra.Command{Use: "start CONTRACT", Short: "Report the start of your implementation", Args: cobra.ExactArgs(1)}
	cmd.Flags().StringVar(&p.Plan, "plan", "", "plan for the implementation")
	cmd.Flags().StringArrayVar(&p.Estimated, "file", nil, "file that will probably change (repeatable)")
	asFlag(cmd, &p.As)
	return operation(a, cmd, coordination.StartWork, &p, writeWorkState, a.inContract(cmd, &p.InContract))
}

func (a *app) contractDoneCommand() *cobra.Command {
	var p contract.Work
	cmd := &cobra.Command{Use: "done CONTRACT --file FILE", Short: "Report that your implementation is complete", Args: cobra.ExactArgs(1)}
	f := cmd.Flags()
	f.StringArrayVar(&p.Files, "file", nil, "changed file (repeatable)")
	f.StringVar(&p.Notes, "notes", "", "notes for the other repositories")
	f.StringVar(&p.TestEndpoint, "test-endpoint", "", "address for testing the implementation")
	asFlag(cmd, &p.As)
	return operation(a, cmd, coordination.CompleteWork, &p, writeWorkState, a.evidenceFlags(cmd, &p.Evidence, &p.Result), a.inContract(cmd, &p.InContract))
}

func (a *app) contractVerifyCommand() *cobra.Command {
	var p contract.Verification
	cmd := &cobra.Command{
		Use: "verify CONTRACT --result success|failure|partial", Short: "Report whether the implementations work together",
		Long: `Report whether the implementations work together. With --commit the result is recorded
for that commit of your repository: as run if the hub ran the check that --check names, or
if a token with the permission evidence sends it, and as said otherwise. Only results that
were run count for parley contract can-merge.`,
		Example: `  parley contract verify "Get User" --repo frontend-app --commit HEAD --check contract-tests
  parley contract verify "Get User" --repo frontend-app --commit "$CI_COMMIT" --junit report.xml`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&p.Result, "result", "", "result of the test: success, failure or partial")
	cmd.Flags().StringVar(&p.Notes, "notes", "", "notes on the test and its result")
	choices(cmd, "result", contract.VerifySuccess, contract.VerifyFailure, contract.VerifyPartial)
	asFlag(cmd, &p.As)
	return operation(a, cmd, coordination.VerifyWork, &p, writeWorkState, a.evidenceFlags(cmd, &p.Evidence, &p.Result), a.inContract(cmd, &p.InContract))
}

func (a *app) contractProgressCommand() *cobra.Command {
	var p coordination.ContractParams
	cmd := &cobra.Command{Use: "progress CONTRACT", Short: "Show the progress of each repository", Args: cobra.ExactArgs(1)}
	return operation(a, cmd, coordination.WorkStatus, &p, func(w io.Writer, got coordination.Progress) {
		fmt.Fprintf(w, "contract %s version %d is %s\n", got.Contract, got.Version, got.Status)
		writeTable(w, "", got.Implementations, func(i coordination.RepoProgress) []any {
			return []any{"  " + string(i.Agent), i.Status, strings.Join(i.Files, ", ")}
		})
		writePending(w, got.PendingRepos)
	}, a.inContract(cmd, &p.InContract))
}

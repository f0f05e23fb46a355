package main

import (
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
implemented; when somebody has verified it, it is done.`
	return cmd
}

// work calls a method that changes an implementation and says how it stands.
func (a *app) work(cmd *cobra.Command, project *projectFlag, method, id string, params map[string]any) error {
	got, err := about[coordination.Worked](cmd.Context(), a, project, method, id, params)
	if err != nil {
		return err
	}
	return a.print(got, func(w io.Writer) {
		fmt.Fprintf(w, "%s; contract %s is %s\n", got.Status, got.ContractID, got.ContractStatus)
		if len(got.PendingRepos) > 0 {
			fmt.Fprintf(w, "not completed by %s\n", visible(strings.Join(got.PendingRepos, ", ")))
		}
	})
}

func (a *app) implStartCommand() *cobra.Command {
	var project *projectFlag
	var plan string
	var files []string
	cmd := &cobra.Command{
		Use: "start CONTRACT", Short: "Say that your repository begins", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p := map[string]any{"plan": plan}
			setList(p, "estimatedFiles", files)
			return a.work(cmd, project, "cacp/implementation/start", args[0], p)
		},
	}
	project = projectOf(cmd)
	cmd.Flags().StringVar(&plan, "plan", "", "how it will be done")
	cmd.Flags().StringArrayVar(&files, "file", nil, "file that will probably change (repeatable)")
	return cmd
}

func (a *app) implCompleteCommand() *cobra.Command {
	var project *projectFlag
	var files []string
	var notes, endpoint string
	cmd := &cobra.Command{
		Use: "complete CONTRACT --file FILE", Short: "Say that your repository is done", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if files == nil {
				files = []string{}
			}
			p := map[string]any{"files": files}
			set(p, "notes", notes)
			set(p, "testEndpoint", endpoint)
			return a.work(cmd, project, "cacp/implementation/complete", args[0], p)
		},
	}
	project = projectOf(cmd)
	f := cmd.Flags()
	f.StringArrayVar(&files, "file", nil, "file that was changed (repeatable)")
	f.StringVar(&notes, "notes", "", "what the others should know")
	f.StringVar(&endpoint, "test-endpoint", "", "where it can be tried")
	return cmd
}

func (a *app) implVerifyCommand() *cobra.Command {
	var project *projectFlag
	var result, notes string
	cmd := &cobra.Command{
		Use: "verify CONTRACT --result success|failure|partial", Short: "Say whether the implementations work together", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p := map[string]any{"result": result}
			set(p, "notes", notes)
			return a.work(cmd, project, "cacp/implementation/verify", args[0], p)
		},
	}
	project = projectOf(cmd)
	cmd.Flags().StringVar(&result, "result", "", "success, failure or partial")
	cmd.Flags().StringVar(&notes, "notes", "", "what was tried, and what was seen")
	cmd.RegisterFlagCompletionFunc("result", cobra.FixedCompletions([]string{contract.VerifySuccess, contract.VerifyFailure, contract.VerifyPartial}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (a *app) implStatusCommand() *cobra.Command {
	var project *projectFlag
	cmd := &cobra.Command{
		Use: "status CONTRACT", Short: "Show how far each repository is", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			got, err := about[coordination.Progress](cmd.Context(), a, project, "cacp/implementation/getStatus", args[0], nil)
			if err != nil {
				return err
			}
			return a.print(got, func(w io.Writer) {
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
		},
	}
	project = projectOf(cmd)
	return cmd
}

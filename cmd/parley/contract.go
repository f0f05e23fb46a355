package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/contract"
	"github.com/parley-agents/parley/internal/surface/coordination"
	"github.com/parley-agents/parley/internal/surface/rpc"
)

func (a *app) contractCommand() *cobra.Command {
	cmd := group("contract", "Interfaces that repositories agree on",
		a.contractProposeCommand(), a.contractShowCommand(), a.contractDiffCommand(), a.contractRespondCommand(), a.contractUpdateCommand(),
		a.contractListCommand(), a.contractHistoryCommand(), a.contractCheckCommand(), a.contractWatchCommand())
	cmd.Long = `A contract is an interface that repositories agree on: proposed by one, agreed to
by others, implemented by all, verified together. Each change of its content is
a new version.`
	return cmd
}

func (a *app) contractProposeCommand() *cobra.Command {
	var kind, name, content string
	cmd := a.inProject(&cobra.Command{
		Use: "propose --type TYPE --name NAME --content JSON|@FILE|-", Short: "Propose an interface",
		Example: `  parley contract propose --type api_endpoint --name "Get User" \
    --content '{"method":"GET","path":"/users/{id}","responseBody":{"type":"object"}}'`,
		Args: cobra.NoArgs,
	}, func(ctx context.Context, in coordination.InProject, _ []string) error {
		raw, err := a.object(ctx, "--content", content)
		if err != nil {
			return err
		}
		return answer(ctx, a, coordination.Propose,
			coordination.Proposal{InProject: in, Type: hub.ContractType(kind), Name: name, Content: raw}, a.writeProposed)
	})
	f := cmd.Flags()
	f.StringVar(&kind, "type", "", "api_endpoint, event_schema, data_model, config_spec, rpc_interface or custom")
	f.StringVar(&name, "name", "", "what it is called")
	f.StringVar(&content, "content", "", "the interface: a JSON object, @FILE, or - for standard input")
	cmd.RegisterFlagCompletionFunc("type", cobra.FixedCompletions(words(hub.ContractTypes), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func words[S ~string](list []S) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = string(s)
	}
	return out
}

// typed returns words as values of a string type.
func typed[S ~string](words []string) []S {
	var out []S
	for _, w := range words {
		out = append(out, S(w))
	}
	return out
}

func (a *app) writeProposed(w io.Writer, got coordination.Proposed) {
	fmt.Fprintf(w, "contract %s version %d is %s\n", got.Contract, got.Version, got.Status)
	for _, warning := range got.Warnings {
		fmt.Fprintf(a.err, "note: %s\n", visible(warning))
	}
}

func (a *app) contractUpdateCommand() *cobra.Command {
	var content, note string
	var version int
	cmd := a.inContract(&cobra.Command{
		Use: "update ID --content JSON|@FILE|-", Short: "Give a contract its next version",
		Args: cobra.ExactArgs(1),
	}, func(ctx context.Context, in coordination.InContract, _ []string) error {
		raw, err := a.object(ctx, "--content", content)
		if err != nil {
			return err
		}
		return answer(ctx, a, coordination.Update,
			coordination.Revision{InContract: in, Content: raw, Note: note, Version: version}, a.writeProposed)
	})
	f := cmd.Flags()
	f.StringVar(&content, "content", "", "the interface: a JSON object, @FILE, or - for standard input")
	f.StringVar(&note, "note", "", "what changed, and why")
	f.IntVar(&version, "version", 0, "the version that it replaces; refused if there is a newer one")
	return cmd
}

func (a *app) contractRespondCommand() *cobra.Command {
	var comment string
	var version int
	cmd := a.inContract(&cobra.Command{
		Use: "respond ID agree|request_change|reject", Short: "Agree to a contract, ask for a change, or reject it",
		Example:   `  parley contract respond 0199... request_change --comment "avatar may be null"`,
		Args:      cobra.ExactArgs(2),
		ValidArgs: []string{contract.ActionAgree, contract.ActionRequestChange, contract.ActionReject},
	}, func(ctx context.Context, in coordination.InContract, args []string) error {
		p := coordination.Response{InContract: in, Action: args[1], Comment: comment, Version: version}
		return answer(ctx, a, coordination.Respond, p, func(w io.Writer, got coordination.Responded) {
			fmt.Fprintf(w, "contract %s version %d is %s\n", got.ContractID, got.Version, got.ContractStatus)
			if len(got.PendingRepos) > 0 {
				fmt.Fprintf(w, "still to agree: %s\n", visible(strings.Join(got.PendingRepos, ", ")))
			}
		})
	})
	cmd.Flags().StringVar(&comment, "comment", "", "what the others should know")
	cmd.Flags().IntVar(&version, "version", 0, "the version that you have seen; refused if there is a newer one")
	return cmd
}

func (a *app) contractShowCommand() *cobra.Command {
	cmd := a.inContract(&cobra.Command{
		Use: "show ID", Short: "Show a contract and who has implemented it", Args: cobra.ExactArgs(1),
	}, func(ctx context.Context, in coordination.InContract, _ []string) error {
		return answer(ctx, a, coordination.GetContract, coordination.GetParams{InContract: in, History: true}, func(w io.Writer, got coordination.Contract) {
			fmt.Fprintf(w, "%s\n%s, version %d, %s\n", visible(got.Name), got.Type, got.Version, got.Status)
			for _, i := range got.Implementations {
				fmt.Fprintf(w, "  %s: %s %s\n", visible(string(i.Agent)), i.Status, visible(strings.Join(i.Files, ", ")))
			}
			for _, c := range got.Conflicts {
				fmt.Fprintf(w, "  another version %d was proposed at the same time and lost; it is kept (--json shows it)\n", c.Version)
			}
			writeObject(w, got.Content)
		})
	})
	return cmd
}

// writeObject writes a JSON value for people.
func writeObject(w io.Writer, raw json.RawMessage) {
	text, err := json.MarshalIndent(raw, "", "  ")
	if err != nil {
		text = raw
	}
	fmt.Fprintln(w, visible(string(text)))
}

func (a *app) contractDiffCommand() *cobra.Command {
	var from, to int
	cmd := a.inContract(&cobra.Command{
		Use: "diff ID", Short: "Show what changed between two versions", Args: cobra.ExactArgs(1),
	}, func(ctx context.Context, in coordination.InContract, _ []string) error {
		return answer(ctx, a, coordination.DiffContract, coordination.DiffParams{InContract: in, From: from, To: to}, a.writeDiff)
	})
	cmd.Flags().IntVar(&from, "from", 0, "the older version (default the one before)")
	cmd.Flags().IntVar(&to, "to", 0, "the newer version (default the newest)")
	return cmd
}

func (a *app) writeDiff(w io.Writer, d contract.Diff) {
	fmt.Fprintf(w, "version %d to version %d\n", d.From, d.To)
	if len(d.Changes) == 0 {
		fmt.Fprintln(w, "nothing changed")
	}
	for _, c := range d.Changes {
		if c.Old != nil {
			fmt.Fprintln(w, a.paint(w, "31", visible(fmt.Sprintf("- %s: %s", c.Path, c.Old))))
		}
		if c.New != nil {
			fmt.Fprintln(w, a.paint(w, "32", visible(fmt.Sprintf("+ %s: %s", c.Path, c.New))))
		}
	}
	if d.Cut {
		fmt.Fprintln(w, "and more")
	}
}

func (a *app) contractListCommand() *cobra.Command {
	var status, kind string
	cmd := a.inProject(&cobra.Command{
		Use: "list", Short: "List the contracts of a project", Args: cobra.NoArgs,
	}, func(ctx context.Context, in coordination.InProject, _ []string) error {
		p := coordination.ListContractsParams{InProject: in, Status: hub.ContractStatus(status), Type: hub.ContractType(kind)}
		all := coordination.Contracts{Contracts: []coordination.Contract{}}
		for {
			got, err := call(ctx, a, coordination.ListContracts, p)
			if err != nil {
				return err
			}
			all.Contracts = append(all.Contracts, got.Contracts...)
			if got.Next == "" {
				break
			}
			p.After = got.Next
		}
		return a.print(all, func(w io.Writer) {
			if len(all.Contracts) == 0 {
				fmt.Fprintln(w, "no contracts")
				return
			}
			t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
			fmt.Fprintln(t, "ID\tVERSION\tSTATUS\tTYPE\tNAME")
			for _, c := range all.Contracts {
				fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\n", c.ID, c.Version, c.Status, c.Type, visible(c.Name))
			}
			t.Flush()
		})
	})
	cmd.Flags().StringVar(&status, "status", "", "only those that are proposed, negotiating, agreed, implemented or verified")
	cmd.Flags().StringVar(&kind, "type", "", "only those of one type")
	cmd.RegisterFlagCompletionFunc("status", cobra.FixedCompletions(words(hub.ContractStatuses), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (a *app) contractHistoryCommand() *cobra.Command {
	cmd := a.inContract(&cobra.Command{
		Use: "history ID", Short: "Show the versions of a contract and what was said about them", Args: cobra.ExactArgs(1),
	}, func(ctx context.Context, in coordination.InContract, _ []string) error {
		got, err := call(ctx, a, coordination.GetContract, coordination.GetParams{InContract: in, History: true})
		if err != nil {
			return err
		}
		said, err := call(ctx, a, coordination.ListContext, coordination.ContextParams{InProject: in.InProject, Contract: in.Contract})
		if err != nil {
			return err
		}
		return a.print(map[string]any{"contract": got, "context": said.Packets}, func(w io.Writer) {
			for _, v := range got.History {
				fmt.Fprintf(w, "version %d, until %s", v.Version, v.At)
				if v.ChangeNotes != "" {
					fmt.Fprintf(w, ": %s", visible(v.ChangeNotes))
				}
				fmt.Fprintln(w)
			}
			fmt.Fprintf(w, "version %d, now: %s\n", got.Version, got.Status)
			for _, p := range said.Packets {
				fmt.Fprintf(w, "  %s %s %s: %s\n", p.At, visible(string(p.FromAgent)), p.Type, visible(string(p.Content)))
			}
		})
	})
	return cmd
}

func (a *app) contractCheckCommand() *cobra.Command {
	var repo, require string
	cmd := a.inProject(&cobra.Command{
		Use: "check", Short: "Fail unless the contracts have come far enough: the gate for CI",
		Long: `Fail (exit code 1) unless every contract that the repository takes part in is
agreed, implemented or verified, as --require says. Prints the contracts that are
not, and the repositories that they wait for. Meant for CI and for merges.`,
		Example: `  parley contract check --project ID --repo frontend-app --require implemented`,
		Args:    cobra.NoArgs,
	}, func(ctx context.Context, in coordination.InProject, _ []string) error {
		got, err := call(ctx, a, coordination.Check, coordination.CheckParams{InProject: in, Repo: repo, Require: hub.ContractStatus(require)})
		if err != nil {
			return err
		}
		if err := a.print(got, func(w io.Writer) { a.writeVerdict(w, got) }); err != nil {
			return err
		}
		if !got.OK {
			return errCheck
		}
		return nil
	})
	cmd.Flags().StringVar(&repo, "repo", "", "only contracts that this repository takes part in (default all)")
	cmd.Flags().StringVar(&require, "require", "", "agreed, implemented or verified (default agreed)")
	cmd.RegisterFlagCompletionFunc("require", cobra.FixedCompletions([]string{"agreed", "implemented", "verified"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (a *app) writeVerdict(w io.Writer, v contract.Verdict) {
	for _, f := range v.Failures {
		fmt.Fprintf(w, "%s version %d is %s\n", visible(f.Name), f.Version, a.paint(w, "31", visible(f.Reason)))
	}
	if v.OK {
		fmt.Fprintf(w, "%s %d contracts, all with the required status\n", a.paint(w, "32", "ok"), v.Checked)
	} else {
		fmt.Fprintf(w, "%d of %d contracts lack the required status\n", len(v.Failures), v.Checked)
	}
}

func (a *app) contractWatchCommand() *cobra.Command {
	var project *projectFlag
	cmd := &cobra.Command{
		Use: "watch", Short: "Show what happens to contracts, as it happens",
		Long: `Show what happens to contracts here and on other hubs, as it happens, until
Ctrl-C. Without --project all projects are watched.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.watchContracts(cmd.Context(), project.id) },
	}
	project = projectOf(cmd)
	return cmd
}

// watchWait is how long one call of a watch waits, in seconds.
const watchWait = 30

// watchContracts shows every change of a contract, also over a restart of the
// hub. A hub that is not there in the first place is an error.
func (a *app) watchContracts(ctx context.Context, project string) error {
	var p coordination.ChangesParams
	away := false
	for {
		got, err := call(ctx, a, coordination.ListChanges, p)
		switch {
		case ctx.Err() != nil:
			return nil // Ctrl-C is how this ends
		case errors.Is(err, rpc.ErrUnreachable) && p.After != nil:
			if !away {
				fmt.Fprintln(a.err, "the hub is away, trying again")
			}
			away = true
			select {
			case <-time.After(watchRetry):
			case <-ctx.Done():
			}
			continue
		case err != nil:
			return err
		}
		if p.After == nil {
			fmt.Fprintln(a.err, "watching")
		}
		away = false
		p.After, p.WaitS = &got.Next, watchWait
		for _, c := range got.Changes {
			if c.Kind != hub.ChangeContract || project != "" && string(c.Project) != project {
				continue
			}
			if err := a.printChange(ctx, c); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
}

// printChange shows a contract after a change.
func (a *app) printChange(ctx context.Context, c hub.Change) error {
	got, err := call(ctx, a, coordination.GetContract, coordination.GetParams{
		InContract: coordination.InContract{InProject: coordination.InProject{Project: c.Project}, Contract: hub.ContractID(c.Object)},
	})
	if err != nil {
		return err
	}
	return a.print(map[string]any{"change": c, "contract": got}, func(w io.Writer) {
		from := "here"
		if c.Origin != "" {
			from = "from " + visible(string(c.Origin))
		}
		fmt.Fprintf(w, "%s %s version %d is %s (%s)\n", c.At, visible(got.Name), got.Version, got.Status, from)
	})
}

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/compat"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/strictjson"
	"github.com/parley-agents/parley/internal/operation/coordination"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/contract"
)

func (a *app) contractCommand() *cobra.Command {
	cmd := noun("contract", "Agree on interfaces between repositories", a.contractListCommand(),
		a.contractProposeCommand(), a.contractShowCommand(), a.contractDiffCommand(), a.contractCompareCommand(), a.contractRespondCommand(), a.contractUpdateCommand(),
		a.contractUseCommand(), a.contractProviderCommand(), a.contractImpactCommand(), a.contractPolicyCommand(), a.contractDeprecateCommand(), a.contractWithdrawCommand(), a.contractMatrixCommand(),
		a.contractTestCommand(), a.contractEnvCommand(), a.canMergeCommand(), a.canDeployCommand(), a.deployedCommand(),
		a.contractPushCommand(), a.contractPullCommand(), a.contractStatusCommand(),
		a.contractStartCommand(), a.contractDoneCommand(), a.contractVerifyCommand(), a.contractProgressCommand(), a.contractHistoryCommand(), a.contractCheckCommand(), a.contractWatchCommand())
	cmd.Long = `A contract is an interface between repositories: proposed by one, agreed to by
others, implemented by all, and verified together. Each change of its content is a
new version. A contract may have a provider and consumers: then each new version has a
verdict for each consumer (compatible, breaking or unknown), and the project's policy
decides about those that are not compatible. Commands take the id or the unique name of
a contract.`
	return cmd
}

func (a *app) contractProposeCommand() *cobra.Command {
	var p contract.Proposal
	cmd := &cobra.Command{
		Use: "propose --type TYPE --name NAME --content JSON|@FILE|-", Short: "Propose an interface",
		Example: `  parley contract propose --type api_endpoint --name "Get User" \
    --content '{"method":"GET","path":"/users/{id}","responseBody":{"type":"object"}}'`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar((*string)(&p.Type), "type", "", "type of the contract: api_endpoint, event_schema, data_model, config_spec, rpc_interface or custom")
	cmd.Flags().StringVar(&p.Name, "name", "", "name of the interface")
	choices(cmd, "type", coord.ContractTypes...)
	directionFlags(cmd, &p.Direction)
	asFlag(cmd, &p.As)
	return operation(a, cmd, coordination.Propose, &p, a.writeProposed, a.contentFlag(cmd, &p.Content), a.inProject(cmd, &p.InProject))
}

// directionFlags adds the flags for the provider, the format and the direction of a contract.
func directionFlags(cmd *cobra.Command, into *contract.Direction) {
	cmd.Flags().StringVar(&into.Provider, "provider", "", "repository that provides the interface; . for your own")
	cmd.Flags().StringVar(&into.Format, "format", "", "format of the content: json-schema, openapi, shape or custom (default: by the content)")
	cmd.Flags().StringVar(&into.Flow, "direction", "", "who sends the documents of a schema: request (consumers), response (the provider) or both (default: by the type)")
	choices(cmd, "format", compat.Formats...)
	choices(cmd, "direction", compat.Directions...)
}

// asFlag adds the flag that names the repository that an operation acts for.
func asFlag(cmd *cobra.Command, into *contract.As) {
	cmd.Flags().StringVar(&into.Repo, "repo", "", "your repository; required if you claimed more than one")
}

func (a *app) contentFlag(cmd *cobra.Command, into *json.RawMessage) preparation {
	return a.jsonFlag(cmd, into, "content", "the interface: a JSON object, @FILE, or - for standard input")
}

func (a *app) writeProposed(w io.Writer, got coordination.Proposed) {
	fmt.Fprintf(w, "contract %s version %d is %s\n", got.Contract, got.Version, got.Status)
	if got.Verdict != "" && got.Base != nil {
		fmt.Fprintf(w, "%s compared with version %d", a.paint(w, verdictColours[got.Verdict], string(got.Verdict)), got.Base.Version)
		if len(got.Affected) > 0 {
			fmt.Fprintf(w, " for %s", strings.Join(got.Affected, ", "))
		}
		fmt.Fprintln(w)
	}
	for _, reason := range got.Reasons {
		fmt.Fprintf(w, "  %s\n", reason)
	}
	if len(got.PendingRepos) > 0 {
		fmt.Fprintf(w, "still to agree: %s\n", strings.Join(got.PendingRepos, ", "))
	}
	for _, warning := range got.Warnings {
		fmt.Fprintf(a.err, "note: %s\n", warning)
	}
}

func (a *app) contractUpdateCommand() *cobra.Command {
	var p contract.Revision
	cmd := &cobra.Command{Use: "update ID --content JSON|@FILE|-", Short: "Propose the next version of a contract", Args: cobra.ExactArgs(1)}
	cmd.Flags().StringVar(&p.Note, "note", "", "description of the change")
	cmd.Flags().Var((*strictjson.Count)(&p.Version), "version", "version to replace; refused if a newer one exists")
	directionFlags(cmd, &p.Direction)
	cmd.Long = `Propose the next version of a contract. Provider, direction and format belong to the
contract: an update that names another one is refused. parley contract provider changes
provider and direction.`
	asFlag(cmd, &p.As)
	return operation(a, cmd, coordination.Update, &p, a.writeProposed, a.contentFlag(cmd, &p.Content), a.inContract(cmd, &p.InContract))
}

func (a *app) contractRespondCommand() *cobra.Command {
	var p contract.Response
	cmd := &cobra.Command{
		Use: "respond ID agree|request_change|reject", Short: "Agree to a contract, ask for a change, or reject it",
		Example:   `  parley contract respond 0199... request_change --comment "avatar may be null"`,
		Args:      cobra.ExactArgs(2),
		ValidArgs: []string{contract.ActionAgree, contract.ActionRequestChange, contract.ActionReject},
	}
	cmd.Flags().StringVar(&p.Comment, "comment", "", "comment for the other repositories")
	cmd.Flags().Var((*strictjson.Count)(&p.Version), "version", "version that you answer; refused if a newer one exists")
	asFlag(cmd, &p.As)
	return operation(a, cmd, coordination.Respond, &p, func(w io.Writer, got coordination.Responded) {
		fmt.Fprintf(w, "contract %s version %d is %s\n", got.ContractID, got.Version, got.ContractStatus)
		if len(got.PendingRepos) > 0 {
			fmt.Fprintf(w, "still to agree: %s\n", strings.Join(got.PendingRepos, ", "))
		}
	}, argument(1, &p.Action), a.inContract(cmd, &p.InContract), func(ctx context.Context, _ []string) error {
		if p.Version > 0 {
			return nil
		}
		got, err := call(ctx, a, coordination.GetContract, coordination.GetParams{InContract: p.InContract})
		p.Version = got.Version // an update in between is refused
		return err
	})
}

func (a *app) contractShowCommand() *cobra.Command {
	p := coordination.GetParams{History: true}
	cmd := &cobra.Command{Use: "show ID", Short: "Show a contract and its implementations", Args: cobra.ExactArgs(1)}
	return operation(a, cmd, coordination.GetContract, &p, func(w io.Writer, got coordination.Contract) {
		fmt.Fprintf(w, "%s\n%s, version %d, %s\n", got.Name, got.Type, got.Version, got.State())
		writeTerms(w, got)
		for _, i := range got.Implementations {
			fmt.Fprintf(w, "  %s: %s %s\n", i.Agent, i.Status, strings.Join(i.Files, ", "))
		}
		for _, c := range got.Conflicts {
			fmt.Fprintf(w, "  another version %d was proposed at the same time and lost; it is kept (--json shows it)\n", c.Version)
		}
		text, err := json.MarshalIndent(got.Content, "", "  ")
		if err != nil {
			text = got.Content
		}
		fmt.Fprintln(w, string(text))
	}, a.inContract(cmd, &p.InContract))
}

// writeTerms prints the provider of a contract, its consumers and the parts that end.
func writeTerms(w io.Writer, c coordination.Contract) {
	t := c.Shown
	if t.Provider != "" {
		fmt.Fprintf(w, "provided by %s\n", t.Provider)
	}
	if f := t.InForce; f != nil {
		fmt.Fprintf(w, "version %d is in force since %s\n", f.Version, whenInstant(f.Since))
	}
	for _, u := range t.Uses {
		fmt.Fprintf(w, "used by %s: %s\n", u.Repository, partsText(u.Parts))
	}
	for _, e := range t.Deprecated {
		fmt.Fprintf(w, "%s ends after %s\n", cmp.Or(e.Part, "the contract"), e.Until)
	}
	for _, e := range t.Withdrawn {
		fmt.Fprintf(w, "%s was withdrawn\n", cmp.Or(e.Part, "the contract"))
	}
}

// partsText lists the parts of a contract that a consumer uses.
func partsText(parts []string) string {
	if len(parts) == 0 {
		return "everything"
	}
	return strings.Join(parts, ", ")
}

func (a *app) contractDiffCommand() *cobra.Command {
	var p coordination.DiffParams
	var exitCode bool
	var junit string
	cmd := &cobra.Command{
		Use: "diff ID", Short: "Show the changes between two versions, and whom they break",
		Long: `Show the changes between two versions of a contract, with the verdict for each consumer.
With --content the version in force is compared with a content that the contract might
have next. With --exit-code the exit code is 1 unless the change is compatible for every
consumer.`,
		Example: `  parley contract diff "Get User"
  parley contract diff "Get User" --content @user.json --exit-code`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().Var((*strictjson.Count)(&p.From), "from", "older version (default the one before --to)")
	cmd.Flags().Var((*strictjson.Count)(&p.To), "to", "newer version (default the newest)")
	cmd.Flags().BoolVar(&exitCode, "exit-code", false, "exit with 1 unless the change is compatible")
	junitFlag(cmd, &junit)
	return prepared(cmd, func(ctx context.Context) error {
		got, err := call(ctx, a, coordination.DiffContract, p)
		if err == nil {
			err = writeJUnit(junit, "contract diff", diffCases(got))
		}
		if err != nil {
			return err
		}
		return a.check(!exitCode || isCompatible(got.Verdict), got, func(w io.Writer) { a.writeDiff(w, got) })
	}, a.optionalContent(cmd, &p.Content), a.inContract(cmd, &p.InContract))
}

// optionalContent adds the flag for a content that a contract might have next.
func (a *app) optionalContent(cmd *cobra.Command, into *json.RawMessage) preparation {
	value := cmd.Flags().String("content", "", "compare with this content: a JSON object, @FILE, or - for standard input")
	return func(ctx context.Context, _ []string) (err error) {
		if *value != "" {
			*into, err = a.object(ctx, "--content", *value)
		}
		return err
	}
}

// isCompatible reports whether a verdict is compatible for every declared consumer, or for a
// consumer of everything if none is declared.
func isCompatible(v compat.Verdict) bool {
	if len(v.Consumers) == 0 {
		return v.Verdict == compat.Compatible
	}
	return !slices.ContainsFunc(v.Consumers, func(c compat.ConsumerVerdict) bool { return c.Verdict != compat.Compatible })
}

func (a *app) writeDiff(w io.Writer, d contract.Diff) {
	fmt.Fprintf(w, "version %d to version %d\n", d.From, d.To)
	if len(d.Changes) == 0 {
		fmt.Fprintln(w, "nothing changed")
	}
	for _, c := range d.Changes {
		if c.Old != nil {
			fmt.Fprintln(w, a.paint(w, "31", fmt.Sprintf("- %s: %s", c.Path, c.Old)))
		}
		if c.New != nil {
			fmt.Fprintln(w, a.paint(w, "32", fmt.Sprintf("+ %s: %s", c.Path, c.New)))
		}
	}
	if d.Cut {
		fmt.Fprintln(w, "and more")
	}
	if len(d.Changes) == 0 {
		return
	}
	fmt.Fprintln(w)
	for _, c := range d.Consumers {
		fmt.Fprintf(w, "for %s: %s\n", c.Repository, a.paint(w, verdictColours[c.Verdict], string(c.Verdict)))
	}
	all := d.Verdict
	all.Consumers = nil
	a.writeComparison(w, all, all.Verdict)
}

func (a *app) contractListCommand() *cobra.Command {
	var p coordination.ListContractsParams
	cmd := &cobra.Command{Use: "list", Short: "List the contracts of a project", Args: cobra.NoArgs}
	prepared(cmd, func(ctx context.Context) error {
		all := []coordination.Contract{}
		for {
			got, err := call(ctx, a, coordination.ListContracts, p)
			if err != nil {
				return err
			}
			all = append(all, got.Contracts...)
			if p.After = got.Next; p.After == "" {
				break
			}
		}
		return a.print(coordination.Contracts{Contracts: all}, func(w io.Writer) {
			writeList(w, "contracts", "ID, VERSION, STATUS, TYPE, NAME", all, func(c coordination.Contract) []any {
				return []any{c.ID, c.Version, c.State(), c.Type, c.Name}
			})
		})
	}, a.inProject(cmd, &p.InProject))
	cmd.Flags().StringVar((*string)(&p.Status), "status", "", "only contracts with this status: proposed, negotiating, agreed, implemented or verified")
	cmd.Flags().StringVar((*string)(&p.Type), "type", "", "only contracts of this type")
	choices(cmd, "status", coord.ContractStatuses...)
	return cmd
}

func (a *app) contractHistoryCommand() *cobra.Command {
	p := coordination.GetParams{History: true}
	cmd := &cobra.Command{Use: "history ID", Short: "Show a contract's versions and related context", Args: cobra.ExactArgs(1)}
	prepared(cmd, func(ctx context.Context) error {
		got, err := call(ctx, a, coordination.GetContract, p)
		if err != nil {
			return err
		}
		about, err := call(ctx, a, coordination.ListContext, coordination.ContextParams{InProject: p.InProject, Contract: p.Contract})
		if err != nil {
			return err
		}
		return a.print(map[string]any{"contract": got, "context": about.Packets}, func(w io.Writer) {
			for _, v := range got.History {
				fmt.Fprintf(w, "version %d, until %s", v.Version, whenInstant(v.At))
				if v.ChangeNotes != "" {
					fmt.Fprintf(w, ": %s", v.ChangeNotes)
				}
				fmt.Fprintln(w)
			}
			fmt.Fprintf(w, "version %d, now: %s\n", got.Version, got.Status)
			for _, p := range about.Packets {
				fmt.Fprintf(w, "  %s %s %s: %s\n", whenInstant(p.At), p.FromAgent, p.Type, p.Content)
			}
		})
	}, a.inContract(cmd, &p.InContract))
	return cmd
}

func (a *app) contractCheckCommand() *cobra.Command {
	var p contract.Gate
	var junit string
	cmd := &cobra.Command{
		Use: "check", Short: "Check that contracts are ready (for CI)",
		Long: `Check that every contract of the repository has reached the status given by --require:
agreed, implemented or verified. Contracts that have not are printed with the
repositories that they are waiting for, and the exit code is 1. The check also fails if
there are no contracts, unless --allow-none is given. Use it in CI and before merges.`,
		Example: `  parley contract check --project ID --repo frontend-app --require implemented`,
		Args:    cobra.NoArgs,
	}
	prepared(cmd, func(ctx context.Context) error {
		got, err := call(ctx, a, coordination.Check, p)
		if err == nil {
			err = writeJUnit(junit, "contract check", gateCases(got))
		}
		if err != nil {
			return err
		}
		return a.check(got.OK, got, func(w io.Writer) { a.writeVerdict(w, got) })
	}, a.inProject(cmd, &p.InProject))
	cmd.Flags().StringVar(&p.Repo, "repo", "", "only contracts of this repository (default all)")
	cmd.Flags().StringVar((*string)(&p.Require), "require", "", "required status: agreed, implemented or verified (default agreed)")
	cmd.Flags().BoolVar(&p.AllowNone, "allow-none", false, "succeed if there is no contract to check")
	junitFlag(cmd, &junit)
	choices(cmd, "require", coord.ContractAgreed, coord.ContractImplemented, coord.ContractVerified)
	return cmd
}

func (a *app) writeVerdict(w io.Writer, v contract.Verdict) {
	for _, f := range v.Failures {
		name := f.Name
		if f.Version > 0 {
			name = fmt.Sprintf("%s version %d", name, f.Version)
		}
		fmt.Fprintf(w, "%s is %s\n", name, a.paint(w, "31", f.Reason))
	}
	switch {
	case !v.OK && v.Checked == 0:
		fmt.Fprintln(w, "no contract to check; --allow-none lets that pass")
	case v.OK:
		fmt.Fprintf(w, "%s %d contracts, all with the required status\n", a.paint(w, "32", "ok"), v.Checked)
	default:
		fmt.Fprintf(w, "%d of %s failed the check\n", len(v.Failures), counted(v.Checked, "contract"))
	}
}

func (a *app) contractWatchCommand() *cobra.Command {
	var in coordination.InProject
	cmd := &cobra.Command{
		Use: "watch", Short: "Follow changes to contracts",
		Long: `Print each change to a contract, here and on other hubs, as it happens, until Ctrl-C.
Without --project, all projects are watched.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.watchContracts(cmd.Context(), in.Project) },
	}
	projectFlag(cmd, &in)
	cmd.Flags().Lookup("project").Usage = "only this project (default all)"
	return cmd
}

// watchWait is how long one call of a watch waits, in seconds.
const watchWait = 30

// watchContracts prints every change of a contract, also over a restart of the
// hub. A hub that cannot be reached at the first call is an error.
func (a *app) watchContracts(ctx context.Context, project coord.ProjectID) error {
	var p coordination.ChangesParams
	away := false
	for {
		got, err := call(ctx, a, coordination.ListChanges, p)
		switch {
		case ctx.Err() != nil:
			return nil // Ctrl-C is how this ends
		case errors.Is(err, rpc.ErrUnreachable) && p.After != nil:
			if !away {
				fmt.Fprintln(a.err, "the hub is unreachable; trying again")
			}
			away = true
			pause(ctx, watchRetry)
			continue
		case err != nil:
			return err
		}

		// The next call waits for changes after those of this answer.
		if p.After == nil {
			fmt.Fprintln(a.err, "watching")
		}
		away = false
		p.After, p.WaitS = &got.Next, watchWait

		for _, c := range got.Changes {
			if c.Kind != hub.ChangeContract || (project != "" && c.Project != project) {
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
		InContract: contract.Of(c.Project, coord.ContractID(c.Object)),
	})
	if err != nil {
		return err
	}
	return a.print(map[string]any{"change": c, "contract": got}, func(w io.Writer) {
		from := "here"
		if c.Origin != "" {
			from = "from " + string(c.Origin)
		}
		fmt.Fprintf(w, "%s %s version %d is %s (%s)\n", when(c.At), got.Name, got.Version, got.Status, from)
	})
}

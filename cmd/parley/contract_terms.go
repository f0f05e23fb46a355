package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/compat"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/operation/coordination"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/contract"
)

func (a *app) contractUseCommand() *cobra.Command {
	var p contract.Declaration
	cmd := &cobra.Command{
		Use: "use CONTRACT", Short: "Declare the parts of a contract that your repository uses",
		Long: `Declare that your repository is a consumer of a contract, and which parts of it the
repository uses. Without --part it uses everything. The verdict on each new version is
made for those parts, and a version that breaks them needs your agreement.

A part is a JSON pointer into the content, an operation such as "GET /users/{id}", or a
field such as User.avatar.`,
		Example: `  parley contract use "Get User" --repo frontend-app --part User.name --part User.avatar
  parley contract use "Get User" --repo frontend-app --remove`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().StringArrayVar(&p.Parts, "part", nil, "part that the repository uses (repeatable; default everything)")
	cmd.Flags().StringVar(&p.Source, "from", "", "file in which the use is declared, for the others to find")
	cmd.Flags().BoolVar(&p.Remove, "remove", false, "the repository does not use the contract any more")
	asFlag(cmd, &p.As)
	return operation(a, cmd, coordination.Use, &p, func(w io.Writer, got coordination.Declared) {
		u := got.Use
		if u.Removed {
			fmt.Fprintf(w, "%s does not use %s any more\n", u.Repository, u.Contract)
			return
		}
		fmt.Fprintf(w, "%s uses %s: %s\n", u.Repository, u.Contract, partsText(u.Parts))
		for _, warning := range u.Warnings {
			fmt.Fprintf(a.err, "note: %s\n", warning)
		}
	}, a.inContract(cmd, &p.InContract))
}

func (a *app) contractProviderCommand() *cobra.Command {
	var p contract.ProviderChange
	cmd := &cobra.Command{
		Use: "provider CONTRACT REPO", Short: "Change the repository that provides a contract",
		Long: `Ask that a repository provides a contract from now on. The present provider, the new one
and each consumer must consent: each of them with the same command. The operator consents
for all that have not answered. Until then the present provider keeps the contract.

With --direction the contract is also judged in another direction. While that is asked,
updates are judged in both directions, and none is agreed at once.`,
		Example: `  parley contract provider "Get User" accounts-api`,
		Args:    cobra.ExactArgs(2),
	}
	cmd.Flags().StringVar(&p.Flow, "direction", "", "who sends the documents of a schema: request (consumers), response (the provider) or both (default: as it is)")
	choices(cmd, "direction", compat.Directions...)
	asFlag(cmd, &p.As)
	return operation(a, cmd, coordination.Provide, &p, func(w io.Writer, got contract.Provided) {
		fmt.Fprintf(w, "%s is provided by %s\n", got.Contract, cmp.Or(got.Provider, "no repository"))
		if len(got.Missing) > 0 {
			fmt.Fprintf(w, "%s is to provide it; still to consent: %s\n", got.Wanted, strings.Join(got.Missing, ", "))
		}
	}, argument(1, &p.Provider), a.inContract(cmd, &p.InContract))
}

func (a *app) contractTestCommand() *cobra.Command {
	var p contract.TestChange
	cmd := &cobra.Command{
		Use: "test CONTRACT --repo REPO --check NAME", Short: "Name the check that is a repository's test of a contract",
		Long: `Name the check that is a repository's test of a contract (operator or owner of the
project). Only its runs count for parley contract can-merge and parley contract can-deploy; several checks
are the test together. Without one, all required checks of the repository are its test. A
check of CI has the name that a token is bound to.`,
		Example: `  parley contract test "Get User" --repo frontend-app --check contract-tests
  parley contract test "Get User" --repo frontend-app --check contract-tests --remove`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&p.Repo, "repo", "", "repository of the check")
	cmd.Flags().StringVar(&p.Check, "check", "", "name of the check")
	cmd.Flags().BoolVar(&p.Remove, "remove", false, "the check is no test of the contract any more")
	return operation(a, cmd, coordination.Test, &p, func(w io.Writer, got contract.Tests) {
		for _, t := range got.Tests {
			fmt.Fprintf(w, "%s is the test of %s in %s\n", t.Check, got.Contract, t.Repository)
		}
		if len(got.Tests) == 0 {
			fmt.Fprintf(w, "no check is named; all required checks of a repository are its test of %s\n", got.Contract)
		}
	}, a.inContract(cmd, &p.InContract))
}

func (a *app) contractEnvCommand() *cobra.Command {
	cmd := noun("env", "Declare the environments of a project", a.contractEnvListCommand(),
		a.contractEnvChangeCommand(coordination.AddEnvironment, &cobra.Command{Use: "add NAME", Short: "Declare an environment", Example: `  parley contract env add prod`}),
		a.contractEnvChangeCommand(coordination.RemoveEnvironment, &cobra.Command{Use: "remove NAME", Short: "Remove an environment"}))
	cmd.Long = `Declare the environments to which the repositories of a project are deployed (operator or
owner of the project). parley contract can-deploy and parley contract deployed know no others.`
	return cmd
}

func (a *app) contractEnvListCommand() *cobra.Command {
	var p coordination.ProjectParams
	cmd := &cobra.Command{Use: "list", Short: "List the environments and what runs there", Args: cobra.NoArgs}
	return operation(a, cmd, coordination.ListEnvironments, &p, writeEnvironments, a.inProject(cmd, &p.InProject))
}

// contractEnvChangeCommand completes the commands that declare and remove an environment.
func (a *app) contractEnvChangeCommand(change rpc.Operation[*coordination.Services, contract.EnvironmentChange, contract.Environments], cmd *cobra.Command) *cobra.Command {
	var p contract.EnvironmentChange
	cmd.Args = cobra.ExactArgs(1)
	if change.Method == coordination.RemoveEnvironment.Method {
		cmd.Flags().BoolVar(&p.Anyway, "anyway", false, "remove it although deployments are recorded there")
	}
	return operation(a, cmd, change, &p, writeEnvironments, argument(0, &p.Name), a.inProject(cmd, &p.InProject))
}

// writeEnvironments prints the environments of a project.
func writeEnvironments(w io.Writer, got contract.Environments) {
	writeList(w, "environments", "ENVIRONMENT, DECLARED, RUNS", got.Environments, func(e contract.EnvironmentState) []any {
		declared := "yes"
		if !e.Declared {
			declared = "no: parley contract env add " + e.Name
		}
		var runs []string
		for _, d := range e.Repositories {
			runs = append(runs, d.Repository+" "+shortCommit(d.Commit))
		}
		return []any{e.Name, declared, cmp.Or(strings.Join(runs, ", "), "-")}
	})
}

func (a *app) contractImpactCommand() *cobra.Command {
	var p contract.ImpactQuery
	cmd := &cobra.Command{
		Use: "impact CONTRACT", Short: "Show which consumers a change affects",
		Long: `Show the consumers of a contract and how a change affects each: the newest version
compared with the version in force, or a content that the contract might have next.`,
		Example: `  parley contract impact "Get User" --content @user.json`,
		Args:    cobra.ExactArgs(1),
	}
	return operation(a, cmd, coordination.Impact, &p, a.writeImpact, a.optionalContent(cmd, &p.Content), a.inContract(cmd, &p.InContract))
}

func (a *app) writeImpact(w io.Writer, got contract.Impact) {
	if len(got.Consumers) == 0 {
		fmt.Fprintf(w, "no repository declared that it uses %s\n", got.Contract)
	}
	for _, c := range got.Consumers {
		fmt.Fprintf(w, "%s: %s (uses %s%s)\n", c.Repository, a.paint(w, verdictColours[c.Verdict], string(c.Verdict)), partsText(c.Parts), declaredIn(c.Source))
		for _, f := range c.Findings {
			f.Verdict = f.IfUsed()
			fmt.Fprintf(w, "  %s at %s: %s\n", f.Rule, cmp.Or(f.Pointer, "the whole document"), f.Text)
		}
	}
	for _, e := range got.Ending {
		users := "no consumer uses it any more"
		if len(e.Users) > 0 {
			users = "still used by " + strings.Join(e.Users, ", ")
		}
		fmt.Fprintf(w, "%s: %s\n", e, users)
	}
}

// declaredIn names the file in which a use is declared.
func declaredIn(source string) string {
	if source == "" {
		return ""
	}
	return ", declared in " + source
}

func (a *app) contractPolicyCommand() *cobra.Command {
	var p contract.PolicyChange
	cmd := &cobra.Command{
		Use: "policy", Short: "Show or set what a project does about breaking updates",
		Long: `Show or set what a project does about updates that are not compatible: forbid refuses
them, ask (the default) needs the agreement of each affected consumer, and sunset asks
until the end of a day and allows them afterwards. Unknown counts as breaking.`,
		Example: `  parley contract policy --breaking forbid
  parley contract policy --breaking sunset --date 2026-12-31`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar((*string)(&p.Breaking), "breaking", "", "forbid, ask or sunset")
	cmd.Flags().StringVar(&p.Date, "date", "", "last day of a sunset, such as 2026-12-31 (UTC)")
	choices(cmd, "breaking", coord.BreakingPolicies...)
	return operation(a, cmd, coordination.Policy, &p, func(w io.Writer, got coordination.PolicyAnswer) {
		fmt.Fprintln(w, strings.TrimSpace(string(got.Policy.Breaking)+" "+got.Policy.Date))
	}, func(context.Context, []string) error {
		if cmd.Flags().Changed("breaking") && p.Breaking == "" {
			return usagef("--breaking needs a policy: %s", hub.JoinWords(coord.BreakingPolicies))
		}
		return nil
	}, a.inProject(cmd, &p.InProject))
}

func (a *app) contractDeprecateCommand() *cobra.Command {
	var p contract.Announcement
	cmd := &cobra.Command{
		Use: "deprecate CONTRACT --until DAY", Short: "Announce the end of a contract or a part of it",
		Example: `  parley contract deprecate "Get User" --part User.avatar --until 2026-12-31`,
		Args:    cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&p.Until, "until", "", "last day, such as 2026-12-31 (UTC)")
	partFlag(cmd, &p)
	return operation(a, cmd, coordination.Deprecate, &p, func(w io.Writer, got coordination.EndedContract) {
		fmt.Fprintf(w, "%s ends after %s\n", cmp.Or(p.Part, got.Name), p.Until)
		writeUsers(w, got.Users)
	}, a.inContract(cmd, &p.InContract))
}

func (a *app) contractWithdrawCommand() *cobra.Command {
	var p contract.Announcement
	cmd := &cobra.Command{
		Use: "withdraw CONTRACT", Short: "End a contract or a part of it",
		Long: `End a contract or a part of it. While consumers use it, the command is refused with
their names; with --anyway it ends, and they are told.`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().BoolVar(&p.Anyway, "anyway", false, "end it although consumers use it")
	partFlag(cmd, &p)
	return operation(a, cmd, coordination.Withdraw, &p, func(w io.Writer, got coordination.EndedContract) {
		fmt.Fprintf(w, "%s was withdrawn\n", cmp.Or(p.Part, got.Name))
		writeUsers(w, got.Users)
	}, a.inContract(cmd, &p.InContract))
}

// partFlag adds the flags of commands that end a part of a contract.
func partFlag(cmd *cobra.Command, into *contract.Announcement) {
	cmd.Flags().StringVar(&into.Part, "part", "", "part that ends (default the whole contract)")
	asFlag(cmd, &into.As)
}

// writeUsers prints the consumers that still use a part.
func writeUsers(w io.Writer, users []string) {
	if len(users) > 0 {
		fmt.Fprintf(w, "still used by %s\n", strings.Join(users, ", "))
	}
}
